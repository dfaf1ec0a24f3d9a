from collections.abc import Callable
from dataclasses import replace

from cri_proxy.cri_client import pods
from cri_proxy.cri_client.pods import ContainerSpec, guaranteed
from cri_proxy.metrics import catalog
from cri_proxy.node.rebalance import BETTER, SMALLER
from policies.base import Allocations, ContainerKey, CpuKind, Grant
from policies.policy import BetterPlaces, Policy
from sysfs.cpuset import CpuSet, NodeSet
from tests.fakes.counters import count_of
from tests.fakes.device_policy import listed, use_costs, with_costs
from tests.fakes.grants import small_policy
from tests.fakes.site import Site
from tests.unit.cri_proxy.node.stage import FragilePolicy, owned
from tests.unit.policies.cost_devices import inventory

WIDE, NARROW = NodeSet.parse("0-1"), NodeSet.parse("0")


class Narrowing(FragilePolicy):
    """A policy that brings one container at a time back to memory node 0."""

    def narrowed(self, held: Allocations) -> tuple[Grant, ...]:
        wide = [g for g in held.grants if g.mems == WIDE]
        return tuple(replace(g, mems=NARROW) for g in wide[:1])


def widen(site: Site, *container_ids: str) -> None:
    """Their memory had to be widened when others came."""
    rows = (site.row(container_id) for container_id in container_ids)
    site.node.context.ledger.put(*(replace(row, grant=replace(row.grant, mems=WIDE)) for row in rows))


def unplace(site: Site, container_id: str) -> None:
    """A forced re-plan had no room for it: it shares the root."""
    row = site.row(container_id)
    shared = Grant(row.grant.request, "root", CpuKind.SHARED, mems=row.grant.mems)
    site.node.context.ledger.put(replace(row, grant=shared))


def on(policy: Policy) -> Site:
    return Site(policy)


async def test_memory_comes_back_when_a_container_has_gone() -> None:
    site = on(Narrowing(small_policy()))
    await site.open()
    stays, goes = [(await site.run(name, guaranteed("c", 1000))) for name in ("a", "b")]
    widen(site, stays.container_id("c"))
    await site.node.effects.settle_all()
    assert site.recorded()[stays.container_id("c")][1] == "0-1"
    await site.kubelet.remove_pod(goes.sandbox_id)
    await site.node.settle()
    assert site.recorded()[stays.container_id("c")][1] == "0"
    assert site.log.errors == []


async def test_the_slow_check_goes_on_until_nothing_is_left_to_narrow() -> None:
    site = on(Narrowing(small_policy()))
    await site.open()
    ids = [(await site.run(name, guaranteed("c", 1000))).container_id("c") for name in ("a", "b", "c")]
    widen(site, *ids)
    await site.node.settle()
    await site.node.rebalance.improve_all()
    await site.node.settle()
    assert {mems for _, mems in site.recorded().values()} == {"0"}


class Disturbed(Narrowing):
    """The same; while it looks for the first time, something else is decided."""

    def __init__(self, inner: Policy) -> None:
        super().__init__(inner)
        self.disturb: Callable[[], None] = lambda: None
        self.looked = 0

    def narrowed(self, held: Allocations) -> tuple[Grant, ...]:
        self.looked += 1
        if self.looked == 1:
            self.disturb()
        return super().narrowed(held)


async def test_what_was_found_while_somebody_decided_does_not_undo_it() -> None:
    policy = Disturbed(small_policy())
    site = on(policy)
    await site.open()
    container_id = (await site.run("a", guaranteed("c", 1000))).container_id("c")
    widen(site, container_id)

    def give_it_another() -> None:
        row = site.row(container_id)
        site.node.context.ledger.put(replace(row, grant=replace(row.grant, exclusive=CpuSet.parse("7"))))

    policy.looked, policy.disturb = 0, give_it_another
    await site.node.rebalance.improve_all()
    grant = site.row(container_id).grant
    assert (str(grant.exclusive), str(grant.mems)) == ("7", "0")


async def test_nobody_with_a_call_under_way_is_touched() -> None:
    site = on(Narrowing(small_policy()))
    await site.open()
    container_id = (await site.run("a", guaranteed("c", 1000))).container_id("c")
    widen(site, container_id)
    async with site.node.effects.lock(site.row(container_id).key):
        assert not site.node.rebalance.improve()
    assert site.node.rebalance.improve()


async def test_whoever_had_to_share_gets_its_cpus_when_room_returns(site: Site) -> None:
    waits = (await site.run("a", guaranteed("c", 2000))).container_id("c")
    unplace(site, waits)
    goes = await site.run("b", guaranteed("c", 6000))
    await site.node.settle()
    assert not owned(site, waits)
    await site.kubelet.remove_pod(goes.sandbox_id)
    await site.node.settle()
    assert str(owned(site, waits)) == site.cpus(waits)
    assert len(owned(site, waits)) == 2


async def test_it_waits_while_it_would_get_less_than_it_asked_for(site: Site) -> None:
    waits = (await site.run("a", guaranteed("c", 2000))).container_id("c")
    unplace(site, waits)
    await site.run("b", guaranteed("c", 6000))
    before = site.row(waits).grant
    await site.node.rebalance.improve_all()
    assert site.row(waits).grant == before


async def test_the_largest_guaranteed_one_comes_first(site: Site) -> None:
    small, large = [(await site.run(f"p{n}", guaranteed("c", n * 1000))).container_id("c") for n in (1, 3)]
    unplace(site, small)
    unplace(site, large)
    site.node.rebalance.improve()
    assert (len(owned(site, small)), len(owned(site, large))) == (0, 3)


async def test_who_has_its_place_keeps_it(site: Site) -> None:
    for spec in (guaranteed("c", 1000), ContainerSpec("c", cpu_request_mcpu=500), ContainerSpec("c")):
        await site.run(f"p{spec.cpu_request_mcpu}", spec)
    assert not site.node.rebalance.improve()


async def test_an_owner_that_shrank_says_why_its_memory_comes_back(site: Site) -> None:
    pod = await site.run("a", guaranteed("c", 2000))
    container_id = pod.container_id("c")
    for mcpu in (6000, 1000):
        await site.kubelet.update(container_id, pods.resources(pod.spec, guaranteed("c", mcpu), site.kubelet.node))
    cpus = site.cpus(container_id)
    assert site.node.rebalance.improve()
    await site.node.settle()
    record = site.journal.records.get(site.row(container_id).key)
    assert record is not None
    assert record.history[-1].text.endswith(SMALLER)
    assert (site.cpus(container_id), len(site.row(container_id).grant.mems)) == (cpus, 1)


class Homing(FragilePolicy):
    """A policy that finds a better place, socket #0, for one container after the other, in the order of their names."""

    def __init__(self, inner: Policy) -> None:
        super().__init__(inner)
        self.looks: list[ContainerKey | None] = []

    def better_places(self, held: Allocations, after: ContainerKey | None = None) -> BetterPlaces:
        self.looks.append(after)
        waiting = [g for g in held.grants if after is None or g.container > after]
        if not waiting:
            return BetterPlaces()
        first, *rest = waiting
        moved = () if first.pool == "socket #0" else (replace(first, pool="socket #0"),)
        return BetterPlaces(moved, first.container if rest else None)


async def in_the_root(policy: Policy, count: int) -> tuple[Site, list[str]]:
    """So many containers that share and were lifted to the root."""
    site = on(policy)
    await site.open()
    specs = [ContainerSpec("c", cpu_request_mcpu=100)] * count
    ids = [(await site.run(f"p{n}", spec)).container_id("c") for n, spec in enumerate(specs)]
    ids.sort(key=lambda container_id: site.row(container_id).key)
    rows = [site.row(container_id) for container_id in ids]
    site.node.context.ledger.put(*(replace(row, grant=replace(row.grant, pool="root")) for row in rows))
    await site.node.settle()
    return site, ids


def pools(site: Site, ids: list[str]) -> list[str]:
    return [site.row(container_id).grant.pool for container_id in ids]


async def test_each_slow_check_goes_on_with_the_next_containers() -> None:
    policy = Homing(small_policy())
    site, ids = await in_the_root(policy, 2)
    await site.node.slow_check()
    await site.node.settle()
    assert pools(site, ids) == ["socket #0", "root"]
    assert site.cpus(ids[0]) != site.cpus(ids[1])
    await site.node.slow_check()
    assert pools(site, ids) == ["socket #0", "socket #0"]
    assert policy.looks == [None, site.row(ids[0]).key]
    assert site.log.errors == []


async def test_a_node_where_nothing_changes_is_looked_at_once() -> None:
    policy = Homing(small_policy())
    site, _ = await in_the_root(policy, 2)
    for _ in range(9):
        await site.node.slow_check()
        await site.node.settle()
    seen = len(policy.looks)
    await site.node.slow_check()
    assert len(policy.looks) == seen
    await site.run("new", guaranteed("c", 1000))
    await site.node.slow_check()
    assert len(policy.looks) == seen + 1


async def test_history_log_and_metrics_say_that_it_came_home() -> None:
    site, (container_id,) = await in_the_root(Homing(small_policy()), 1)
    await site.node.slow_check()
    record = site.journal.records.get(site.row(container_id).key)
    assert record is not None
    assert (record.history[-1].what, record.history[-1].text) == ("rebalanced", f"from root to socket #0: {BETTER}")
    assert count_of(site.journal.counters, catalog.GRANT_CHANGES, "rebalanced") == 1


async def test_what_counts_on_a_move_that_cannot_be_made_waits_too() -> None:
    """Both move at once; a call about the first is under way."""

    class Both(FragilePolicy):
        def better_places(self, held: Allocations, after: ContainerKey | None = None) -> BetterPlaces:
            return BetterPlaces(tuple(replace(g, pool="socket #0") for g in held.grants))

    site, ids = await in_the_root(Both(small_policy()), 2)
    async with site.node.effects.lock(site.row(ids[0]).key):
        await site.node.rebalance.come_home()
    assert pools(site, ids) == ["root", "root"]
    await site.node.rebalance.come_home()
    assert pools(site, ids) == ["socket #0", "socket #0"]


async def test_a_container_that_gets_its_room_keeps_the_devices_that_it_was_created_with() -> None:
    """It is placed anew: by costs that cost files tell by now, others would be chosen."""
    gpu0, gpu1 = "example.com/gpu/gpu0", "example.com/gpu/gpu1"
    site = on(with_costs(small_policy(), inventory([(gpu0, 1, "cpu/cpu0-7"), (gpu1, 9, "cpu/cpu0-7")])))
    await site.open()
    asking = {"cri-proxy.io/device-request": "example.com/gpu=1"}
    container = (await site.run("a", ContainerSpec("c", cpu_request_mcpu=500), **asking)).container_id("c")
    row = site.row(container)
    for others in (inventory([(gpu0, 9, "cpu/cpu0-7"), (gpu1, 1, "cpu/cpu0-7")]), inventory([(gpu1, 1, "cpu/cpu0-7")])):
        use_costs(site.node, others)
        site.node.context.ledger.put(replace(row, grant=replace(row.grant, shared_mcpu=0)))
        assert site.row(container).grant.is_overcommitted
        await site.node.rebalance.improve_all()
        assert (site.row(container).grant.shared_mcpu, site.row(container).grant.devices) == (500, listed(gpu0))
