"""Where a container goes: one rule a test, on two packages of two nodes of four CPUs."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from policies.base import Allocations, CpuKind, DeviceLocality, Placed, Request
from policies.preferences import BurstLevel, Threads
from policies.topology_aware.policy import TopologyAware
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.model import Machine
from tests.fakes.machines import machines, small_machine
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
    wish_for,
)

POLICY = topology_aware(four_nodes(), "0")
OPEN = topology_aware(four_nodes())
ISOLATED = topology_aware(four_nodes(isolated="7"), "0")
TWO_CPUS = topology_aware(small_machine(packages=1, cores=2, threads=1), "0")
NOTHING = Allocations()


def codes(decision: Placed) -> list[str]:
    return [r.code for r in decision.reasons]


def pools_of(policy: TopologyAware, held: Allocations) -> dict[str, str]:
    return {g.container.pod_uid: g.pool for g in held.grants}


def test_two_and_a_half_cpus_are_two_exclusive_ones_and_a_share() -> None:
    grant = placed(POLICY.decide(NOTHING, request(mcpu=2500))).grant
    assert (grant.kind, str(grant.exclusive), grant.shared_mcpu, grant.pool) == (
        CpuKind.MIXED, "4-5", 500, "NUMA node #1",
    )  # fmt: skip


def test_containers_spread_over_the_nodes() -> None:
    held = fill(POLICY, *(request(f"{n}/c", 1000) for n in range(4)))
    assert set(pools_of(POLICY, held).values()) == {f"NUMA node #{n}" for n in range(4)}


def test_a_whole_core_goes_before_two_halves() -> None:
    policy = topology_aware(four_nodes(), available=CpuSet.parse("8-15"))
    halves = (request(f"{n}/c", 1000, previous=before("NUMA node #2", str(n))) for n in (8, 10))
    held = fill(policy, *halves, request("o/c", 2000, previous=before("NUMA node #3", "12-13")))
    decision = placed(policy.decide(held, request("a/c", 2000)))
    assert str(decision.grant.owned) == "14-15"
    assert decision.reasons[-1].text.endswith("next would be NUMA node #2, which would share more cores with others")


def test_what_no_node_holds_goes_to_a_package_and_what_no_package_holds_to_the_root() -> None:
    assert placed(POLICY.decide(NOTHING, request(mcpu=5000))).grant.pool == "socket #1"
    assert placed(POLICY.decide(NOTHING, request(mcpu=9000))).grant.pool == "root"


def test_displacement_goes_up_from_the_best_pool_and_stops_at_the_root() -> None:
    found = [placed(POLICY.decide(NOTHING, request(mcpu=1000, levels_up=n, memory_limit_bytes=1))) for n in (1, 2, 7)]
    assert [d.grant.pool for d in found] == ["socket #0", "root", "root"]
    assert codes(found[0])[0] == "levels-up"


def test_a_displaced_container_that_restarts_is_not_displaced_again() -> None:
    again = request(mcpu=1000, levels_up=1, previous=before("socket #1"))
    assert placed(POLICY.decide(NOTHING, again)).grant.pool == "socket #1"


def test_displacement_goes_no_higher_than_a_strict_wish_allows() -> None:
    hints = (DeviceLocality("/dev/x", CpuSet.parse("0-7"), NodeSet()),)
    asked = request(mcpu=1000, levels_up=9, strict_locality=True, localities=hints)
    assert placed(POLICY.decide(NOTHING, asked)).grant.pool == "socket #0"


def test_a_pool_with_the_isolated_cpu_beats_one_that_would_slice() -> None:
    decision = placed(ISOLATED.decide(NOTHING, request(mcpu=1000)))
    assert (decision.grant.kind, str(decision.grant.isolated)) == (CpuKind.ISOLATED, "7")
    assert decision.reasons[-1].text.startswith("NUMA node #1 gives 1 isolated CPU; next would be socket #0")


def test_without_a_free_isolated_cpu_an_ordinary_one_is_taken_and_that_is_said() -> None:
    decision = placed(ISOLATED.decide(fill(ISOLATED, request("a/c", 1000)), request("b/c", 1000)))
    assert decision.grant.kind is CpuKind.EXCLUSIVE
    assert "isolated-short" in codes(decision)


def test_isolated_cpus_are_in_no_shared_set() -> None:
    held = fill(ISOLATED, request("a/c", 100, BURSTABLE, levels_up=2))
    assert cpus(ISOLATED, held, "a/c") == "1-6,8-15"


def test_a_strict_wish_for_isolated_cpus_refuses() -> None:
    refusal = rejected(ISOLATED.decide(NOTHING, request(mcpu=2000, require_isolated=True)))
    assert refusal.reason.code.startswith("strict")
    assert refusal.reason.text == "wanted 2 isolated CPUs; free isolated CPUs in root: 1"
    assert {r.outcome for r in refusal.ranking} == {f"short of isolated CPUs: {n} free" for n in (0, 1)}


def test_a_strict_wish_that_contradicts_another_refuses_rather_than_being_dropped() -> None:
    preferences = ({"prefer_shared": True}, {"prefer_reserved": True}, {"namespace": "kube-system"}, {"mcpu": 500})
    for preference in preferences:
        refusal = rejected(ISOLATED.decide(NOTHING, request(**{"mcpu": 1000, "require_isolated": True} | preference)))
        assert refusal.reason.code == "strict-conflict"
        assert refusal.reason.text.startswith("require-isolated-cpus cannot be met: ")


def test_a_preserved_container_is_told_that_its_strict_wish_has_no_effect() -> None:
    decision = placed(ISOLATED.decide(NOTHING, request(mcpu=1000, preserve_cpu=True, require_isolated=True)))
    assert decision.reasons[0].text == "its cpuset is preserved by annotation, so require-isolated-cpus has no effect"


def test_affinity_pulls_into_the_same_node() -> None:
    held = fill(POLICY, request("p/a", 1000), request("p/b", 1000, affinities=wish_for("a")))
    assert len(set(pools_of(POLICY, held).values())) == 1


def test_anti_affinity_pushes_to_another_node_whoever_comes_first() -> None:
    colocated = topology_aware(four_nodes(), "0", colocate_pods=True)
    held = fill(colocated, request("p/b", 1000, affinities=wish_for("a", -20)), request("p/a", 1000))
    assert len({g.pool for g in held.grants}) == 2


def test_device_hints_decide_between_equal_nodes() -> None:
    hint = DeviceLocality("/dev/nvme0", CpuSet(), NodeSet.parse("3"))
    assert placed(POLICY.decide(NOTHING, request(mcpu=1000, localities=(hint,)))).grant.pool == "NUMA node #3"


def test_two_devices_on_two_nodes_mean_the_pool_that_holds_both() -> None:
    hints = tuple(DeviceLocality(f"/dev/nvme{n}", CpuSet(), NodeSet.parse(n)) for n in "23")
    assert placed(POLICY.decide(NOTHING, request(mcpu=1000, localities=hints))).grant.pool == "socket #1"


def test_at_a_device_the_smallest_pool_wins_over_one_that_holds_the_limit() -> None:
    hint = DeviceLocality("/dev/nvme0", CpuSet(), NodeSet.parse("3"))
    wanted = request(mcpu=500, qos=BURSTABLE, cpu_limit_mcpu=6000, localities=(hint,))
    assert placed(POLICY.decide(NOTHING, wanted)).grant.pool == "NUMA node #3"


def test_a_burstable_container_goes_where_its_limit_fits() -> None:
    found = placed(POLICY.decide(NOTHING, request(mcpu=500, qos=BURSTABLE, cpu_limit_mcpu=6000)))
    assert found.grant.pool == "socket #1"


def test_a_burstable_container_without_a_limit_gets_a_package_to_burst_in() -> None:
    found = placed(POLICY.decide(NOTHING, request(mcpu=500, qos=BURSTABLE)))
    assert found.grant.pool == "socket #1"
    assert found.reasons[-1].text.endswith(
        "next would be socket #0, which has more CPU requested for each of its shared CPUs"
    )


def test_the_level_for_unlimited_burst_can_be_annotated() -> None:
    wish = request(mcpu=500, qos=BURSTABLE, burst_level=BurstLevel.NUMA)
    assert placed(POLICY.decide(NOTHING, wish)).grant.pool == "NUMA node #1"


def test_no_share_below_loses_its_cpu_to_an_owner_above() -> None:
    """The peer's fault: four shares of 500m and then 12 CPUs left two of the four without any CPU."""
    held = fill(POLICY, *(request(f"{n}/c", 500, BURSTABLE, cpu_limit_mcpu=500) for n in range(4)))
    decision = placed(POLICY.decide(held, request("big/c", 12000)))
    after = held.with_grants(*decision.moved, decision.grant)
    assert all(p.cpus for p in POLICY.pinnings(after).values())
    assert all(v.shared_granted_mcpu <= 1000 * len(v.shared) for v in POLICY.pools(after))


def test_fragments_are_lifted_when_that_makes_room_and_the_lifted_are_updated() -> None:
    held = fill(OPEN, *(request(f"{n}/c", 500, BURSTABLE, cpu_limit_mcpu=500) for n in range(4)))
    decision = placed(OPEN.decide(held, request("big/c", 13000)))
    assert [(g.container.pod_uid, g.pool, str(g.mems)) for g in decision.moved] == [("0", "socket #0", "0-1")]
    assert "lifted" in codes(decision)
    assert decision.moved[0].container in [u.container for u in decision.updates]


def test_where_several_pools_could_be_made_to_fit_the_fewest_move() -> None:
    caches = small_machine(packages=1, nodes=2, cores=3, threads=1, l3=[str(n) for n in range(6)])
    policy = topology_aware(caches, l3_pools="true")
    shares = {0: 300, 1: 300, 2: 300, 3: 450, 4: 450}
    sharers = (
        request(f"{n}/c", mcpu, BURSTABLE, previous=before(f"NUMA node #{n // 3}/L3 #{n}"))
        for n, mcpu in shares.items()
    )
    decision = placed(policy.decide(fill(policy, *sharers), request("a/c", 2000)))
    assert (decision.grant.pool, [g.pool for g in decision.moved]) == ("NUMA node #1", ["NUMA node #1"])


def test_the_machine_is_full_when_the_root_is() -> None:
    held = fill(OPEN, *(request(f"{n}/c", 500, BURSTABLE, cpu_limit_mcpu=500) for n in range(4)))
    refusal = rejected(OPEN.decide(held, request("big/c", 15000)))
    assert refusal.reason.text == (
        "wanted 15 exclusive CPUs; free in root: 14000m shared capacity, 12 CPUs to own; most in socket #0: 7000m"
    )
    outcomes = {r.pool: r.outcome for r in refusal.ranking}
    assert outcomes["root"] == "too small: 14000m free, of which 12 CPUs can be owned"


def test_an_idle_pool_is_used_to_its_last_cpu() -> None:
    assert cpus(TWO_CPUS, fill(TWO_CPUS, request("a/c", 1000)), "a/c") == "1"


def test_a_pool_with_idle_containers_is_emptied_only_when_nothing_else_is_left() -> None:
    held = fill(TWO_CPUS, request("idle/c", 0, BEST_EFFORT))
    decision = placed(TWO_CPUS.decide(held, request("a/c", 1000)))
    assert "shared-emptied" in codes(decision)
    assert [(u.container.pod_uid, str(u.pinning.cpus)) for u in decision.updates] == [("idle", "0")]


def test_a_pool_with_idle_containers_keeps_a_cpu_while_another_pool_can_give() -> None:
    held = fill(OPEN, request("idle/c", 0, BEST_EFFORT, previous=before("NUMA node #0")), request("a/c", 4000))
    assert cpus(OPEN, held, "a/c") == "8-11"
    held = fill(OPEN, request("b/c", 11000), held=held)
    assert cpus(OPEN, held, "idle/c") == "3"


def test_without_reserved_cpus_the_last_one_stays_while_an_idle_container_runs() -> None:
    held = fill(OPEN, request("idle/c", 0, BEST_EFFORT), request("a/c", 15000))
    assert rejected(OPEN.decide(held, request("b/c", 1000))).reason.code == "cpu-full"


def test_when_every_cpu_is_owned_and_none_reserved_there_is_nothing_to_share() -> None:
    held = fill(OPEN, request("a/c", 16000))
    assert rejected(OPEN.decide(held, request("b/c", 0, BEST_EFFORT))).reason.code == "nothing-shared"
    assert rejected(OPEN.decide(held, request("c/c", 0, namespace="kube-system"))).reason.code == "nothing-shared"


def test_idle_containers_run_on_the_reserved_cpus_when_every_other_is_owned() -> None:
    held = fill(POLICY, request("a/c", 15000), request("b/c", 0, BEST_EFFORT))
    assert cpus(POLICY, held, "b/c") == "0"


def test_the_system_is_never_refused_for_capacity() -> None:
    held = fill(POLICY, request("a/c", 15000), request("sys/c", 9000, BURSTABLE, namespace="kube-system"))
    assert cpus(POLICY, held, "sys/c") == "0"
    assert held.grants[1].reserved_mcpu == 9000


def test_withheld_cpus_are_not_given_but_shared() -> None:
    held = fill(TWO_CPUS, request("s/c", 0, BEST_EFFORT), held=Allocations(withheld=CpuSet.parse("1")))
    assert cpus(TWO_CPUS, held, "s/c") == "1"
    assert rejected(TWO_CPUS.decide(held, request("a/c", 1000))).reason.code == "cpu-full"


def test_earlier_cpus_are_taken_again_if_they_are_free() -> None:
    again = request("a/c", 2000, previous=before("NUMA node #3", "13-14"), memory_limit_bytes=1)
    decision = placed(POLICY.decide(NOTHING, again))
    assert (str(decision.grant.owned), codes(decision)) == ("13-14", ["previous-kept", "pool"])


def test_earlier_cpus_are_taken_again_though_an_idle_container_moved_in() -> None:
    held = fill(POLICY, request("idle/c", 0, BEST_EFFORT, previous=before("NUMA node #1")))
    found = [
        placed(POLICY.decide(held, request("a/c", mcpu, previous=before(pool, owned)))).grant
        for mcpu, pool, owned in ((4000, "NUMA node #1", "4-7"), (7000, "socket #0", "4-6"))
    ]
    assert [(g.pool, str(g.owned)) for g in found] == [("NUMA node #1", "4-7"), ("socket #0", "1-7")]


def test_earlier_cpus_that_are_gone_are_said_to_be() -> None:
    held = fill(POLICY, request("b/c", 4000, previous=before("NUMA node #3", "12-15")))
    again = request("a/c", 2000, previous=before("NUMA node #3", "13-14"), memory_limit_bytes=1)
    decision = placed(POLICY.decide(held, again))
    assert (str(decision.grant.owned), codes(decision)) == ("4-5", ["previous-lost", "cpus-picked", "pool"])


def test_a_container_that_grows_is_told_that_it_keeps_what_it_holds() -> None:
    held = fill(POLICY, request("a/c", 1000, memory_limit_bytes=1))
    grown = request("a/c", 2000, previous=held.grants[0].as_previous, memory_limit_bytes=1)
    decision = placed(POLICY.decide(held, grown))
    assert decision.reasons[0].text == "its CPU 4 is kept"


def test_of_pools_alike_the_one_where_nobody_has_to_make_room_wins() -> None:
    held = fill(POLICY, request("b/c", 100, BURSTABLE, memory_request_bytes=2 << 30, cpu_limit_mcpu=100))
    assert placed(POLICY.decide(held, request("g/c", 1000, memory_request_bytes=1 << 30))).moved == ()


def test_whole_cores_are_wished_for_and_done_without() -> None:
    own = request("own/c", 1000, threads=Threads.OWN_CORE)
    assert str(placed(POLICY.decide(NOTHING, own)).grant.owned) == "4-5"
    # one thread of every core is owned already
    halves = (request(f"{n}/c", 1000, previous=before("root", str(n))) for n in range(1, 16, 2))
    decision = placed(POLICY.decide(fill(POLICY, *halves), own))
    assert len(decision.grant.owned) == 1
    assert codes(decision)[0] == "no-whole-cores"


def test_a_choice_is_explained_against_the_next_pool() -> None:
    decision = placed(POLICY.decide(NOTHING, request(mcpu=2000)))
    assert decision.reasons[-1].text == (
        "NUMA node #1 gives 2 exclusive CPUs; next would be NUMA node #2, which is equal but comes later"
    )
    assert [r.outcome for r in decision.ranking] == ["chosen", *["not tried"] * 6]
    assert [name for name, _ in decision.ranking[0].key][:3] == ["fits", "previous", "isolated"]


def test_after_growing_and_shrinking_a_container_ends_on_the_cpu_that_it_had_first() -> None:
    """Through every size in turn, each wanting back what the one before left."""
    held = fill(POLICY, request("a/c", 1000))
    first = held.grants[0].owned
    seen = []
    for count in (3, 4, 3, 2, 1):
        held = fill(POLICY, request("a/c", 1000 * count, previous=held.grants[0].as_previous), held=held)
        seen.append(held.grants[0])
    grown, more, *shrunk = seen
    assert (more.added, [len(g.owned) for g in shrunk]) == ((grown.owned - first, more.owned - grown.owned), [3, 2, 1])
    assert shrunk[0].owned == grown.owned
    assert first <= shrunk[1].owned <= grown.owned
    assert (shrunk[2].owned, shrunk[2].added) == (first, ())


def test_who_owns_isolated_cpus_near_two_devices_has_the_memory_of_both() -> None:
    policy = topology_aware(four_nodes(isolated="3,11"), "0")
    hints = tuple(DeviceLocality(f"/dev/nvme{n}", CpuSet(), NodeSet.parse(n)) for n in "02")
    grant = placed(policy.decide(NOTHING, request(mcpu=2000, prefer_isolated=True, localities=hints))).grant
    assert (str(grant.isolated), str(grant.mems)) == ("3,11", "0,2")


def test_others_move_and_idle_containers_share_elsewhere_where_both_are_needed() -> None:
    sharers = [
        request(f"{n}/c", 500, BURSTABLE, cpu_limit_mcpu=500, previous=before(f"NUMA node #{n}")) for n in range(3)
    ]
    held = fill(POLICY, *sharers, request("idle/c", 0, BEST_EFFORT, previous=before("NUMA node #3")))
    assert len(placed(POLICY.decide(held, request("big/c", 13000))).grant.owned) == 13


def test_isolated_cpus_that_were_added_are_remembered_as_well() -> None:
    policy = topology_aware(four_nodes(isolated="3,7"), "0")
    more = request(mcpu=2000, prefer_isolated=True, previous=before("socket #0", "3"))
    assert placed(policy.decide(NOTHING, more)).grant.added == (CpuSet.parse("7"),)


def test_a_container_that_did_without_whole_cores_keeps_exactly_its_cpus() -> None:
    policy = topology_aware(four_nodes(), "0")
    again = request("own/c", 3000, threads=Threads.OWN_CORE, previous=before("NUMA node #1", "4,6,7"))
    assert str(placed(policy.decide(Allocations(), again)).grant.owned) == "4,6-7"
    taken = fill(policy, request("other/c", 2000, previous=before("NUMA node #1", "4-5")))
    assert str(placed(policy.decide(taken, again)).grant.owned) == "8-11"


def some_containers(rng: random.Random) -> list[Request]:
    """Owners of whole cores, of threads, and sharers."""
    return [
        request(f"{n}/c", rng.choice((500, 1000, 1000, 2000, 2500, 3000)), threads=rng.choice((None, *Threads)))
        for n in range(12)
    ]


@settings(max_examples=settings().max_examples // 3)
@given(machines(max_packages=2, max_cpus=32), st.randoms(use_true_random=False))
def test_an_owned_core_is_shared_with_nobody_unless_it_is_said(machine: Machine, rng: random.Random) -> None:
    policy, held, alone = topology_aware(machine), NOTHING, set()
    for wanted in some_containers(rng):
        decision = policy.decide(held, wanted)
        if isinstance(decision, Placed):
            held = held.with_grants(*decision.moved, decision.grant)
            if wanted.preferences.threads in (Threads.OWN_CORE, Threads.HIDE) and "no-whole-cores" not in codes(
                decision
            ):
                alone.add(wanted.container)
    pinnings = policy.pinnings(held)
    for grant in held.grants:
        hides = grant.request.preferences.threads is Threads.HIDE
        for core in machine.cores:
            mine = pinnings[grant.container].cpus or CpuSet()
            assert not hides or len(core.cpus & mine) <= 1
            if grant.container in alone and core.cpus & grant.owned:
                others = [p.cpus for key, p in pinnings.items() if key != grant.container]
                assert core.cpus <= grant.owned
                assert not any(cpus and cpus & core.cpus for cpus in others)


def test_room_is_made_for_cpus_and_not_for_whole_cores() -> None:
    shares = [request(f"s{n}/c", 500, BURSTABLE, previous=before(f"NUMA node #{n}")) for n in range(4)]
    decision = placed(OPEN.decide(fill(OPEN, *shares), request("big/c", 14000, threads=Threads.OWN_CORE)))
    assert len(decision.grant.owned) == 14
    assert codes(decision)[:2] == ["no-whole-cores", "lifted"]


def test_one_that_comes_back_is_not_refused_for_its_earlier_cpus_where_isolated_ones_are_free() -> None:
    policy = topology_aware(small_machine(packages=1, nodes=1, cores=2, threads=2, isolated="3"), "0")
    held = fill(policy, request("s/c", 1000, BURSTABLE))
    wanted = request("p/c", 1500, previous=before("root", "1"))
    decision = placed(policy.decide(held, wanted))
    assert (str(decision.grant.owned), decision.grant.request) == ("3", wanted)
    assert {"previous-lost", "isolated-instead"} <= set(codes(decision))
