from dataclasses import replace

import pytest

from policies.base import Allocations, ContainerKey, CpuKind, Grant, Pinning
from policies.errors import PolicyOptionsError
from policies.topology_aware.policy import TopologyAware
from sysfs.cpuset import CpuSet, NodeSet
from tests.fakes.machines import merge_nodes, small_machine
from tests.unit.policies.build import (
    BURSTABLE,
    GUARANTEED,
    before,
    fill,
    four_nodes,
    options,
    placed,
    request,
    topology_aware,
)
from tests.unit.policies.memory.build import tiered, wanting

POLICY = topology_aware(four_nodes(), "0")


def test_a_release_gives_the_cpus_back_to_those_who_share_them() -> None:
    held = fill(POLICY, request("s/c", 100, BURSTABLE, levels_up=2), request("a/c", 2000))
    (update,) = POLICY.release(held, ContainerKey("a", "c"))
    assert (update.container.pod_uid, str(update.pinning.cpus)) == ("s", "1-15")


def test_releasing_what_is_not_held_changes_nothing() -> None:
    assert POLICY.release(Allocations(), ContainerKey("a", "c")) == ()


def test_the_fallback_is_the_roots_shared_set() -> None:
    held = fill(POLICY, request("a/c", 2000))
    assert POLICY.fallback(held) == Pinning(CpuSet.parse("1-3,6-15"), NodeSet.parse("0-3"))


def test_the_fallback_leaves_hbm_to_those_who_ask_for_it() -> None:
    assert topology_aware(tiered()).fallback(Allocations()).mems == NodeSet.parse("0-3")


def test_the_fallback_names_no_memory_where_there_is_none() -> None:
    assert topology_aware(small_machine(memory=0)).fallback(Allocations()).mems is None


def test_a_container_that_made_room_comes_home_when_the_other_is_gone() -> None:
    """Nodes have 2 GiB: the Burstable container spreads for the Guaranteed one."""
    held = fill(POLICY, replace(wanting("b", 2), memory_limit_bytes=2 << 30, previous=before("NUMA node #1")))
    held = fill(POLICY, replace(wanting("g", 1, GUARANTEED), previous=before("NUMA node #1")), held=held)
    zones = {g.container.pod_uid: str(g.mems) for g in held.grants}
    assert zones == {"b": "0-1", "g": "1"}
    assert POLICY.narrowed(held) == ()
    (back,) = POLICY.narrowed(held.without(ContainerKey("g", "c")))
    assert (back.container.pod_uid, str(back.mems)) == ("b", "1")


def test_who_makes_room_is_moved_and_updated() -> None:
    held = fill(POLICY, replace(wanting("b", 2), memory_limit_bytes=2 << 30, previous=before("NUMA node #1")))
    decision = placed(POLICY.decide(held, replace(wanting("g", 1, GUARANTEED), previous=before("NUMA node #1"))))
    assert [str(g.mems) for g in decision.moved] == ["0-1"]
    assert [(u.container.pod_uid, str(u.pinning.mems)) for u in decision.updates] == [("b", "0-1")]


def test_a_cold_start_ends_once() -> None:
    policy = topology_aware(tiered())
    held = fill(policy, wanting("a", 1, cold_start_seconds=60))
    (warm,) = policy.after_cold_start(held, held.grants[0].container)
    assert (str(held.grants[0].mems), str(warm.mems), warm.is_cold) == ("2", "0,2", False)
    assert policy.after_cold_start(held.with_grants(warm), warm.container) == ()
    assert policy.after_cold_start(held, ContainerKey("nobody", "c")) == ()


def test_the_fallback_is_the_reserved_set_when_nothing_is_shared() -> None:
    assert str(POLICY.fallback(fill(POLICY, request("a/c", 15000))).cpus) == "0"


def test_the_fallback_names_no_cpu_when_every_one_is_owned() -> None:
    bare = topology_aware(four_nodes())
    assert bare.fallback(fill(bare, request("a/c", 16000))).cpus is None


def test_what_is_not_to_be_pinned_is_not_in_the_fallback() -> None:
    unpinned = topology_aware(four_nodes(), pin_cpu=False, pin_memory=False)
    assert unpinned.fallback(Allocations()) == Pinning(None, None)


def test_a_change_of_withheld_cpus_is_seen() -> None:
    assert POLICY.pools(Allocations())[2].shared_free_mcpu == 3000
    withheld = Allocations(withheld=CpuSet.parse("4-15"))
    assert len(placed(POLICY.decide(withheld, request("a/c", 3000))).grant.owned & CpuSet.parse("1-3")) == 3


def test_levels_that_do_not_nest_are_noted() -> None:
    machine = merge_nodes(small_machine(packages=1, dies=2), 0, 1)
    assert "NUMA node 0 does not lie inside one die" in topology_aware(machine).notes[0]


@pytest.mark.parametrize(
    ("isolated", "reserved", "note"),
    [
        ("0-3", "", "every available CPU (0-3) is kernel-isolated, none reserved: used as ordinary CPUs"),
        ("1-3", "0", "no available CPU is left to share: 0 reserved, the others (1-3) are kernel-isolated"),
        ("", "0-3", "no available CPU is left to share: 0-3 reserved, there are no others"),
        ("1-2", "0", ""),
    ],
)
def test_a_want_of_ordinary_cpus_is_noted(isolated: str, reserved: str, note: str) -> None:
    notes = topology_aware(small_machine(packages=1, isolated=isolated), reserved).notes
    assert [text.partition(";")[0] for text in notes] == ([note] if note else [])


def test_options_without_an_available_cpu_are_refused() -> None:
    machine = small_machine()
    with pytest.raises(PolicyOptionsError):
        TopologyAware(machine, options(machine, available=CpuSet()))


def test_a_release_writes_nothing_for_the_container_that_goes() -> None:
    held = fill(POLICY, request("a/c", 2500), request("b/c", 500, BURSTABLE))
    (other,) = [g.container for g in held.grants if g.container.pod_uid == "b"]
    assert {update.container for update in POLICY.release(held, ContainerKey("a", "c"))} <= {other}


def test_what_two_annotations_claim_is_not_taken_over_into_what_is_free() -> None:
    """One that was resized and one that came then: where both name a CPU, giving it back must not free the other's."""
    own = Grant(request("a/c", 1000), "NUMA node #1", CpuKind.EXCLUSIVE, CpuSet.parse("5"))
    claims = Grant(request("b/c", 2000), "NUMA node #1", CpuKind.EXCLUSIVE, CpuSet.parse("4-5"))
    sharer = Grant(request("s/c", 100, BURSTABLE), "NUMA node #1", CpuKind.SHARED, shared_mcpu=100)
    policy, held = topology_aware(four_nodes(), "0"), Allocations((own, claims, sharer))
    policy.at_live(held, (), {grant.container: grant.owned for grant in (own, claims)})
    pinnings = policy.pinnings(held.without(claims.container))
    assert pinnings == POLICY.pinnings(held.without(claims.container))
    assert str(pinnings[sharer.container].cpus) == "4,6-7"


@pytest.mark.parametrize("changed", [{"prefer_shared": True}, {"l3_pools": "true"}, {"reserved": CpuSet.parse("0-1")}])
def test_with_other_options_a_policy_decides_as_one_made_for_them(changed: dict[str, object]) -> None:
    machine = small_machine(cores=4, l3=["0-3", "4-7", "8-11", "12-15"])
    first = options(machine, "0")
    other = replace(first, **changed)  # type: ignore[arg-type]  # by name
    rebound, fresh = TopologyAware(machine, first).rebound(other), TopologyAware(machine, other)
    assert rebound.pools(Allocations()) == fresh.pools(Allocations())
    assert rebound.decide(Allocations(), request("a/c", 2000)) == fresh.decide(Allocations(), request("a/c", 2000))
