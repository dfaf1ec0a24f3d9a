from dataclasses import replace

import pytest

from policies.base import Allocations, ContainerKey, CpuKind, Grant, QosClass, Reinstated
from policies.topology_aware.reinstate import why_illegal
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.model import MemoryKind
from tests.fakes.machines import small_machine
from tests.unit.policies.build import (
    BEST_EFFORT,
    BURSTABLE,
    GUARANTEED,
    before,
    cpus,
    fill,
    four_nodes,
    options,
    request,
    supply_of,
    topology_aware,
    tree_of,
)
from tests.unit.policies.memory.build import tiered

POLICY = topology_aware(four_nodes(), "0")
HELD = fill(
    POLICY, request("own/c", 2000), request("mix/c", 2500), request("share/c", 500, BURSTABLE), request("idle/c", 0)
)


def told(pairs: tuple[tuple[object, object], ...], field: str = "pod_uid") -> list[str]:
    return [getattr(key, field) for key, _ in pairs]


def owners(found: Reinstated) -> dict[str, str]:
    return {g.container.pod_uid: str(g.owned) for g in found.allocations.grants}


def test_what_is_legal_stays_verbatim() -> None:
    found = POLICY.reinstate(HELD)
    assert found.allocations == HELD
    assert (len(found.kept), found.replaced, found.unplaced) == (4, (), ())


def test_only_the_owner_of_a_cpu_that_went_away_is_placed_again_and_keeps_the_others() -> None:
    found = topology_aware(four_nodes(), "0", available=CpuSet.parse("0-4,6-15")).reinstate(HELD)
    assert told(found.replaced) == ["own"]
    assert found.replaced[0][1].text == (
        "its saved grant cannot be kept: CPUs 4-5 are not all available and unreserved in NUMA node #1"
    )
    assert owners(found)["mix"] == "8-9"
    assert owners(found)["own"] == "4,6"


def test_the_most_urgent_keeps_what_two_claim() -> None:
    rival = Grant(request("a/c", 1000, BURSTABLE), "NUMA node #1", CpuKind.EXCLUSIVE, exclusive=CpuSet.parse("4"))
    found = POLICY.reinstate(HELD.with_grants(rival))
    assert told(found.replaced) == ["a"]
    assert owners(found)["own"] == "4-5"


def test_what_is_left_of_the_cpus_that_two_claim_is_kept() -> None:
    rival = Grant(request("a/c", 2000, BURSTABLE, prefer_shared=False), "NUMA node #1", CpuKind.EXCLUSIVE)
    found = POLICY.reinstate(HELD.with_grants(replace(rival, exclusive=CpuSet.parse("5-6"))))
    assert (owners(found)["own"], owners(found)["a"]) == ("4-5", "6-7")


def test_new_containers_are_placed_in_their_order_and_those_that_do_not_fit_share_the_root() -> None:
    small = topology_aware(small_machine(packages=1, cores=2, threads=1), "0")
    found = small.reinstate(Allocations(), [request("b/c", 1000), request("a/c", 1000)])
    assert owners(found) == {"a": "", "b": "1"}
    assert (told(found.replaced), told(found.unplaced)) == (["b"], ["a"])
    assert found.unplaced[0][1].code == "cpu-full"
    assert cpus(small, found.allocations, "a/c") == "0"


def test_what_could_not_be_placed_stays_where_it_is_over_a_restart() -> None:
    small = topology_aware(small_machine(packages=1, cores=2, threads=1), "0")
    held = small.reinstate(Allocations(), [request("b/c", 1000), request("a/c", 1000)]).allocations
    assert small.reinstate(held).allocations == held


def test_an_owner_gives_up_its_cpus_when_someone_would_have_none_at_all() -> None:
    bare = topology_aware(small_machine(packages=1, cores=2, threads=1))
    held = fill(bare, request("a/c", 1000), request("b/c", 1000))
    found = bare.reinstate(held, [request("idle/c", 0, BEST_EFFORT)])
    assert owners(found) == {"a": "0", "b": "", "idle": ""}
    assert [(k.pod_uid, r.code) for k, r in found.unplaced] == [("b", "demoted"), ("idle", "nothing-shared")]
    assert cpus(bare, found.allocations, "idle/c") == "1"


def test_who_is_placed_and_then_gives_up_its_cpus_is_told_once() -> None:
    bare = topology_aware(small_machine(packages=1, cores=2, threads=1))
    found = bare.reinstate(Allocations(), [request("a/c", 1000), request("b/c", 1000), request("idle/c", 0)])
    assert (told(found.replaced), told(found.unplaced)) == (["a"], ["b", "idle"])


def test_only_who_owns_ordinary_cpus_can_give_them_up() -> None:
    bare = topology_aware(small_machine(packages=1, cores=2, threads=1))
    left_alone = request("z/c", 0, BEST_EFFORT, preserve_cpu=True)
    held = fill(bare, request("a/c", 1000), request("b/c", 1000), left_alone)
    found = bare.reinstate(held, [request("idle/c", 0, BEST_EFFORT)])
    assert told(found.unplaced) == ["b", "idle"]


def test_others_that_get_more_memory_nodes_for_one_without_a_place_are_told() -> None:
    policy = topology_aware(tiered(), "0")
    dram = (MemoryKind.DRAM,)
    held = fill(policy, request("a/c", 100, BURSTABLE, memory_request_bytes=4 << 30, memory_kinds=dram))
    found = policy.reinstate(held, [request("big/c", 99_000, memory_request_bytes=6 << 30, memory_kinds=dram)])
    assert [(key.pod_uid, reason.code) for key, reason in found.replaced] == [("a", "memory-others-widened")]
    assert told(found.unplaced) == ["big"]


def test_a_new_request_of_a_container_grows_where_it_is_unless_it_says_where() -> None:
    held = fill(POLICY, request("far/c", 2000, previous=before("NUMA node #3", "14-15")))
    assert owners(POLICY.reinstate(held, [request("far/c", 3000)])) == {"far": "12,14-15"}
    elsewhere = request("far/c", 2000, previous=before("NUMA node #1", "6-7"))
    assert owners(POLICY.reinstate(held, [elsewhere])) == {"far": "6-7"}


def test_a_new_request_of_a_container_that_holds_something_grows_in_place() -> None:
    found = POLICY.reinstate(HELD, [request("own/c", 3000)])
    assert owners(found)["own"] == "4-6"
    assert told(found.replaced) == ["own"]


def test_containers_that_make_room_are_told_with_the_reason() -> None:
    machine = four_nodes()
    policy = topology_aware(machine)
    held = fill(policy, *(request(f"{n}/c", 500, BURSTABLE, cpu_limit_mcpu=500) for n in range(4)))
    found = policy.reinstate(held, [request("big/c", 13000)])
    assert [(key.pod_uid, reason.code) for key, reason in found.replaced] == [("0", "lifted"), ("big", "added")]


def test_containers_get_more_memory_nodes_where_there_is_less_memory_now() -> None:
    held = fill(POLICY, request("a/c", 1000, memory_request_bytes=2 << 30))
    less = topology_aware(four_nodes(memory=["2Gi", "1Gi", "2Gi", "2Gi"]), "0")
    assert less.reinstate(held).replaced == ()  # a restart alone changes nothing
    found = less.reinstate(held, [request("new/c")])
    assert {key.pod_uid: reason.text for key, reason in found.replaced} == {
        "a": "there is less memory now: it gets memory nodes 0-1 and keeps its CPUs",
        "new": "had no grant yet",
    }
    found = less.reinstate(held, [request("big/c", 99_000)])
    assert (told(found.replaced), told(found.unplaced)) == (["a"], ["big"])


def test_a_pool_that_no_longer_exists_is_left() -> None:
    found = topology_aware(small_machine(packages=1, cores=8), "0").reinstate(HELD)
    assert len(found.replaced) == 4
    assert {g.pool for g in found.allocations.grants} == {"root"}
    assert owners(found)["own"] == "4-5"


def test_the_system_and_preserved_containers_stay() -> None:
    held = fill(POLICY, request("k/c", 100, BURSTABLE, namespace="kube-system"), request("p/c", preserve_cpu=True))
    assert POLICY.reinstate(held).allocations == held


def test_what_the_policy_none_let_through_is_placed() -> None:
    found = POLICY.reinstate(HELD.with_grants(Grant(request("late/c", 1000), "", CpuKind.PRESERVE)))
    assert told(found.replaced) == ["late"]
    assert len(CpuSet.parse(owners(found)["late"])) == 1


def test_the_largest_that_the_policy_none_let_through_is_placed_first() -> None:
    small = topology_aware(small_machine(packages=1, cores=4, threads=1), "0")
    sizes = {"a": 1000, "b": 3000, "c": 2000}
    passed = (Grant(request(f"{name}/c", mcpu), "", CpuKind.PRESERVE) for name, mcpu in sizes.items())
    assert owners(small.reinstate(Allocations().with_grants(*passed))) == {"a": "", "b": "1-3", "c": ""}


def test_a_change_of_the_reserved_namespaces_moves_those_whom_it_concerns() -> None:
    old = topology_aware(four_nodes(), "0", reserved_namespaces=("mon*",))
    wanted = (
        request(f"{name}/c", 100, BURSTABLE, namespace=name, cpu_limit_mcpu=100)
        for name in ("mon", "log", "web", "kube-system")
    )
    held = fill(old, *wanted)
    new = topology_aware(four_nodes(), "0", reserved_namespaces=("log*",))
    found = new.reinstate(held)
    assert {key.pod_uid: reason.text for key, reason in found.replaced} == {
        "mon": "its saved grant cannot be kept: its namespace mon is no longer reserved",
        "log": "its saved grant cannot be kept: its namespace log is now reserved",
    }
    assert {uid: cpus(new, found.allocations, f"{uid}/c") for uid in ("log", "kube-system")} == {
        "log": "0", "kube-system": "0",
    }  # fmt: skip
    placed_anew = found.allocations.get(ContainerKey("mon", "c"))
    assert placed_anew is not None
    assert (placed_anew.kind, placed_anew.pool.startswith("NUMA node")) == (CpuKind.SHARED, True)


@pytest.mark.parametrize("change", [{"prefer_shared": True}, {"prefer_isolated": False}, {"colocate_pods": True}])
def test_options_about_preferences_move_nobody(change: dict[str, bool]) -> None:
    policy = topology_aware(four_nodes(isolated="7"), "0")
    held = fill(policy, request("a/c", 1000), request("b/c", 2000), request("b/d", 500))
    assert topology_aware(four_nodes(isolated="7"), "0", **change).reinstate(held).allocations == held


def test_a_system_container_without_a_place_is_reserved_where_others_share() -> None:
    bare = topology_aware(small_machine(packages=1, cores=2, threads=1))
    held = fill(bare, request("a/c", 1000), request("b/c", 1000))
    found = bare.reinstate(held, [request("k/c", 100, BURSTABLE, namespace="kube-system")])
    assert told(found.unplaced) == ["b", "k"]
    assert bare.reinstate(found.allocations).allocations == found.allocations
    assert cpus(bare, found.allocations, "k/c") == "1"


def of_memory(name: str, gibibytes: int, node: int, qos: QosClass = GUARANTEED) -> Grant:
    promised = request(name, 0, qos, memory_request_bytes=gibibytes << 30)
    return Grant(promised, f"NUMA node #{node}", CpuKind.SHARED, mems=NodeSet.of([node]))


def test_memory_nodes_that_are_gone_are_replaced_and_the_cpus_stay() -> None:
    grant = replace(HELD.grants[2], mems=NodeSet.parse("0,9"))
    found = POLICY.reinstate(HELD.with_grants(grant, replace(HELD.grants[0], mems=NodeSet.parse("9"))))
    assert owners(found) == owners(POLICY.reinstate(HELD))
    assert found.allocations.get(grant.container) == replace(grant, mems=NodeSet.parse("0-1"))
    assert [r.text for _, r in found.replaced] == [
        "memory node 9 is gone: it gets memory node 3 and keeps its CPUs",
        "memory node 9 is gone: it gets memory nodes 0-1 and keeps its CPUs",
    ]


def test_what_lost_its_memory_node_makes_room_for_itself() -> None:
    """Nodes have 2 GiB each: the one that is left cannot take both, the smaller of two Burstable ones spreads."""
    moved = replace(of_memory("a/c", 2, 1, BURSTABLE), mems=NodeSet.parse("7"))
    found = POLICY.reinstate(Allocations().with_grants(moved, of_memory("b/c", 1, 1, BURSTABLE)))
    assert {g.container.pod_uid: str(g.mems) for g in found.allocations.grants} == {"a": "0-1", "b": "1"}


def test_others_that_make_room_for_what_lost_its_memory_node_are_told() -> None:
    lost = replace(of_memory("a/c", 2, 0), mems=NodeSet.parse("0,9"))
    yielding = replace(of_memory("b/c", 1, 0, BURSTABLE), mems=NodeSet.parse("0,8"))
    found = POLICY.reinstate(Allocations().with_grants(lost, of_memory("c/c", 1, 0, BURSTABLE)))
    assert [(key.pod_uid, reason.code) for key, reason in found.replaced] == [
        ("a", "memory-rezoned"),
        ("c", "memory-others-widened"),
    ]
    found = POLICY.reinstate(Allocations().with_grants(lost, yielding))
    assert {g.container.pod_uid: str(g.mems) for g in found.allocations.grants} == {"a": "0", "b": "0-1"}


def test_zones_that_hold_too_little_memory_stay_at_a_start_and_are_widened_when_they_are_looked_after() -> None:
    policy = topology_aware(four_nodes(), unlimited_memory="strict")
    held = Allocations().with_grants(of_memory("a/c", 2, 1), of_memory("b/c", 1, 1))
    assert policy.reinstate(held).allocations == held
    widened = policy.narrowed(held)
    assert {g.container.pod_uid: str(g.mems) for g in widened} == {"b": "0-1"}
    assert policy.narrowed(held.with_grants(*widened)) == ()


def test_who_is_placed_again_keeps_its_memory_nodes_beside_the_new_ones() -> None:
    """A page that moves with the CPUs would stall the container: it is narrowed later, one at a time."""
    grant = replace(of_memory("a/c", 1, 0), pool="socket #7")
    new = POLICY.reinstate(Allocations().with_grants(grant)).allocations.grants[0]
    assert (new.pool, str(new.mems)) == ("NUMA node #1", "0-1")


@pytest.mark.parametrize(
    ("grant", "problem"),
    [
        (Grant(request(), "socket #7", CpuKind.SHARED), "no pool 'socket #7'"),
        (Grant(request(), "root", CpuKind.EXCLUSIVE, exclusive=CpuSet.parse("0")), "CPUs 0 are not all available"),
        (Grant(request(), "root", CpuKind.EXCLUSIVE, exclusive=CpuSet.parse("3")), "CPUs 3 are not all available"),
        (Grant(request(), "root", CpuKind.ISOLATED, isolated=CpuSet.parse("4")), "CPUs 4 are not all isolated"),
        (Grant(request(), "root", CpuKind.EXCLUSIVE, exclusive=CpuSet.parse("5")), "CPUs 5 are not all free"),
        (Grant(request(), "NUMA node #1", CpuKind.EXCLUSIVE, exclusive=CpuSet.parse("9")), "in NUMA node #1"),
        (Grant(request(), "root", CpuKind.ISOLATED, isolated=CpuSet.parse("3")), ""),
        (Grant(request(preserve_cpu=True), "", CpuKind.PRESERVE), ""),
        (Grant(request(), "", CpuKind.PRESERVE), "not placed under the policy none"),
        (Grant(request(prefer_reserved=True), "root", CpuKind.RESERVED), ""),
        (Grant(request(namespace="kube-system"), "root", CpuKind.RESERVED), ""),
        (Grant(request(), "root", CpuKind.RESERVED), "its namespace default is no longer reserved"),
        (Grant(request(namespace="kube-system"), "root", CpuKind.SHARED), "its namespace kube-system is now reserved"),
        (Grant(request(prefer_reserved=False), "root", CpuKind.RESERVED), "its annotation declines the reserved CPUs"),
        (Grant(request(prefer_reserved=True), "root", CpuKind.SHARED), "its annotation asks for the reserved CPUs"),
        (Grant(request(namespace="kube-system"), "root", CpuKind.SHARED, shared_mcpu=9, reserved_mcpu=9), ""),
        (Grant(request(), "root", CpuKind.SHARED, shared_mcpu=9, reserved_mcpu=9), "default is no longer reserved"),
        (Grant(request(preserve_cpu=True), "root", CpuKind.SHARED), "its cpuset is to be preserved"),
    ],
)
def test_what_makes_a_grant_illegal(grant: Grant, problem: str) -> None:
    tree = tree_of(four_nodes(isolated="3"), "0")
    other = Grant(request("o/c"), "root", CpuKind.EXCLUSIVE, exclusive=CpuSet.parse("5"))
    found = why_illegal(options(tree.machine, "0"), supply_of(tree, other), grant)
    assert (problem in found) if problem else found == ""


def test_shares_that_a_smaller_pool_does_not_cover_move() -> None:
    held = fill(POLICY, request("a/c", 2000, BURSTABLE, previous=None), request("b/c", 1900, BURSTABLE))
    less = topology_aware(four_nodes(), "0", available=CpuSet.parse("0-4,8-15"))
    found = less.reinstate(held)
    assert all(v.shared_granted_mcpu <= 1000 * len(v.shared) for v in less.pools(found.allocations))
    assert not found.unplaced


def test_a_share_that_its_pool_does_not_cover_any_more_is_placed_again() -> None:
    share = Grant(request("a/c", 3500, BURSTABLE), "NUMA node #1", CpuKind.SHARED, shared_mcpu=3500)
    found = topology_aware(four_nodes(), "0", available=CpuSet.parse("0-5,8-15")).reinstate(Allocations((share,)))
    assert [reason.text for _, reason in found.replaced] == [
        "its saved grant cannot be kept: NUMA node #1 no longer covers 3500m beside what others hold"
    ]


def test_of_two_that_claim_a_cpu_the_larger_keeps_it() -> None:
    one, two = (Grant(request(f"{name}/c"), "NUMA node #1", CpuKind.EXCLUSIVE) for name in "ab")
    held = Allocations((replace(one, exclusive=CpuSet.parse("4")), replace(two, exclusive=CpuSet.parse("4-5"))))
    assert told(POLICY.reinstate(held).replaced) == ["a"]


def test_whoever_lost_one_of_its_cpus_is_not_torn_between_two_packages() -> None:
    torn, other = before("NUMA node #0", "1-2"), before("NUMA node #0", "3")
    held = fill(POLICY, request("a/c", 2000, previous=torn), request("b/c", 1000, previous=other))
    found = topology_aware(four_nodes(), "0", available=CpuSet.parse("0,2-15")).reinstate(held)
    moved = found.allocations.get(ContainerKey("a", "c"))
    assert moved is not None
    assert (moved.pool, len(moved.owned)) == ("NUMA node #2", 2)


def test_an_isolated_cpu_is_kept_by_a_container_whose_pool_is_gone() -> None:
    policy = topology_aware(four_nodes(isolated="3,7,11"), "0")
    saved = Grant(request("a/c", 1000), "NUMA node #9", CpuKind.EXCLUSIVE, isolated=CpuSet.parse("11"))
    found = policy.reinstate(Allocations((saved,)))
    assert (owners(found), told(found.replaced)) == ({"a": "11"}, ["a"])
