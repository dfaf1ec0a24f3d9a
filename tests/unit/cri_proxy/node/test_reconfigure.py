import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import FrameType

import pytest

from cri_proxy.config.model import Config
from cri_proxy.cri.annotations.rules import Restriction
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed
from cri_proxy.node.ledger.ledger import Ledger
from cri_proxy.node.node import Node
from cri_proxy.node.reconfigure import plan, reconfigure, use_devices
from cri_proxy.node.replan import RACES
from cri_proxy.simulate.node import SimulatedNode
from cri_proxy.state.rows import Row
from policies.base import Allocations, CpuKind, Pinning, Reason, Reinstated, Request
from policies.builder import build_policy
from policies.devices import DeviceInventory
from policies.devices.costs import CostListing, Inventory, compile_costs
from policies.policy import Policy
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe
from tests.fakes.grants import row, small_policy
from tests.fakes.site import Site, opened
from tests.fakes.store import MemoryStore
from tests.unit.cri_proxy.node.stage import FragilePolicy, direct
from tests.unit.cri_proxy.node.stage import owned as owner

MACHINE = describe({"packages": 2, "cores": 4})
RULES = Config(adopt="leave")


def holder(name: str, owned: str) -> Row:
    """A container whose creation is under way: no runtime is asked about it."""
    return replace(row(name, owned=owned), container_id="", state="reserved")


class Racing(FragilePolicy):
    """A policy during whose re-plans somebody else decides, ``races`` times."""

    def __init__(self, inner: Policy, disturb: Callable[[], None], races: int) -> None:
        super().__init__(inner)
        self._disturb = disturb
        self._races = races
        self.plans = 0

    def reinstate(self, held: Allocations, requests: Sequence[Request] = ()) -> Reinstated:
        self.plans += 1
        if self.plans <= self._races:
            self._disturb()
        return super().reinstate(held, requests)


def on_node(*rows: Row) -> Node:
    node = SimulatedNode(MACHINE, {"reservedResources": {"cpu": "cpuset:0"}}).node
    node.context.ledger.put(*rows)
    return node


async def change(node: Node, reserved: str, *, must_fit: bool = True) -> str:
    return await reconfigure(node, small_policy(reserved), RULES, must_fit=must_fit)


def owned(node: Node) -> list[str]:
    return [str(r.grant.owned) for r in node.context.ledger.rows()]


async def test_what_is_legal_stays() -> None:
    node = on_node(holder("a", "2-3"), holder("b", "4"))
    assert await change(node, "0-1") == ""
    assert owned(node) == ["2-3", "4"]
    assert node.coordinator.config == RULES


async def test_only_what_is_not_legal_any_more_moves() -> None:
    node = on_node(holder("a", "2-3"), holder("b", "4"))
    assert await change(node, "4") == ""
    assert owned(node)[0] == "2-3"
    assert owned(node)[1] not in ("", "4")


async def test_a_change_without_room_for_everybody_is_refused_and_nothing_is_changed() -> None:
    node = on_node(holder("a", "1-7"))
    before = node.context.ledger.policy, node.coordinator.config
    result = await change(node, "0-1")
    assert "no room for pod-1/a" in result
    assert (owned(node), (node.context.ledger.policy, node.coordinator.config)) == (["1-7"], before)


async def test_what_cannot_be_refused_takes_from_those_who_do_not_fit() -> None:
    node = on_node(holder("a", "1-7"))
    assert await change(node, "0-1", must_fit=False) == ""
    assert owned(node) == [""]


async def test_whoever_had_no_place_before_is_no_reason_to_refuse() -> None:
    node = on_node(holder("a", "1-7"))
    await change(node, "0-1", must_fit=False)
    assert await change(node, "0-2") == ""


def living(name: str, owned: str, acknowledged: str) -> Row:
    """A container that runs where the runtime has confirmed it; without CPUs of its own it is a system pod."""
    made = row(name, owned=owned, acknowledged=acknowledged)
    return made if owned else replace(made, grant=replace(made.grant, kind=CpuKind.RESERVED))


async def test_changing_places_needs_no_cpu_to_spare_where_some_are_not_owned() -> None:
    node = on_node(living("system", "", "0"), living("a", "5", "5"), living("b", "1-4,6-7", "1-4,6-7"))
    assert await change(node, "5") == ""
    assert owned(node) == ["0", "1-4,6-7", ""]


class Swapping(FragilePolicy):
    """A policy that has two containers change places."""

    def reinstate(self, held: Allocations, requests: Sequence[Request] = ()) -> Reinstated:
        a, b = held.grants
        swapped = held.with_grants(replace(a, exclusive=b.exclusive), replace(b, exclusive=a.exclusive))
        return Reinstated(swapped, (), tuple((g.container, Reason("illegal", "test")) for g in (a, b)), ())


async def test_changing_places_where_every_cpu_is_owned_is_refused() -> None:
    node = SimulatedNode(MACHINE, {}).node
    node.context.ledger.put(living("a", "0-3", "0-3"), living("b", "4-7", "4-7"))
    result = await reconfigure(node, Swapping(small_policy("")), RULES)
    assert "pod-1/a, pod-1/b would have to change places" in result
    assert (node.effects.sent, owned(node)) == (0, ["0-3", "4-7"])


async def test_a_start_under_way_is_no_reason_to_refuse() -> None:
    """Its update follows when it has ended."""
    system = living("system", "", "0")
    node = on_node(system, living("a", "5", "5"))
    node.effects.start_sent(system)
    assert await change(node, "5") == ""


@pytest.mark.parametrize(("races", "plans"), [(0, 1), (2, 3), (RACES, RACES + 1)])
async def test_a_decision_in_between_makes_it_plan_again_but_not_for_ever(races: int, plans: int) -> None:
    node = on_node(holder("a", "2-3"))

    def disturb() -> None:
        node.context.ledger.put(holder("a", "2-3"))

    racing = Racing(small_policy("0"), disturb, races)
    await reconfigure(node, racing, RULES)
    assert racing.plans == plans


async def test_where_a_container_is_counts_too_and_is_looked_at_again() -> None:
    node = on_node(living("a", "2-3", "2-3"))

    def disturb() -> None:
        node.context.ledger.confirm(living("a", "2-3", "").key, Pinning(CpuSet.parse("2"), None))

    racing = Racing(small_policy("0"), disturb, 1)
    await reconfigure(node, racing, RULES)
    assert racing.plans == 2


class Moving(FragilePolicy):
    """A policy that gives everybody the CPU above all that they had."""

    def reinstate(self, held: Allocations, requests: Sequence[Request] = ()) -> Reinstated:
        count = len(held.grants)
        moved = [replace(g, exclusive=CpuSet(g.exclusive.mask << count)) for g in held.grants]
        return Reinstated(
            held.with_grants(*moved), (), tuple((g.container, Reason("illegal", "test")) for g in moved), ()
        )


async def work_of_moving(count: int) -> int:
    """How many functions are called to find out whether so many containers, a CPU each, can all be moved."""
    machine = describe({"cores": 2 * count})
    ledger = Ledger(build_policy("topology-aware", machine, TopologyAwareOptions(machine.online, CpuSet())))
    ledger.put(*(living(f"c{i:03}", str(i), str(i)) for i in range(count)))
    calls = 0

    def count_call(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call"

    node = SimulatedNode(machine, {}).node
    node.context.ledger.put(*ledger.rows())
    for set_profile in (threading.setprofile, sys.setprofile):  # those to come, and this one
        set_profile(count_call)
    try:
        planned = await plan(node, Moving(ledger.policy))
    finally:
        for set_profile in (sys.setprofile, threading.setprofile):
            set_profile(None)
    assert (planned.problem, len(planned.moves)) == ("", count)
    return calls


async def test_the_work_grows_with_the_containers_and_not_with_their_square() -> None:
    few, many = await work_of_moving(30), await work_of_moving(120)
    assert few > 30
    assert many < 6 * few


async def test_the_new_grants_are_saved() -> None:
    node = on_node(holder("b", "4"))
    await change(node, "4")
    assert [r.grant.owned for r in node.store.load().rows] == [r.grant.owned for r in node.context.ledger.rows()]


async def test_who_was_left_alone_is_placed_when_the_operator_changes_his_mind() -> None:
    site = Site(small_policy(), rules=Config(adopt="leave"))
    await site.open()
    run = await direct(site).run_pod(PodSpec("old", (guaranteed("c", 2000),)))
    await site.node.resync.check_all("test")
    assert site.node.context.ledger.holder(run.container_id("c")) is None
    await reconfigure(site.node, small_policy(), Config(adopt="pin"))
    await site.node.settle()
    assert site.cpus(run.container_id("c")) == str(owner(site, run.container_id("c")))


async def test_a_plan_names_who_would_move_and_does_what_the_change_then_does() -> None:
    site = Site(small_policy())
    await site.open()
    await site.run("a", guaranteed("c", 2000))
    await site.run("b", ContainerSpec("c", cpu_request_mcpu=500))
    before, ledger = dict(site.node.context.ledger.desired()), site.node.context.ledger
    version = ledger.version
    planned = await plan(site.node, small_policy(reserved="0-1"))
    assert (dict(ledger.desired()), ledger.version) == (before, version)
    await reconfigure(site.node, small_policy(reserved="0-1"), RULES)
    after = ledger.desired()
    assert planned.problem == ""
    assert {row.key: new for row, _, new in planned.moves} == {k: v for k, v in after.items() if v != before[k]}
    assert planned.moves


async def test_a_plan_names_who_would_be_pinned_from_then_on() -> None:
    machine = describe({"packages": 2, "cores": 4})
    unpinned = TopologyAwareOptions(machine.online, CpuSet.parse("0"), pin_cpu=False, pin_memory=False)
    async with opened(Site(build_policy("topology-aware", machine, unpinned))) as site:
        pod = await site.run("a", guaranteed("c", 2000))
        left = await site.run("b", guaranteed("c", 2000))
        site.node.context.ledger.leave_to_another(left.container_id("c"), CpuSet.parse("5"))
        planned = await plan(site.node, small_policy())
        assert [(row.grant.request.pod.name, old) for row, old, _ in planned.moves] == [("a", Pinning())]
        await reconfigure(site.node, small_policy(), RULES)
        await site.node.settle()
        assert site.cpus(pod.container_id("c")) == str(planned.moves[0][2].cpus)


async def test_a_plan_says_what_the_change_would_be_refused_for() -> None:
    node = on_node(holder("a", "1-6"))
    planned = await plan(node, small_policy(reserved="0-3"))
    refused = await change(node, "0-3")
    assert planned.problem
    assert refused.startswith(planned.problem)


ESCAPES = {"cri-proxy.io/cpu.preserve": "true"}
OPEN = Config(restricted_annotations=(Restriction(("cpu.preserve",), ("*",)),))
PRESERVE_IN_KUBE_SYSTEM = Config(
    restricted_annotations=(Restriction(("cpu.preserve", "hyperthreads", "notify-exec"), ("kube-*",)),)
)


async def test_a_live_container_whose_wish_is_restricted_now_is_placed_like_others_and_explain_says_why() -> None:
    async with opened(Site(rules=OPEN)) as site:
        pod = await site.run("a", guaranteed("c", 2000), **ESCAPES)
        trusted = await site.run("b", guaranteed("c", 2000), namespace="kube-public", **ESCAPES)
        container_id = pod.container_id("c")
        assert site.row(container_id).grant.kind is CpuKind.PRESERVE
        assert [str(r.pod.name) for r, *_ in await moves_of(site)] == ["a"]
        assert await reconfigure(site.node, site.policy, PRESERVE_IN_KUBE_SYSTEM) == ""
        await site.node.settle()
        assert (len(owner(site, container_id)), site.cpus(container_id)) == (2, str(owner(site, container_id)))
        assert site.row(trusted.container_id("c")).grant.kind is CpuKind.PRESERVE
        record = site.journal.records.get(site.row(container_id).key)
        assert record is not None
        assert record.history[-1].text.endswith(
            "cri-proxy.io/cpu.preserve: restrictedAnnotations lets it count in kube-* only, not in default"
        )
        await site.open()  # it is saved
        assert len(owner(site, container_id)) == 2


async def moves_of(site: Site) -> list[tuple[Request, Pinning, Pinning]]:
    planned = await plan(site.node, site.policy, PRESERVE_IN_KUBE_SYSTEM)
    return [(row.grant.request, before, after) for row, before, after in planned.moves]


async def test_a_container_with_whole_cores_gives_the_siblings_back_and_keeps_cpus() -> None:
    machine = describe({"packages": 1, "cores": 4, "threads": 2})
    policy = build_policy("topology-aware", machine, TopologyAwareOptions(machine.online, CpuSet.parse("0")))
    async with opened(Site(policy)) as site:
        pod = await site.run("a", guaranteed("c", 3000), **{"cri-proxy.io/hide-hyperthreads": "own-core"})
        wide = site.row(pod.container_id("c")).grant.owned
        assert await reconfigure(site.node, policy, PRESERVE_IN_KUBE_SYSTEM) == ""
        await site.node.settle()
        narrow = site.row(pod.container_id("c")).grant.owned
        assert (len(wide), len(narrow), narrow <= wide) == (4, 3, True)


async def test_a_command_that_is_restricted_now_is_run_no_more_and_its_container_stays_where_it_is() -> None:
    async with opened(Site(rules=OPEN)) as site:
        pod = await site.run("a", guaranteed("c", 2000), **{"cri-proxy.io/notify-exec": "reload"})
        before = site.row(pod.container_id("c")).grant
        await reconfigure(site.node, site.policy, PRESERVE_IN_KUBE_SYSTEM)
        after = site.row(pod.container_id("c")).grant
        assert (after.request.preferences.notify, after.owned, before.owned) == ((), before.owned, before.owned)


async def test_a_request_that_was_read_before_the_reload_is_decided_by_the_new_rules() -> None:
    async with opened(Site(rules=OPEN)) as site:
        await reconfigure(site.node, site.policy, PRESERVE_IN_KUBE_SYSTEM)  # the reader is the old one still
        pod = await site.run("a", guaranteed("c", 2000), **ESCAPES)
        assert len(owner(site, pod.container_id("c"))) == 2


async def test_a_restriction_that_came_while_the_daemon_was_away_holds_for_saved_containers() -> None:
    async with opened(Site(rules=OPEN)) as site:
        pod = await site.run("a", guaranteed("c", 2000), **ESCAPES)
        site.rules = PRESERVE_IN_KUBE_SYSTEM
        await site.open()
        await site.node.settle()
        container_id = pod.container_id("c")
        assert (len(owner(site, container_id)), site.cpus(container_id)) == (2, str(owner(site, container_id)))


async def test_a_restriction_holds_for_containers_whose_state_was_lost() -> None:
    async with opened(Site(rules=OPEN)) as site:
        pod = await site.run("a", guaranteed("c", 2000), **ESCAPES)
        site.rules, site.store = PRESERVE_IN_KUBE_SYSTEM, MemoryStore()
        await site.open()
        assert len(owner(site, pod.container_id("c"))) == 2


async def test_other_devices_change_no_grant(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(Site()) as site:
        container = await site.run("a", guaranteed("c", 2000))
        ledger = site.node.context.ledger
        before, version = ledger.allocations, ledger.version
        costs = Inventory(compile_costs(CostListing((), ("a.com/x/x0",))))
        # Placing again is what another configuration does; not even that may be tried.
        monkeypatch.setattr(type(ledger.policy), "reinstate", None)
        use_devices(site.node, DeviceInventory((), costs=costs))
        assert ledger.policy.devices.costs is costs
        assert ledger.allocations.grants == before.grants
        assert ledger.version > version  # what was worked out with the former devices does not count
        assert container.container_id("c") in {row.container_id for row in ledger.active()}


async def test_containers_are_placed_again_where_it_is_asked_for_and_not_for_options_that_place_nothing() -> None:
    async with opened(Site()) as site:
        ledger, config = site.node.context.ledger, replace(site.node.coordinator.config, adopt="leave")
        before = ledger.version
        assert not await reconfigure(site.node, ledger.policy, config)
        assert (ledger.version, site.node.coordinator.config) == (before, config)
        assert not await reconfigure(site.node, ledger.policy, config)
        assert ledger.version > before
