"""The CPUs of an owner that is resized, or comes back: kept, else on its nodes, else as its strictness decides."""

from dataclasses import replace

import pytest

from policies.alignment import TopologyOptions, TopologyPolicy
from policies.base import Allocations, CpuKind, DeviceLocality, Grant, QosClass, Request
from policies.preferences import Threads
from policies.topology_aware.policy import TopologyAware
from sysfs.cpuset import CpuSet, NodeSet
from tests.unit.policies.build import BURSTABLE, before, fill, four_nodes, placed, rejected, request, topology_aware

RESTRICTED = TopologyOptions(TopologyPolicy.RESTRICTED)
BEST_EFFORT = TopologyOptions(TopologyPolicy.BEST_EFFORT)


def owner(policy: TopologyAware, *others: Request, at: str, **keys: object) -> tuple[Allocations, Grant]:
    """An owner of these CPUs in its node beside others, and its grant."""
    pool = f"NUMA node #{min(CpuSet.parse(at)) // 4}"
    count = len(CpuSet.parse(at))
    own = request("own/c", 1000 * count, previous=before(pool, at), **keys)  # type: ignore[arg-type]
    held = fill(policy, *others, own)
    grant = held.get(own.container)
    assert grant is not None
    assert str(grant.owned) == at
    return held, grant


def resized(grant: Grant, mcpu: int) -> Request:
    return replace(grant.request, cpu_request_mcpu=mcpu, previous=grant.as_running)


@pytest.mark.parametrize("options", [TopologyOptions(), BEST_EFFORT])
def test_growth_keeps_the_cpus_where_their_node_is_full(options: TopologyOptions) -> None:
    policy = topology_aware(four_nodes(), topology=options)
    held, grant = owner(policy, request("full/c", 2000, previous=before("NUMA node #0", "2-3")), at="0-1")
    assert CpuSet.parse("0-1") <= placed(policy.decide(held, resized(grant, 4000))).grant.owned


@pytest.mark.parametrize("keys", [{"single_node": True}, {"topology": RESTRICTED}])
def test_both_strict_forms_refuse_growth_beyond_the_node(keys: dict[str, object]) -> None:
    policy = topology_aware(four_nodes(), "", **keys)
    held, grant = owner(policy, request("full/c", 2000, previous=before("NUMA node #0", "2-3")), at="0-1")
    refusal = rejected(policy.decide(held, resized(grant, 4000))).reason.text
    assert "free 2 on node 0" in refusal


def test_growth_for_which_sharers_move_keeps_the_cpus() -> None:
    policy = topology_aware(four_nodes())
    full = (request(f"full{i}/c", 4000, previous=before(f"NUMA node #{i}", f"{4 * i}-{4 * i + 3}")) for i in (1, 2))
    sharers = (request(f"s{i}/c", 1500, BURSTABLE, previous=before(f"NUMA node #{i}")) for i in (0, 3))
    held, grant = owner(policy, *full, *sharers, at="12")
    decision = placed(policy.decide(held, resized(grant, 5000)))
    assert CpuSet.parse("12") <= decision.grant.owned
    assert decision.moved


def test_a_sharer_that_grows_to_whole_cores_is_kept_from_its_pool_by_none_that_asks_for_nothing() -> None:
    policy = topology_aware(four_nodes(), threads=Threads.OWN_CORE)
    own = Grant(request("own/c", 500), "socket #0", CpuKind.SHARED, shared_mcpu=500)
    idle = Grant(request("idle/c", 0, QosClass.BEST_EFFORT), "NUMA node #0", CpuKind.SHARED)
    decision = placed(policy.decide(Allocations().with_grants(own, idle), resized(own, 8000)))
    assert (decision.grant.pool, str(decision.grant.owned)) == ("socket #0", "0-7")


def test_a_shrink_stays_on_its_cpus_whatever_became_strict_since() -> None:
    loose, strict = topology_aware(four_nodes()), topology_aware(four_nodes(), single_node=True)
    wide = request("own/c", 4000, previous=before("root", "2-5"))
    grant = fill(loose, wide).grants[0]
    after = placed(strict.decide(Allocations((grant,)), resized(grant, 3000))).grant.owned
    assert (after <= grant.owned, len(after)) == (True, 3)


def test_what_cannot_keep_its_cpus_stays_on_its_node() -> None:
    """Whole cores are strictly wanted by now, and it has a part of one whose sibling is another's."""
    policy = topology_aware(four_nodes(), threads=Threads.OWN_CORE, strict_threads=True)
    other = request("a/c", 1000, previous=before("NUMA node #0", "1"), threads=Threads.ANY)
    held, grant = owner(policy, other, at="0", threads=Threads.ANY)
    strict = replace(grant.request, preferences=replace(grant.request.preferences, threads=Threads.OWN_CORE))
    decision = policy.decide(held, resized(replace(grant, request=strict), 2000))
    assert str(placed(decision).grant.owned) == "2-3"


def test_a_container_that_comes_back_with_another_device_goes_there() -> None:
    policy = topology_aware(four_nodes())
    near_0, near_3 = (DeviceLocality(f"/dev/gpu{n}", CpuSet(), NodeSet.of([n])) for n in (0, 3))
    held, grant = owner(policy, at="0-1", localities=(near_0,))
    for now, cpus in ((near_0, "0-1"), (replace(near_0, source="/dev/gpu7"), "0-1"), (near_3, "12-13")):
        again = replace(grant.request, localities=(now,), previous=grant.as_previous)
        assert str(placed(policy.decide(held, again)).grant.owned) == cpus
        # Its grant is gone where the attempt before has ended already.
        assert str(placed(policy.decide(Allocations(), again)).grant.owned) == cpus
    unknown = replace(grant.request, localities=(near_3,), previous=before("NUMA node #0", "0-1"))
    assert str(placed(policy.decide(Allocations(), unknown)).grant.owned) == "0-1"
