"""Devices of cost files in whole decisions, and through resizes, restarts and ends, on four nodes of four CPUs."""

from dataclasses import replace

import pytest

from policies.alignment import PodSums, TopologyOptions, TopologyPolicy, TopologyScope
from policies.base import Allocations, CpuKind, Grant, Request
from policies.device_grants import cost_names
from policies.devices.costs import NO_DEVICES
from policies.topology_aware.policy import TopologyAware
from sysfs.cpuset import CpuSet
from tests.fakes.device_policy import listed
from tests.unit.policies.build import (
    BEST_EFFORT,
    BURSTABLE,
    before,
    cpus,
    fill,
    four_nodes,
    placed,
    rejected,
    request,
    topology_aware,
)
from tests.unit.policies.cost_devices import GPU, NIC, asked, inventory, on_nodes, with_devices

MACHINE = four_nodes()
GPUS = on_nodes(MACHINE, GPU, [0, 0, 1, 1, 2, 2, 3, 3])
DEVICES = inventory([*GPUS, *on_nodes(MACHINE, NIC, [0, 3])], "example.com/fpga/f0-1")
NOTHING = Allocations()


def policy_of(policy: str = "none", scope: str = "container", **keys: object) -> TopologyAware:
    rules = TopologyOptions(TopologyPolicy(policy), TopologyScope(scope))
    return with_devices(MACHINE, DEVICES, "0", topology=rules, **keys)


PLAIN, SINGLE, RESTRICTED, LENIENT = map(policy_of, ("none", "single-numa-node", "restricted", "best-effort"))
POD = policy_of("single-numa-node", "pod")


def wanting(name: str, mcpu: int = 2000, previous: object = None, **counts: int) -> Request:
    return request(name, mcpu, devices=asked(**counts), previous=previous)


def devices(grant: Grant) -> str:
    return " ".join(name.removeprefix("example.com/") for name in cost_names(grant.devices))


def test_own_cpus_are_on_the_node_of_the_devices() -> None:
    grant = placed(PLAIN.decide(NOTHING, wanting("a/c", gpu=2, nic=1))).grant
    assert (devices(grant), str(grant.owned)) == ("gpu/0 gpu/1 nic/0", "2-3")


def test_shared_cpus_are_on_the_node_of_the_devices_too() -> None:
    held = fill(PLAIN, wanting("a/c", 3000, gpu=2, nic=1))
    grant = placed(PLAIN.decide(held, request("b/c", 500, BURSTABLE, devices=asked(nic=1)))).grant
    assert (devices(grant), grant.pool) == ("nic/1", "NUMA node #3")


def test_a_container_without_a_request_of_cpus_is_near_its_devices() -> None:
    wanted = request("a/c", 0, BEST_EFFORT, devices=asked(nic=1))
    assert placed(PLAIN.decide(NOTHING, wanted)).grant.pool in ("NUMA node #0", "NUMA node #3")


def test_no_device_is_given_twice_and_a_released_one_is_free_again() -> None:
    held = fill(PLAIN, *(wanting(f"{i}/c", 1000, nic=1) for i in range(2)))
    assert sorted(name for grant in held.grants for name in cost_names(grant.devices)) == [f"{NIC}/0", f"{NIC}/1"]
    refused = rejected(PLAIN.decide(held, wanting("new/c", nic=1)))
    assert refused.reason.text == f"wanted 1 of {NIC}, free 0 of 2; held: 1 by default/0/c, 1 by default/1/c"
    after = held.without(held.grants[0].container)
    assert placed(PLAIN.decide(after, wanting("new/c", nic=1))).grant.devices == held.grants[0].devices


def test_without_cost_files_a_wish_for_devices_is_refused() -> None:
    refused = rejected(topology_aware(MACHINE).decide(NOTHING, wanting("a/c", gpu=1)))
    assert refused.reason.code == "devices-unknown"


@pytest.mark.parametrize("keys", [{"namespace": "kube-system"}, {"preserve_cpu": True}], ids=["reserved", "preserved"])
def test_containers_of_every_kind_get_devices(keys: dict[str, object]) -> None:
    wanted = request("a/c", 100, devices=asked(gpu=1, nic=1), **keys)  # type: ignore[arg-type]  # by name
    assert len(placed(PLAIN.decide(NOTHING, wanted)).grant.devices) == 2


def test_a_reserved_container_that_overflows_has_devices() -> None:
    wanted = request("a/c", 2000, BURSTABLE, namespace="kube-system", devices=asked(nic=1))
    grant = placed(PLAIN.decide(NOTHING, wanted)).grant
    assert (grant.kind, len(grant.devices)) == (CpuKind.SHARED, 1)


def test_one_that_is_overcommitted_has_devices_too() -> None:
    held = fill(PLAIN, request("big/c", 14_000), request("rest/c", 1000, BURSTABLE))
    wanted = request("a/c", 500, BURSTABLE, devices=asked(gpu=1))
    refused = rejected(PLAIN.decide(held, wanted))
    grant = placed(PLAIN.overcommitted(held, wanted, refused)).grant
    assert grant.is_overcommitted
    assert len(grant.devices) == 1


def test_one_node_has_cpus_and_devices_under_single_numa_node() -> None:
    held = fill(SINGLE, wanting("a/c", 3000, nic=1))
    decision = placed(SINGLE.decide(held, wanting("b/c", gpu=2, nic=1)))
    assert (devices(decision.grant), str(decision.grant.request.alignment)) != ("", "None")
    nodes = decision.grant.request.alignment
    assert nodes is not None
    assert (devices(decision.grant), str(nodes.nodes)) == ("gpu/6 gpu/7 nic/1", "3")


def test_devices_of_no_single_node_are_refused_with_what_is_free_where() -> None:
    refused = rejected(SINGLE.decide(NOTHING, wanting("a/c", gpu=3))).reason
    assert refused.code == "strict-topology"
    assert "example.com/gpu: wanted 3 devices, free 2 on node 0, 2 on node 1, 2 on node 2, 2 on node 3" in refused.text


def test_best_effort_takes_them_from_elsewhere() -> None:
    assert len(placed(LENIENT.decide(NOTHING, wanting("a/c", gpu=3))).grant.devices) == 3
    assert rejected(RESTRICTED.decide(NOTHING, wanting("a/c", gpu=3))).reason.code == "strict-topology"


def test_a_pods_first_container_finds_the_nodes_for_the_sum() -> None:
    sums = PodSums(devices=(asked(gpu=2, nic=1),))
    held = fill(SINGLE, wanting("x/c", gpu=1, nic=1))
    first = replace(wanting("a/c", 1000, gpu=1), pod_sums=sums)
    held = fill(POD, first, held=held)
    second = placed(POD.decide(held, replace(wanting("a/d", 1000, gpu=1, nic=1), pod_sums=sums))).grant
    assert (devices(held.grants[0]), devices(second)) == ("gpu/6", "gpu/7 nic/1")


def test_a_pod_that_asks_for_more_devices_than_a_node_has_is_refused_with_its_sandbox() -> None:
    pod = replace(request("a/", 0), pod_sums=PodSums(devices=(asked(gpu=3),)))
    refused = POD.refused_pod(NOTHING, pod)
    assert refused is not None
    assert "example.com/gpu: wanted 3 devices" in refused.reason.text
    assert POD.refused_pod(NOTHING, replace(pod, pod_sums=PodSums(devices=(asked(gpu=2),)))) is None


def test_a_pods_later_container_finds_too_few_on_its_nodes() -> None:
    held = fill(POD, wanting("a/c", 1000, gpu=1))
    held = fill(SINGLE, wanting("b/c", 1000, gpu=1), held=held)
    refused = rejected(POD.decide(held, wanting("a/d", 500, gpu=1))).reason
    assert refused.code == "strict-topology"
    assert "free 0 there" in refused.text


def test_a_strict_wish_for_devices_rules_out_other_nodes() -> None:
    held = fill(PLAIN, *(request(f"{i}/c", 3500, localities=()) for i in range(4)))
    wanted = replace(wanting("a/c", 2000, nic=2))
    strict = replace(wanted, preferences=replace(wanted.preferences, strict_locality=True))
    assert rejected(PLAIN.decide(held, strict)).reason.code in ("strict-hints", "cpu-full")
    grant = placed(PLAIN.decide(NOTHING, strict)).grant
    assert len(grant.owned & CpuSet.parse("1-3")) == len(grant.owned & CpuSet.parse("12-15")) == 1


@pytest.mark.parametrize("mcpu", [1000, 3000])
def test_a_new_size_changes_no_device(mcpu: int) -> None:
    held = fill(PLAIN, wanting("a/c", gpu=2))
    grant = held.grants[0]
    resized = replace(grant.request, cpu_request_mcpu=mcpu, previous=grant.as_running)
    after = placed(PLAIN.decide(held, resized)).grant
    assert (after.devices, after.request.localities) == (grant.devices, grant.request.localities)
    other = placed(topology_aware(MACHINE, "0").decide(held, resized)).grant
    assert (other.devices, other.request.localities) == (grant.devices, grant.request.localities)


def test_a_container_that_runs_without_devices_gets_none_by_a_new_size() -> None:
    held = fill(topology_aware(MACHINE, "0"), request("a/c", 1000))
    resized = wanting("a/c", 2000, previous=held.grants[0].as_running, gpu=1)
    assert placed(PLAIN.decide(held, resized)).grant.devices == ()
    again = wanting("a/c", 2000, previous=held.grants[0].as_previous, gpu=1)
    assert len(placed(PLAIN.decide(held, again)).grant.devices) == 1


def test_a_new_attempt_gets_the_devices_of_the_last_one() -> None:
    had = replace(before("NUMA node #2", "8-9"), devices=listed(f"{GPU}/5"))
    decision = placed(PLAIN.decide(NOTHING, wanting("a/c", previous=had, gpu=1)))
    assert (devices(decision.grant), str(decision.grant.owned)) == ("gpu/5", "8-9")
    assert "devices-kept" in [reason.code for reason in decision.reasons]


def test_a_restart_changes_nothing_whatever_the_cost_files_say_now() -> None:
    held = fill(SINGLE, wanting("a/c", gpu=2), wanting("b/c", 500, nic=1), request("d/c", 1000))
    for found in (DEVICES, NO_DEVICES, inventory([(f"{GPU}/7", 9, "cpu/cpu0-3")])):
        policy = with_devices(MACHINE, found, "0", topology=TopologyOptions(TopologyPolicy.SINGLE_NUMA_NODE))
        again = policy.reinstate(held)
        assert (again.allocations, again.replaced) == (held, ())
        assert policy.pinnings(again.allocations) == SINGLE.pinnings(held)


def test_a_grant_that_is_placed_again_keeps_its_devices() -> None:
    held = fill(PLAIN, wanting("a/c", gpu=2))
    less = with_devices(MACHINE, NO_DEVICES, available=CpuSet(MACHINE.online.mask & ~held.grants[0].owned.mask))
    (grant,) = less.reinstate(held).allocations.grants
    assert grant.devices == held.grants[0].devices
    assert grant.owned != held.grants[0].owned


def test_one_that_shares_the_root_for_want_of_room_keeps_its_devices() -> None:
    held = fill(PLAIN, wanting("a/c", 3000, gpu=2))
    less = with_devices(MACHINE, DEVICES, available=CpuSet.parse("0-1"))
    found = less.reinstate(held)
    assert [key.pod_uid for key, _ in found.unplaced] == ["a"]
    assert found.allocations.grants[0].devices == held.grants[0].devices


def test_a_device_of_two_saved_grants_is_free_when_both_have_ended() -> None:
    """Both containers run and have it open. The less urgent one is told, and gets another when it is created again."""
    held = fill(PLAIN, wanting("a/c", gpu=1))
    both = (*held.grants[0].devices, *listed("x/y/z"))
    rival = Grant(request("b/c", 500, BURSTABLE), "root", CpuKind.SHARED, shared_mcpu=500, devices=both)
    found = PLAIN.reinstate(held.with_grants(rival))
    first, second = found.allocations.grants
    assert (first.devices, second.devices) == (held.grants[0].devices, both)
    ((key, reason),) = found.replaced
    assert (key.pod_uid, reason.code) == ("b", "devices-lost")
    assert "also held by default/a/c: counted for both" in reason.text
    every = wanting("n/c", 500, gpu=8)
    left = found.allocations.without(first.container)
    assert rejected(PLAIN.decide(left, every)).reason.code == "devices-short"
    assert placed(PLAIN.decide(left.without(second.container), every)).grant.devices
    again = replace(request("b/c", 500, BURSTABLE, devices=asked(gpu=1)), previous=second.as_previous)
    others = found.allocations.without(second.container)
    assert first.devices[0] not in placed(PLAIN.decide(others, again)).grant.devices


def test_a_container_found_running_has_the_devices_of_its_record_and_no_others() -> None:
    had = replace(before("root"), devices=listed(f"{GPU}/5"))
    found = PLAIN.reinstate(NOTHING, [wanting("a/c", 500, previous=had, gpu=1), wanting("b/c", 500, gpu=1)])
    assert [grant.devices for grant in found.allocations.grants] == [listed(f"{GPU}/5"), ()]


def test_devices_that_the_policy_none_left_with_a_container_are_not_given_to_others() -> None:
    preserved = Grant(wanting("a/c", 500, gpu=1), "", CpuKind.PRESERVE, devices=listed(f"{GPU}/0"))
    found = PLAIN.reinstate(NOTHING.with_grants(preserved))
    assert found.allocations.grants[0].devices == listed(f"{GPU}/0")
    decision = placed(PLAIN.decide(found.allocations, wanting("b/c", 1000, gpu=7)))
    assert f"{GPU}/0" not in cost_names(decision.grant.devices)


def test_a_shared_pool_follows_the_devices_when_it_is_looked_for_again() -> None:
    held = fill(PLAIN, request("a/c", 500, BURSTABLE, devices=asked(nic=1)))
    assert not PLAIN.better_places(held).grants
    assert cpus(PLAIN, held, "a/c") in ("1-3", "12-15")


@pytest.mark.parametrize("keys", [{"namespace": "kube-system"}, {"preserve_cpu": True}], ids=["reserved", "preserved"])
def test_a_new_size_changes_no_device_of_kinds_without_a_place(keys: dict[str, object]) -> None:
    held = fill(PLAIN, request("a/c", 100, devices=asked(gpu=1), **keys))  # type: ignore[arg-type]  # by name
    grant = held.grants[0]
    resized = replace(grant.request, cpu_request_mcpu=5000, previous=grant.as_running)
    other = with_devices(MACHINE, inventory([(f"{GPU}/7", 9, "cpu/cpu0-3")]), "0")
    after = placed(other.decide(held, resized)).grant
    assert (after.devices, after.request.previous) == (grant.devices, None)


@pytest.mark.parametrize("runs", [True, False], ids=["resized", "created-again"])
def test_a_container_that_is_let_in_without_room_keeps_the_devices_that_it_had(runs: bool) -> None:
    """By other cost files others are the cheapest, and those that it runs with are listed no more."""
    was = placed(PLAIN.decide(NOTHING, request("a/c", 500, BURSTABLE, devices=asked(gpu=1)))).grant
    gpus = [(f"{GPU}/{i}", int(i != 7), "cpu/cpu0-15") for i in range(1 if runs else 0, 8)]
    policy = with_devices(MACHINE, inventory(gpus), "0")
    held = fill(policy, *(request(f"full{i}/c", 2000, BURSTABLE) for i in range(7)))
    held = held.with_grants(was) if runs else held
    again = replace(was.request, cpu_request_mcpu=9000, previous=was.as_running if runs else was.as_previous)
    refusal = rejected(policy.decide(held, again))
    grant = placed(policy.overcommitted(held, again, refusal)).grant
    assert (grant.is_overcommitted, grant.devices) == (True, was.devices) == (True, listed(f"{GPU}/0"))
