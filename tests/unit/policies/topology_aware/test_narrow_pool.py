from dataclasses import replace

import pytest

from policies.base import Allocations, ContainerKey, CpuKind, DeviceLocality, Grant, Request
from policies.topology_aware.narrow import RANKED
from policies.topology_aware.policy import TopologyAware
from sysfs.cpuset import CpuSet, NodeSet
from tests.unit.policies.build import before, fill, four_nodes, options, placed, request, topology_aware
from tests.unit.policies.memory.build import GIB

POLICY = topology_aware(four_nodes(), "0")  # four nodes of four CPUs and 2 GiB


def resized(policy: TopologyAware, wanted: Request, *sizes_mcpu: int, held: Allocations | None = None) -> Allocations:
    """What is granted after this container has had these sizes one after the other."""
    held = held or Allocations()
    for mcpu in sizes_mcpu:
        grant = held.get(wanted.container)
        again = replace(wanted, cpu_request_mcpu=mcpu, previous=grant.as_previous if grant else None)
        held = fill(policy, again, held=held)
    return held


def narrowed(policy: TopologyAware, held: Allocations) -> dict[str, tuple[str, str, str]]:
    """Who narrows: pool, own CPUs and memory nodes afterwards."""
    return {g.container.pod_uid: (g.pool, str(g.owned), str(g.mems)) for g in policy.narrowed(held)}


def own(held: Allocations) -> Grant:
    return next(g for g in held.grants if g.container.pod_uid == "a")


def test_an_owner_that_grew_over_its_node_and_shrank_again_goes_back_to_it() -> None:
    held = resized(POLICY, request("a/c"), 2000, 3000, 11000, 1000)
    assert (own(held).pool, str(own(held).owned), str(own(held).mems)) == ("root", "4", "0-2")
    assert narrowed(POLICY, held) == {"a": ("NUMA node #1", "4", "1")}


def test_it_stays_where_it_is_once_it_is_there() -> None:
    held = resized(POLICY, request("a/c"), 2000, 11000, 1000)
    assert POLICY.narrowed(held.with_grants(*POLICY.narrowed(held))) == ()


def test_one_whose_cpus_no_narrower_pool_has_stays() -> None:
    assert narrowed(POLICY, resized(POLICY, request("a/c"), 2000, 11000)) == {}


def test_a_fraction_goes_along_where_the_narrower_pool_has_room_for_it() -> None:
    held = resized(POLICY, request("a/c"), 2000, 11000, 1500)
    assert narrowed(POLICY, held) == {"a": ("NUMA node #1", "4", "1")}
    full = fill(POLICY, request("b/c", 2700, previous=before("NUMA node #1", "5-6")), held=held)
    assert narrowed(POLICY, full) == {"a": ("socket #0", "4", "0-1")}


def test_two_fractions_do_not_count_on_the_same_room() -> None:
    held = Allocations()
    for name in "ab":
        held = resized(POLICY, request(f"{name}/c"), 1000, held=held)
    wide = replace(own(held), pool="root", kind=CpuKind.MIXED, shared_mcpu=800, mems=NodeSet.parse("0-3"))
    ours = tuple(
        replace(
            wide,
            exclusive=CpuSet.parse(cpus),
            request=replace(grant.request, cpu_request_mcpu=1800, previous=before("root", cpus)),
        )
        for grant, cpus in zip(held.grants, ("4", "5"), strict=True)
    )
    other = fill(POLICY, request("c/c", 1000, previous=before("NUMA node #1", "6")), held=Allocations(ours))
    after = other.with_grants(*POLICY.narrowed(other))
    assert [g.pool for g in after.grants] == ["NUMA node #1", "socket #0", "NUMA node #1"]
    assert POLICY.reinstate(after).kept == tuple(g.container for g in after.grants)


def test_a_limit_that_only_a_wider_pool_holds_keeps_it_there() -> None:
    asked = request("a/c", memory_request_bytes=GIB, memory_limit_bytes=3 * GIB)
    assert narrowed(POLICY, resized(POLICY, asked, 1000, 11000, 1000)) == {"a": ("socket #1", "8", "2-3")}


def test_isolated_cpus_elsewhere_do_not_keep_it_in_a_wide_pool() -> None:
    policy = topology_aware(four_nodes(isolated="12-15"), "0")
    held = resized(policy, request("a/c", prefer_isolated=False), 2000, 11000, 1000)
    wanting = replace(own(held), request=replace(own(held).request, preferences=request().preferences))
    assert own(held.with_grants(wanting)).pool == "root"
    assert list(narrowed(policy, held.with_grants(wanting))) == ["a"]


def test_devices_far_apart_keep_it_in_the_pool_that_a_fresh_decision_gives() -> None:
    hints = tuple(DeviceLocality(f"/dev/{n}", CpuSet(), NodeSet.parse(n)) for n in "13")
    asked = request("a/c", localities=hints)
    fresh = placed(POLICY.decide(Allocations(), replace(asked, cpu_request_mcpu=1000))).grant.pool
    held = resized(POLICY, asked, 1000, 11000, 1000)
    assert own(held.with_grants(*POLICY.narrowed(held))).pool == fresh


def test_who_was_never_resized_is_in_the_pool_that_was_chosen_for_it_and_only_its_memory_narrows() -> None:
    held = resized(POLICY, request("a/c"), 2000, 11000, 1000)
    fresh = replace(own(held), request=replace(own(held).request, previous=None))
    assert narrowed(POLICY, held.with_grants(fresh)) == {"a": ("root", "4", "1")}


def test_memory_that_has_no_room_there_stays_wide() -> None:
    asked = request("a/c", memory_request_bytes=GIB, memory_limit_bytes=GIB)
    held = resized(POLICY, asked, 2000, 11000, 1000)
    full = request("b/c", 1000, previous=before("NUMA node #1", "5"), memory_request_bytes=2 * GIB)
    held = fill(POLICY, replace(full, memory_limit_bytes=2 * GIB), held=held)
    assert own(held.with_grants(*POLICY.narrowed(held))).mems == NodeSet.parse("0-1")


@pytest.mark.parametrize("count", [RANKED, RANKED + 1])
def test_so_many_are_looked_at_in_one_call_and_the_next_call_goes_on(count: int) -> None:
    policy = TopologyAware(four_nodes(), options(four_nodes()))
    grants = [
        Grant(replace(request(f"p{n}/c", 1000), previous=before("root")), "root", CpuKind.EXCLUSIVE,
              CpuSet.of([n]), mems=NodeSet.parse("0-3"))
        for n in range(count)
    ]  # fmt: skip
    held = Allocations().with_grants(*grants)
    for _ in range(4):
        held = held.with_grants(*policy.narrowed(held))
    assert {g.container for g in held.grants if g.pool != "root"} == {ContainerKey(f"p{n}", "c") for n in range(count)}


def in_root(name: str, cpu: int, memory_bytes: int = 0, **keys: object) -> Grant:
    """An owner of one CPU that came to the root when it was lifted or resized."""
    asked = request(f"{name}/c", 1000, memory_request_bytes=memory_bytes, memory_limit_bytes=memory_bytes)
    plain = Grant(asked, "root", CpuKind.EXCLUSIVE, CpuSet.of([cpu]), mems=NodeSet.parse("0-3"))
    return replace(plain, **keys)  # type: ignore[arg-type]  # the keys are those of the class


def test_one_whose_fraction_was_lifted_goes_back_with_it() -> None:
    lifted = in_root("a", 4, kind=CpuKind.MIXED, shared_mcpu=500)
    lifted = replace(lifted, request=replace(lifted.request, cpu_request_mcpu=1500))
    assert narrowed(POLICY, Allocations((lifted,))) == {"a": ("NUMA node #1", "4", "1")}


def test_one_without_cpus_of_its_own_keeps_its_pool() -> None:
    sharer = in_root("a", 4, kind=CpuKind.SHARED, exclusive=CpuSet(), shared_mcpu=500)
    sharer = replace(sharer, request=replace(sharer.request, previous=before("root")))
    held = Allocations((sharer,))
    assert {g.pool for g in held.with_grants(*POLICY.narrowed(held)).grants} == {"root"}


def test_those_with_the_least_memory_are_looked_at_first() -> None:
    policy = TopologyAware(four_nodes(), options(four_nodes()))
    grants = [in_root(f"p{n}", n, (RANKED - n + 1) << 20) for n in range(RANKED + 1)]
    held = Allocations(tuple(replace(g, request=replace(g.request, previous=before("root"))) for g in grants))
    pools = {g.container.pod_uid: g.pool for g in held.with_grants(*policy.narrowed(held)).grants}
    assert [name for name, pool in pools.items() if pool != "root"] == ["p5", "p6", "p7", "p8"]
