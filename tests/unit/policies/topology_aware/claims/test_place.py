"""A container gets exactly the CPUs that another allocator chose, or is told what is in the way."""

from dataclasses import replace

import pytest

from policies.base import Allocations, CpuKind, Placed, Previous, Request
from policies.claims import CpuClaim
from policies.preferences import Threads
from policies.topology_aware.claims.place import available_part
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.model import MemoryKind
from tests.fakes.device_policy import listed
from tests.unit.policies.build import (
    BURSTABLE,
    GUARANTEED,
    cpus,
    fill,
    four_nodes,
    options,
    placed,
    rejected,
    request,
    topology_aware,
    tree_of,
)

MACHINE = four_nodes()
POLICY = topology_aware(MACHINE, "0")
NOTHING = Allocations()


def claimed(name: str, listed: str, mcpu: int = 0, mems: str = "", **keys: object) -> Request:
    claim = CpuClaim(CpuSet.parse(listed), f"DRA_CPUSET_{name[0]}", NodeSet.parse(mems))
    return request(name, mcpu or 1000 * len(claim.cpus), GUARANTEED, claim=claim, **keys)


def codes(decision: Placed) -> list[str]:
    return [reason.code for reason in decision.reasons]


def test_it_owns_the_claimed_cpus_in_the_narrowest_pool_that_has_them() -> None:
    grant = placed(POLICY.decide(NOTHING, claimed("a/c", "4,6-7"))).grant
    assert (grant.kind, str(grant.exclusive), grant.pool, grant.mems) == (
        CpuKind.EXCLUSIVE, "4,6-7", "NUMA node #1", NodeSet.parse("1"),
    )  # fmt: skip


def test_a_claim_across_packages_is_in_the_root() -> None:
    grant = placed(POLICY.decide(NOTHING, claimed("a/c", "7-8"))).grant
    assert (grant.pool, grant.mems) == ("root", NodeSet.parse("1-2"))


def test_isolated_cpus_of_a_claim_are_owned_as_such() -> None:
    policy = topology_aware(four_nodes(isolated="6-7"), "0")
    both = placed(policy.decide(NOTHING, claimed("a/c", "5-6"))).grant
    alone = placed(policy.decide(NOTHING, claimed("a/c", "6-7"))).grant
    assert (both.kind, str(both.exclusive), str(both.isolated)) == (CpuKind.EXCLUSIVE, "5", "6")
    assert (alone.kind, str(alone.isolated)) == (CpuKind.ISOLATED, "6-7")


def test_containers_that_share_leave_claimed_cpus() -> None:
    held = fill(POLICY, request("s/c", 1500, BURSTABLE))
    assert cpus(POLICY, held, "s/c") == "8-15"
    held = fill(POLICY, claimed("a/c", "9-11"), held=held)
    assert cpus(POLICY, held, "s/c") == "8,12-15"


def test_a_share_that_no_longer_fits_moves_to_a_wider_pool() -> None:
    held = fill(POLICY, request("s/c", 1500, BURSTABLE))
    decision = placed(POLICY.decide(held, claimed("a/c", "9-15")))
    assert [(grant.container.pod_uid, grant.pool) for grant in decision.moved] == [("s", "root")]
    assert "lifted" in codes(decision)


def test_the_nodes_that_were_chosen_with_the_cpus_are_its_memory() -> None:
    grant = placed(POLICY.decide(NOTHING, claimed("a/c", "4-5", mems="3"))).grant
    assert (str(grant.exclusive), grant.mems) == ("4-5", NodeSet.parse("3"))


def test_a_request_of_another_size_is_a_reason_and_no_refusal() -> None:
    decision = placed(POLICY.decide(NOTHING, claimed("a/c", "4-7", mcpu=2000)))
    assert (str(decision.grant.exclusive), "claim-size" in codes(decision)) == ("4-7", True)


@pytest.mark.parametrize("mcpu", [0, 4000])
def test_a_request_of_the_same_size_or_of_none_needs_no_word(mcpu: int) -> None:
    decision = placed(POLICY.decide(NOTHING, replace(claimed("a/c", "4-7"), cpu_request_mcpu=mcpu)))
    assert [code for code in codes(decision) if code.startswith("claim")] == ["claimed"]


def test_hidden_hyperthreads_take_no_cpu_from_a_claim() -> None:
    policy = topology_aware(MACHINE, "0", threads=Threads.HIDE)
    held = fill(policy, claimed("a/c", "4-7"))
    assert cpus(policy, held, "a/c") == "4-7"


def test_a_reserved_namespace_does_not_change_where_a_claim_is() -> None:
    grant = placed(POLICY.decide(NOTHING, claimed("a/c", "4-5", namespace="kube-system"))).grant
    assert (grant.kind, str(grant.exclusive)) == (CpuKind.EXCLUSIVE, "4-5")


def test_a_preserved_cpuset_is_left_alone_whatever_was_chosen() -> None:
    grant = placed(POLICY.decide(NOTHING, claimed("a/c", "4-5", preserve_cpu=True))).grant
    assert (grant.kind, grant.owned) == (CpuKind.PRESERVE, CpuSet())


@pytest.mark.parametrize(
    ("listed", "words"),
    [
        ("14-16", "of which CPU 16 is not on this machine, which has 0-15"),
        ("0-1", "of which CPU 0 is reserved for the system"),
        ("11-12", "of which CPU 12 is offline"),
        ("9-10", "of which CPU 10 is not among the available ones"),
    ],
)
def test_cpus_that_nobody_can_have_are_a_refusal_that_names_them(listed: str, words: str) -> None:
    machine = four_nodes(offline="12")
    policy = topology_aware(machine, "0", available=machine.online - CpuSet.parse("10"))
    reason = rejected(policy.decide(NOTHING, claimed("a/c", listed))).reason
    assert reason.code == "claim-refused"
    assert f"DRA_CPUSET_a claims CPUs {listed}, {words}" in reason.text


def test_cpus_of_an_owner_are_a_refusal_that_names_both_sides() -> None:
    held = fill(POLICY, request("o/main", 2000))
    reason = rejected(POLICY.decide(held, claimed("a/c", "4-7"))).reason
    assert "DRA_CPUSET_a claims CPUs 4-7, of which CPUs 4-5 are owned by o/main" in reason.text


def test_two_claims_of_the_same_cpus_are_a_refusal() -> None:
    held = fill(POLICY, claimed("a/c", "4-5"))
    reason = rejected(POLICY.decide(held, claimed("b/c", "5-6"))).reason
    assert "CPU 5 is owned by a/c (by DRA_CPUSET_a)" in reason.text


def test_a_claim_that_leaves_too_few_shared_cpus_is_refused() -> None:
    policy = topology_aware(MACHINE, "0")
    held = fill(policy, *(request(f"{n}/c", 3500, BURSTABLE) for n in range(4)))
    reason = rejected(policy.decide(held, claimed("a/c", "4-7"))).reason
    assert "too few are left for containers that share, which were granted 14000m" in reason.text


def test_cpus_that_foreign_cpusets_use_too_are_granted_with_a_word() -> None:
    held = Allocations(withheld=CpuSet.parse("3-5"))
    decision = placed(POLICY.decide(held, claimed("a/c", "4-7")))
    texts = {reason.code: reason.text for reason in decision.reasons}
    assert str(decision.grant.exclusive) == "4-7"
    assert texts["claim-contested"].startswith("CPUs 4-5: containers with a cpuset of their own")


@pytest.mark.parametrize("previous", [None, Previous("", CpuSet(), devices=listed("x/gpu0"))])
def test_it_has_no_other_cpus_to_go_to_when_others_cannot_leave_its_own(previous: Previous | None) -> None:
    held = replace(fill(POLICY, claimed("a/c", "4-5")), withheld=CpuSet.parse("3,5"))
    reason = rejected(POLICY.decide(held, claimed("a/c", "4-5", previous=previous))).reason
    assert "DRA_CPUSET_a claims CPUs 4-5; other containers could not be moved from CPU 5," in reason.text


def test_it_stays_where_others_cannot_leave_cpus_that_are_not_its_own() -> None:
    held = replace(fill(POLICY, claimed("a/c", "4-5")), withheld=CpuSet.parse("3,6"))
    assert str(placed(POLICY.decide(held, claimed("a/c", "4-5"))).grant.exclusive) == "4-5"


def test_a_resize_or_the_return_of_its_cpus_leaves_it_where_foreign_cpusets_are_too() -> None:
    held = replace(fill(POLICY, claimed("a/c", "4-5")), withheld=CpuSet.parse("5"))
    own = held.grants[0]
    resized = claimed("a/c", "4-5", mcpu=3000, previous=own.as_running)
    without = replace(held, grants=(replace(own, kind=CpuKind.SHARED, exclusive=CpuSet()),))
    for grants, asked in ((held, resized), (without, claimed("a/c", "4-5"))):
        assert str(placed(POLICY.decide(grants, asked)).grant.exclusive) == "4-5"


def test_another_claim_replaces_the_one_that_it_had() -> None:
    held = fill(POLICY, claimed("a/c", "4-5"))
    other = replace(claimed("a/c", "6-7"), previous=held.grants[0].as_running)
    assert str(placed(POLICY.decide(held, other)).grant.exclusive) == "6-7"


def test_memory_that_it_may_not_do_without_refuses_a_claim_too() -> None:
    wish = claimed("a/c", "4-5", memory_kinds=(MemoryKind.HBM,), strict_memory=True)
    assert rejected(POLICY.decide(NOTHING, wish)).reason.code == "strict-memory"


def test_a_resize_keeps_the_claimed_cpus() -> None:
    held = fill(POLICY, claimed("a/c", "4-5"))
    own = held.grants[0]
    again = claimed("a/c", "4-5", mcpu=6000, previous=own.as_running)
    assert str(placed(POLICY.decide(held, again)).grant.exclusive) == "4-5"


def test_what_others_get_later_is_never_of_a_claim() -> None:
    held = fill(POLICY, claimed("a/c", "4-5"), claimed("b/c", "2"), request("o/c", 12000))
    owned = {grant.container.pod_uid: grant.owned for grant in held.grants}
    assert owned["o"].isdisjoint(owned["a"] | owned["b"])


def test_releasing_a_claim_gives_its_cpus_back() -> None:
    held = fill(POLICY, request("s/c", 1500, BURSTABLE), claimed("a/c", "9-11"))
    assert [str(u.pinning.cpus) for u in POLICY.release(held, held.grants[0].container)] == ["8-15"]


def test_reserved_and_unavailable_cpus_of_a_claim_cannot_be_had() -> None:
    tree = tree_of(MACHINE, "0", available=options(MACHINE).available - CpuSet.parse("3"))
    assert str(available_part(tree, CpuClaim(CpuSet.parse("0-4,99"), "x"))) == "1-2,4"
