from dataclasses import replace

import pytest

from policies.base import Allocations, CpuKind, Grant, Pinning, Pinnings, Update
from policies.preferences import Preferences, Threads
from policies.topology_aware.options import TopologyAwareOptions
from policies.topology_aware.pinning import OtherGrants, Pinned, at_live_pools, changed_pinnings
from policies.topology_aware.supply.supply import Supply
from sysfs.cpuset import CpuSet, NodeSet
from tests.unit.policies.build import before, four_nodes, options, request, supply_of, tree_of

MACHINE = four_nodes(isolated="3")
TREE = tree_of(MACHINE, "0")
OPTIONS = options(MACHINE, "0")
NODE1 = "NUMA node #1"
SHARED = Grant(request("s/c"), NODE1, CpuKind.SHARED, mems=NodeSet.parse("1"))
MIXED = Grant(request("m/c"), NODE1, CpuKind.MIXED, CpuSet.parse("4"), shared_mcpu=500)
OWNER = Grant(request("o/c"), NODE1, CpuKind.EXCLUSIVE, CpuSet.parse("5"))
SYSTEM = Grant(request("k/c"), "root", CpuKind.RESERVED, mems=NodeSet.parse("0-3"))
UNTOUCHED = Grant(request("u/c"), "", CpuKind.PRESERVE)


def all_pinnings(supply: Supply, *grants: Grant, options: TopologyAwareOptions = OPTIONS) -> Pinnings:
    return Pinned((), supply).with_grants(grants, supply, options).pinnings


def pinned(grant: Grant, *others: Grant, **keys: object) -> tuple[str, str]:
    chosen = replace(OPTIONS, **keys)  # type: ignore[arg-type]  # the keys are those of the class
    pinning = all_pinnings(supply_of(TREE, grant, *others), grant, options=chosen)[grant.container]
    return ("-" if pinning.cpus is None else str(pinning.cpus), "-" if pinning.mems is None else str(pinning.mems))


def test_a_shared_container_runs_on_what_nobody_owns_in_its_pool() -> None:
    assert pinned(SHARED, MIXED, OWNER) == ("6-7", "1")


def test_a_pool_that_is_gone_counts_as_the_root() -> None:
    assert pinned(replace(SHARED, pool="socket #9"), OWNER)[0] == "1-2,4,6-15"


def test_a_mixed_container_has_its_own_and_the_shared_ones() -> None:
    assert pinned(MIXED, OWNER)[0] == "4,6-7"


def test_an_owner_has_its_own_only() -> None:
    assert pinned(OWNER, SHARED)[0] == "5"


def test_a_system_container_runs_on_the_reserved_cpus() -> None:
    assert pinned(SYSTEM, SHARED) == ("0", "0-3")


def test_without_reserved_cpus_the_system_shares_the_root() -> None:
    tree = tree_of(MACHINE)
    pinning = all_pinnings(supply_of(tree, SYSTEM, OWNER), SYSTEM)[SYSTEM.container]
    assert str(pinning.cpus) == "0-2,4,6-15"


def test_a_preserved_container_is_not_written_to() -> None:
    assert pinned(UNTOUCHED) == ("-", "-")


def test_what_is_not_to_be_pinned_is_not_written() -> None:
    assert pinned(SHARED, pin_cpu=False) == ("-", "1")
    assert pinned(SHARED, pin_memory=False) == ("4-7", "-")
    assert pinned(replace(SHARED, request=request("s/c", preserve_memory=True))) == ("4-7", "-")


def test_no_mems_means_not_written() -> None:
    assert pinned(MIXED)[1] == "-"


def changes(*pairs: tuple[Grant, Grant], gone: tuple[Grant, ...] = (), come: tuple[Grant, ...] = ()) -> dict[str, str]:
    old = supply_of(TREE, *gone, *(a for a, _ in pairs))
    new = supply_of(TREE, *come, *(b for _, b in pairs))
    before = tuple(sorted((a for a, _ in pairs), key=lambda grant: grant.container))
    others = OtherGrants(before, tuple(b for a, b in pairs if a is not b))
    return {u.container.pod_uid: str(u.pinning.cpus) for u in changed_pinnings(old, new, others, OPTIONS)}


def test_those_that_lose_a_cpu_are_updated_and_nobody_else() -> None:
    elsewhere = replace(SHARED, request=request("e/c"), pool="NUMA node #2")
    higher = replace(SHARED, request=request("h/c"), pool="root")
    pairs = [(g, g) for g in (elsewhere, higher, SYSTEM, MIXED, SHARED, UNTOUCHED)]
    assert changes(*pairs, come=(OWNER,)) == {"h": "1-2,6-15", "m": "4,6-7", "s": "6-7"}


def test_system_containers_are_updated_where_they_share_the_root() -> None:
    tree = tree_of(MACHINE)
    old, new = supply_of(tree, SYSTEM), supply_of(tree, SYSTEM, OWNER)
    (update,) = changed_pinnings(old, new, OtherGrants((SYSTEM,)), OPTIONS)
    assert str(update.pinning.cpus) == "0-2,4,6-15"


def test_a_container_that_moves_to_a_wider_pool_is_updated() -> None:
    moved = replace(SHARED, pool="socket #0", mems=NodeSet.parse("0-1"))
    old, new = supply_of(TREE, SHARED), supply_of(TREE, moved)
    pinning = Pinning(CpuSet.parse("1-2,4-7"), NodeSet.parse("0-1"))
    assert changed_pinnings(old, new, OtherGrants((SHARED,), (moved,)), OPTIONS) == (Update(SHARED.container, pinning),)


def test_nothing_is_updated_when_cpus_are_not_pinned() -> None:
    unpinned = replace(OPTIONS, pin_cpu=False)
    before, after = supply_of(TREE, SHARED), supply_of(TREE, SHARED, OWNER)
    assert changed_pinnings(before, after, OtherGrants((SHARED,)), unpinned) == ()


def hidden(grant: Grant, *others: Grant) -> str:
    wished = replace(grant, request=replace(grant.request, preferences=Preferences(threads=Threads.HIDE)))
    return pinned(wished, *others)[0]


def test_hidden_threads_are_not_written_whether_owned_or_shared() -> None:
    assert hidden(replace(OWNER, exclusive=CpuSet.parse("4-7"))) == "4,6"
    assert hidden(SHARED) == "4,6"
    assert pinned(SHARED, threads=Threads.HIDE)[0] == "4,6"


def test_the_lowest_thread_may_be_somebody_elses() -> None:
    assert hidden(SHARED, replace(OWNER, exclusive=CpuSet.parse("4"))) == "5-6"


def test_an_owned_thread_hides_its_shared_sibling() -> None:
    assert hidden(replace(MIXED, exclusive=CpuSet.parse("5"))) == "5-6"


def test_hidden_threads_stay_in_the_shared_set() -> None:
    wished = replace(SHARED, request=request("t/c", threads=Threads.HIDE))
    assert (pinned(SHARED, wished)[0], hidden(SHARED, wished)) == ("4-7", "4,6")


def test_whoever_hides_threads_is_updated_only_if_its_own_set_changes() -> None:
    wished = replace(SHARED, request=request("t/c", threads=Threads.HIDE))
    assert changes((wished, wished), come=(OWNER,)) == {}
    assert changes((wished, wished), come=(replace(OWNER, exclusive=CpuSet.parse("4")),)) == {"t": "5-6"}


def found_at(grant: Grant, cpus: str, *others: Grant) -> Grant:
    """The grant of an annotation, where its live cpuset shows it to be beside these."""
    held = Allocations().with_grants(grant, *others)
    live = {grant.container: CpuSet.parse(cpus)}
    found, requests = at_live_pools(OPTIONS, supply_of(TREE, *held.grants), held, (), live)
    assert requests == () and [found.get(other.container) for other in others] == list(others)
    return next(g for g in found.grants if g.container == grant.container)


@pytest.mark.parametrize(
    ("cpus", "pool"),
    [
        ("4,6-7", NODE1),
        ("8-11", "NUMA node #2"),
        ("8-15", "socket #1"),
        ("1-2,4,6-15", "root"),
        ("9", NODE1),  # no pool explains it: its update was lost, or others wrote it
    ],
)
def test_a_sharer_without_a_saved_grant_is_in_the_pool_that_gives_it_its_live_cpus(cpus: str, pool: str) -> None:
    sharer = replace(SHARED, shared_mcpu=500)
    assert found_at(sharer, cpus, OWNER) == replace(sharer, pool=pool)


def test_of_pools_that_give_the_same_cpus_the_one_of_the_annotation_counts() -> None:
    rest = replace(OWNER, exclusive=CpuSet.parse("12-15"))
    in_socket = replace(SHARED, pool="socket #1")
    assert found_at(in_socket, "8-11", rest) == in_socket
    assert found_at(SHARED, "8-11", rest).pool == "NUMA node #2"


def test_a_mixed_container_is_found_by_its_own_cpus_and_those_it_shares() -> None:
    assert found_at(MIXED, "1-2,4-7").pool == "socket #0"
    assert found_at(MIXED, "4,8-11") == MIXED  # its own are not there


def test_one_that_left_the_reserved_cpus_or_came_back_is_found_there() -> None:
    on_reserved = replace(SYSTEM, reserved_mcpu=500)
    away = replace(on_reserved, pool="NUMA node #2", kind=CpuKind.SHARED, shared_mcpu=500)
    assert found_at(on_reserved, "8-11") == away
    assert found_at(away, "0") == on_reserved
    assert found_at(SYSTEM, "8-11") == SYSTEM  # it asks for no CPU time


def test_a_resized_sharer_asks_for_the_pool_in_which_it_runs() -> None:
    resized = request("r/c", 700, previous=before(NODE1))
    grown = request("g/c", 3000, previous=before(NODE1, "5"))
    live = {resized.container: CpuSet.parse("4,6-7"), grown.container: CpuSet.parse("5,8")}
    _, (there, own) = at_live_pools(OPTIONS, supply_of(TREE), Allocations(), (resized, grown), live)
    assert (there, own) == (resized, grown)  # without what the other one owned
    live |= {resized.container: CpuSet.parse("8-11")}
    _, (there, _) = at_live_pools(OPTIONS, supply_of(TREE), Allocations(), (resized, grown), live)
    assert there.previous == before("NUMA node #2")


STEPS: tuple[tuple[Grant, ...], ...] = (
    (SHARED, SYSTEM),
    (SHARED, OWNER, SYSTEM),
    (replace(SHARED, pool="socket #9"), MIXED, SYSTEM),
    (replace(SHARED, pool="socket #9"), MIXED, OWNER, SYSTEM, UNTOUCHED),
    (replace(SHARED, mems=NodeSet.parse("0-1")), replace(OWNER, exclusive=CpuSet.parse("6")), SYSTEM),
    (replace(OWNER, exclusive=CpuSet.parse("6")),),
    (),
)


@pytest.mark.parametrize("reserved", ["0", ""])
def test_pinnings_that_follow_former_ones_are_those_of_the_grants_alone(reserved: str) -> None:
    tree = tree_of(MACHINE, reserved)
    last = Pinned((), supply_of(tree))
    for grants in (*STEPS, *reversed(STEPS), *STEPS[::2]):
        supply = supply_of(tree, *grants)
        last = last.with_grants(grants, supply, OPTIONS)
        assert last.pinnings == all_pinnings(supply, *grants)


def test_a_grant_that_stays_with_its_sets_is_not_derived_again() -> None:
    first = Pinned((), supply_of(TREE)).with_grants((OWNER, SHARED), supply_of(TREE, OWNER, SHARED), OPTIONS)
    second = first.with_grants((OWNER, SHARED, SYSTEM), supply_of(TREE, OWNER, SHARED, SYSTEM), OPTIONS)
    assert all(second.pinnings[key] is pinning for key, pinning in first.pinnings.items())
