"""Pods with resources of their own (KEP-2837): one grant, used by the containers that have no request of their own."""

from dataclasses import replace
from itertools import permutations

import pytest

from policies.base import Allocations, CpuKind, Grant, Placed, QosClass, Rejected, Request
from policies.device_requests import DeviceAsk
from policies.devices import DeviceInventory
from policies.pod_share import PodShare, PodTotals
from policies.policy import Policy
from policies.topology_aware.policy import TopologyAware
from policies.topology_aware.reason_codes import ReasonCode
from sysfs.cpuset import CpuSet
from tests.unit.policies.allocations import ask, gpus_on, names
from tests.unit.policies.build import BURSTABLE, GUARANTEED, before, options, request
from tests.unit.policies.cost_devices import GPU, amounts, inventory, on_nodes
from tests.unit.policies.pods import MACHINE, POLICY, fill, owned

GIB = 1 << 30
MIB = 1 << 20


def member(name: str, mcpu: int, limit: int | None = None, memory_bytes: int = 64 * MIB) -> Request:
    """A container without resources in a pod that requests ``mcpu``: the kubelet writes the limit."""
    limit = limit or mcpu
    qos = GUARANTEED if limit == mcpu else BURSTABLE
    totals = PodTotals(mcpu, limit, memory_bytes, shares_cpu=True, shares_memory=True)
    return asked(name, limit, qos, memory_bytes, totals)


def own(name: str, mcpu: int, of: int, memory_bytes: int = 32 * MIB) -> Request:
    return asked(name, mcpu, GUARANTEED, memory_bytes, PodTotals(of, of, 64 * MIB))


def asked(name: str, mcpu: int, qos: QosClass, memory_bytes: int, totals: PodTotals) -> Request:
    known = memory_bytes if qos is GUARANTEED else 0
    return request(
        name, mcpu, qos, cpu_limit_mcpu=mcpu, memory_limit_bytes=memory_bytes, memory_request_bytes=known,
        pod_totals=totals,
    )  # fmt: skip


def root_free(held: Allocations) -> int:
    return POLICY.pools(held)[0].shared_free_mcpu


def test_every_method_of_a_policy_is_answered_for_pods_too() -> None:
    """What a default of ``Policy`` would answer knows nothing of containers that share."""
    public = {name for name in vars(Policy) if not name.startswith("_")}
    assert public - vars(TopologyAware).keys() == {"with_devices", "rebound"}  # of the same class


def test_a_guaranteed_pod_owns_its_cpus_once() -> None:
    held = fill(*(member(f"p/c{i}", 3000) for i in range(3)))
    assert set(owned(held).values()) == {"4-6"}
    assert {str(pinning.cpus) for pinning in POLICY.pinnings(held).values()} == {"4-6"}
    assert root_free(held) == root_free(Allocations()) - 3000
    assert {grant.share for grant in held.grants} == {PodShare(3000, 64 * MIB)}


def test_a_burstable_pod_is_booked_at_its_request() -> None:
    held = fill(*(member(f"p/c{i}", 1000, limit=4000) for i in range(4)))
    assert root_free(held) == root_free(Allocations()) - 1000
    assert {(grant.kind, grant.shared_mcpu, grant.is_overcommitted) for grant in held.grants} == {
        (CpuKind.SHARED, 1000, False)
    }


@pytest.mark.parametrize("order", tuple(permutations(range(3))))
def test_a_request_of_its_own_is_taken_from_the_pods_in_whatever_order_containers_come(order: tuple[int, ...]) -> None:
    three = (member("p/a", 3000), member("p/b", 3000), own("p/own", 1000, of=3000))
    held = fill(*(three[i] for i in order))
    cpus = {name: CpuSet.parse(text) for name, text in owned(held).items()}
    assert (len(cpus["own"]), len(cpus["a"]), cpus["a"]) == (1, 2, cpus["b"])
    assert cpus["own"].isdisjoint(cpus["a"])
    assert root_free(held) == root_free(Allocations()) - 3000


def test_a_decision_says_that_the_cpus_are_the_pods() -> None:
    held = fill(member("p/c0", 3000))
    decision = POLICY.decide(held, member("p/c1", 3000))
    assert isinstance(decision, Placed)
    (reason,) = decision.reasons
    assert reason.code == "pod-shared"
    text = "CPUs 4-6 are its pod's, shared by its containers c0, c1: 3000m of CPU and 64 MiB of memory booked once"
    assert reason.text == f"{text} for all of them"
    assert decision.updates == ()


def test_others_make_room_once() -> None:
    held = fill(request("o/x", 0, QosClass.BEST_EFFORT, labels=()))
    first = POLICY.decide(held, member("p/c0", 12000))
    assert isinstance(first, Placed)
    held = held.with_grants(*first.moved, first.grant)
    second = POLICY.decide(held, member("p/c1", 12000))
    assert isinstance(second, Placed)
    assert second.updates == ()
    assert [u.container.name for u in POLICY.release(held, first.grant.container)] == ["x"]
    held = held.with_grants(*second.moved, second.grant)
    assert POLICY.release(held, first.grant.container) == ()


@pytest.mark.parametrize("order", tuple(permutations("abc")))
def test_the_cpus_stay_until_the_last_container_is_gone(order: tuple[str, ...]) -> None:
    held = fill(*(member(f"p/{name}", 3000) for name in "abc"))
    keys = {grant.container.name: grant.container for grant in held.grants}
    for name in order:
        assert set(owned(held).values()) == {"4-6"}
        held = held.without(keys[name])
    assert POLICY.pools(held) == POLICY.pools(Allocations())


def test_a_container_that_is_created_again_gets_the_pods_cpus() -> None:
    held = fill(*(member(f"p/{name}", 3000) for name in "ab"))
    again = held.without(held.grants[0].container)
    assert fill(member("p/a", 3000), held=again) == held


def test_a_restart_changes_nothing() -> None:
    held = fill(*(member(f"p/{name}", 3000) for name in "ab"), own("q/own", 1000, of=3000), member("q/b", 3000))
    fresh = TopologyAware(MACHINE, options(MACHINE, "0"))
    result = fresh.reinstate(held)
    assert (result.allocations, result.replaced, result.unplaced) == (held, (), ())
    assert fresh.pinnings(result.allocations) == POLICY.pinnings(held)


def test_what_is_no_longer_legal_is_placed_again_for_all_of_them() -> None:
    held = fill(*(member(f"p/{name}", 3000) for name in "ab"))
    fresh = TopologyAware(MACHINE, options(MACHINE, "4"))
    result = fresh.reinstate(held)
    assert {name for name, _ in result.replaced} == {grant.container for grant in held.grants}
    cpus = set(owned(result.allocations).values())
    assert len(cpus) == 1
    assert "4" not in cpus.pop().split("-")


def test_one_that_is_placed_elsewhere_takes_the_others_along() -> None:
    held = fill(*(member(f"p/{name}", 3000) for name in "ab"))
    withheld = Allocations(held.grants, CpuSet.parse("4-7"))
    decision = POLICY.decide(withheld, held.grants[1].request)
    assert isinstance(decision, Placed)
    after = held.with_grants(*decision.moved, decision.grant)
    assert set(owned(after).values()) == {str(decision.grant.owned)}
    assert decision.grant.owned.isdisjoint(CpuSet.parse("4-7"))
    assert [update.container for update in decision.updates] == [held.grants[0].container]


def test_memory_is_promised_once() -> None:
    held = fill(*(member(f"p/{name}", 1000, limit=2000, memory_bytes=GIB) for name in "abc"))
    empty, now = (sum(p.memory_free_bytes for p in POLICY.pools(h) if not p.parent) for h in (Allocations(), held))
    assert empty - now == GIB


def test_where_there_is_no_room_to_grow_the_next_one_shares_what_there_is() -> None:
    held = fill(own("p/own", 1000, of=3000), member("p/a", 3000), request("o/full", 12000))
    held = held.without(held.grants[2].container) if held.grants[2].container.name == "own" else held
    held = fill(request("o/more", 1000), held=held)
    after = fill(member("p/b", 3000), held=held)
    assert owned(after)["a"] == owned(after)["b"] == owned(held)["a"]


def test_a_saved_grant_of_the_policy_none_is_placed_with_its_pod() -> None:
    left = tuple(Grant(member(f"p/{name}", 3000), "", CpuKind.PRESERVE) for name in "ab")
    result = POLICY.reinstate(Allocations().with_grants(*left))
    assert set(owned(result.allocations).values()) == {"4-6"}


def test_containers_that_are_placed_with_their_pod_at_a_start_are_told_as_added() -> None:
    found = POLICY.reinstate(Allocations(), [member("p/a", 3000), member("p/b", 3000)])
    assert {key.name: reason.code for key, reason in found.replaced} == {"a": ReasonCode.ADDED, "b": ReasonCode.ADDED}


def test_a_previous_place_is_asked_for_again() -> None:
    first = member("p/a", 3000)
    held = fill(request("p2/x", 1000))
    wanted = asked("p/a", 3000, GUARANTEED, 64 * MIB, first.pod_totals or PodTotals(0))
    held = fill(replace(wanted, previous=before("NUMA node #3", "12-14")), held=held)
    assert owned(held)["a"] == "12-14"


def lifted(held: Allocations) -> Allocations:
    """The same in the root, with the memory of all nodes, as if an owner that has gone had needed their node."""
    return held.with_grants(*(replace(grant, pool="root", mems=MACHINE.memory_nodes) for grant in held.grants))


def test_containers_that_share_come_home_together_each_as_itself() -> None:
    pod = fill(*(member(f"p/c{i}", 500, limit=1000) for i in range(3)))
    found = POLICY.better_places(lifted(pod))
    assert [grant.container.name for grant in found.grants] == ["c0", "c1", "c2"]
    assert {(grant.pool, grant.mems) for grant in found.grants} == {(pod.grants[0].pool, MACHINE.memory_nodes)}
    pairs = zip(found.grants, pod.grants, strict=True)
    assert all((after.request, after.share) == (before.request, before.share) for after, before in pairs)
    assert POLICY.better_places(lifted(pod).with_grants(*found.grants)).grants == ()


def test_a_pod_counts_as_one_of_those_that_move_at_once() -> None:
    pods = fill(*(member(f"p{n}/c{i}", 500, limit=1000) for n in range(3) for i in range(2)))
    first = POLICY.better_places(lifted(pods))
    assert [grant.container.pod_uid for grant in first.grants] == ["p0", "p0", "p1", "p1"]
    rest = POLICY.better_places(lifted(pods).with_grants(*first.grants), first.last)
    assert [grant.container.pod_uid for grant in rest.grants] == ["p2", "p2"]
    assert rest.last is None


def test_containers_that_share_their_pods_own_cpus_do_not_move() -> None:
    assert POLICY.better_places(fill(*(member(f"p/c{i}", 3000) for i in range(3)))).grants == ()


DEVICES = replace(gpus_on(0, 0, 1), costs=inventory(on_nodes(MACHINE, GPU, [0, 1])))
SITE = TopologyAware(MACHINE, options(MACHINE, "0"), DEVICES)


def with_gpu(name: str, *, costs: bool = False) -> Request:
    wanted = member(name, 3000)
    asks = DeviceAsk(amounts(gpu=1)) if costs else ask(gpu=1)
    return replace(wanted, preferences=replace(wanted.preferences, devices=asks))


def shared(*requests: Request) -> Allocations:
    held = Allocations()
    for each in requests:
        decision = SITE.decide(held, each)
        assert isinstance(decision, Placed), decision
        held = held.with_grants(*decision.moved, decision.grant)
    assert len({grant.owned for grant in held.grants}) == 1
    return held


def test_containers_that_share_cpus_have_devices_of_their_own() -> None:
    held = shared(with_gpu("p/a"), with_gpu("p/b"), member("p/c", 3000))
    assert [names(grant.devices) for grant in held.grants] == ["gpu 0", "gpu 1", ""]
    assert [hint.source for hint in held.grants[2].request.localities] == []
    costly = shared(with_gpu("p/a", costs=True), with_gpu("p/b", costs=True), member("p/c", 3000))
    assert [len(set(grant.devices)) for grant in costly.grants] == [1, 1, 0]
    assert costly.grants[0].devices != costly.grants[1].devices


def test_devices_of_every_container_that_shares_count_for_others() -> None:
    held = shared(with_gpu("p/a"), with_gpu("p/b"))
    wanted = request("o/c", 1000, devices=ask(gpu=1))
    decision = SITE.decide(held, wanted)
    assert isinstance(decision, Placed)
    assert names(decision.grant.devices) == "gpu 2"
    assert isinstance(SITE.decide(held.with_grants(decision.grant), with_gpu("p/d")), Rejected)


def test_a_container_that_shares_keeps_its_devices_through_sizes_and_restarts() -> None:
    held = shared(with_gpu("p/a"), with_gpu("p/b"))
    for own in held.grants:
        bigger = replace(own.request, cpu_request_mcpu=4000, previous=own.as_running)
        decision = SITE.decide(held, bigger)
        assert isinstance(decision, Placed)
        after = held.with_grants(*decision.moved, decision.grant)
        assert [names(grant.devices) for grant in after.grants] == ["gpu 0", "gpu 1"]
    assert SITE.reinstate(held).allocations == held


def test_a_container_is_resized_though_a_device_of_its_fellow_is_no_longer_healthy() -> None:
    held = shared(with_gpu("p/a"), with_gpu("p/b"))
    site = SITE.with_devices(DeviceInventory(tuple(replace(gpu, is_healthy=False) for gpu in SITE.devices.devices)))
    decision = site.decide(held, replace(held.grants[1].request, cpu_request_mcpu=4000))
    assert isinstance(decision, Placed)
    assert [names(grant.devices) for grant in held.with_grants(*decision.moved).grants] == ["gpu 0", "gpu 1"]


def test_a_container_that_shares_and_is_created_again_gets_its_devices_again() -> None:
    held = shared(with_gpu("p/a"), with_gpu("p/b"))
    again = SITE.decide(held, replace(with_gpu("p/b"), previous=held.grants[1].as_previous))
    assert isinstance(again, Placed)
    assert names(again.grant.devices) == "gpu 1"
