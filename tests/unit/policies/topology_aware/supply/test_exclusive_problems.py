from dataclasses import replace

import pytest

from policies.answers import Condition
from policies.base import ContainerKey, CpuKind, Grant, Placed, Request
from policies.none import NonePolicy
from policies.options import PolicyOptions
from policies.pod_share import PodShare
from policies.topology_aware.supply.demand import SharingRule, sharing_rule
from sysfs.cpuset import CpuSet
from tests.unit.policies.build import BEST_EFFORT, BURSTABLE, fill, four_nodes, options, request, topology_aware

MACHINE = four_nodes()


def conditions(asked: Request, *others: Request, **keys: object) -> tuple[Condition, ...]:
    """What keeps this container from its own CPUs once it has been placed."""
    policy = topology_aware(MACHINE, "0", **keys)
    held = fill(policy, *others)
    decision = policy.decide(held, asked)
    if not isinstance(decision, Placed):
        decision = policy.overcommitted(held, asked, decision)
    assert isinstance(decision, Placed)
    return policy.not_exclusive(decision.grant)


def codes(asked: Request, *others: Request, **keys: object) -> list[str]:
    return [condition.code for condition in conditions(asked, *others, **keys)]


def test_one_that_has_what_it_asks_for_has_no_condition() -> None:
    assert conditions(request("a/c", 2000)) == ()
    assert conditions(request("a/c", 2000, BURSTABLE, prefer_shared=False)) == ()
    assert conditions(request("a/c", 2000, require_isolated=False), prefer_shared=False) == ()


def test_the_qos_class_keeps_a_container_shared_with_both_ways_out() -> None:
    (condition,) = conditions(request("a/c", 2000, BURSTABLE))
    assert condition.text == "the QoS class of its pod is Burstable, not Guaranteed"
    assert (
        "equal to their limits in all containers of the pod, or annotate it with prefer-shared-cpus: false"
        in condition.remedy
    )


@pytest.mark.parametrize(
    ("asked", "keys", "expected"),
    [
        (request("a/c", 0, BEST_EFFORT), {}, ["qos", "no-request"]),
        (request("a/c", 500), {}, ["fraction"]),
        (request("a/c", 2500), {}, ["fraction"]),
        (request("a/c", 500, BURSTABLE), {}, ["qos", "fraction"]),
        (request("a/c", 2000, levels_up=1), {}, ["annotation"]),
        (request("a/c", 2000, prefer_shared=True), {}, ["annotation"]),
        (request("a/c", 2000), {"prefer_shared": True}, ["option"]),
        (request("a/c", 2000, prefer_isolated=True), {"prefer_shared": True}, ["isolated"]),
        (request("a/c", 2000), {"pin_cpu": False}, ["not-pinned"]),
        (request("a/c", 2000, namespace="kube-system"), {}, ["namespace"]),
        (request("a/c", 2000, prefer_reserved=True), {}, ["annotation"]),
        (request("a/c", 2000, preserve_cpu=True), {}, ["preserved"]),
    ],
)
def test_each_condition_is_told(asked: Request, keys: dict[str, object], expected: list[str]) -> None:
    assert codes(asked, **keys) == expected


def test_a_fraction_names_the_whole_numbers_beside_it() -> None:
    (condition,) = conditions(request("a/c", 2500))
    assert (condition.text, condition.remedy) == ("it requests 2500m: 500m are no whole CPU", "request 2 or 3 CPUs")


def test_the_option_that_reserves_a_namespace_is_named() -> None:
    (condition,) = conditions(request("a/c", 2000, namespace="infra-1"), reserved_namespaces=("infra-*",))
    assert (
        "namespace infra-1 runs on the reserved CPUs (topologyAware.ReservedPoolNamespaces: infra-*)" in condition.text
    )


def test_an_overcommitted_container_is_told_that_there_was_no_room() -> None:
    asked = request("b/c", 9000, BURSTABLE)
    assert codes(asked, request("a/c", 8000, BURSTABLE)) == ["qos", "overcommitted"]


def test_cpus_of_a_pod_are_not_the_containers_own() -> None:
    policy, asked = topology_aware(MACHINE, "0"), request("a/c", 2000)
    grant = Grant(asked, "NUMA node #0", CpuKind.EXCLUSIVE, CpuSet.parse("1-2"), share=PodShare(cpu_mcpu=2000))
    assert [condition.code for condition in policy.not_exclusive(grant)] == ["pod-level"]


def test_one_whose_own_cpus_were_given_up_is_told_so() -> None:
    grant = Grant(request("a/c", 2000), "root", CpuKind.SHARED, shared_mcpu=2000)
    (condition,) = topology_aware(MACHINE).not_exclusive(grant)
    assert condition.code == "no-room"
    assert "or was placed under other options" in condition.text


def test_the_annotation_is_named_that_set_it() -> None:
    asked = replace(request("a/c", 2000, prefer_shared=True), origins=(("prefer_shared", "cri-proxy.io/prefer"),))
    assert conditions(asked)[0].text == "it prefers shared CPUs, by cri-proxy.io/prefer"
    partly = conditions(request("a/c", 2000, prefer_shared=True))[0]  # as a cpu.preserve that does not count in full
    assert partly.text == "it prefers shared CPUs, by an annotation (see annotations ignored)"


def test_the_rule_is_that_of_the_demand() -> None:
    plain = options(MACHINE)
    assert sharing_rule(request("a/c", 2000), plain) is None
    assert sharing_rule(request("a/c", 2000, BURSTABLE, require_isolated=True), plain) is None
    assert sharing_rule(request("a/c", 2000, BURSTABLE), plain) is SharingRule.QOS


def test_the_policy_that_pins_nothing_says_so() -> None:
    policy = NonePolicy(MACHINE, PolicyOptions(MACHINE.online, CpuSet()))
    grant = Grant(request("a/c", 2000), "", CpuKind.PRESERVE)
    assert [condition.code for condition in policy.not_exclusive(grant)] == ["policy"]
    assert grant.container == ContainerKey("a", "c")
