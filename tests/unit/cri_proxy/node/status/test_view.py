from dataclasses import replace
from itertools import pairwise

import pytest

from cri_proxy.config.model import Config
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed
from cri_proxy.errors import CallFailed, StoreError
from cri_proxy.metrics.catalog import PARTS, READY, TABLE
from cri_proxy.metrics.exposition import Sample
from cri_proxy.node.status.model import HealthPart
from cri_proxy.node.status.view import LATELY_SECONDS, REFUSED_SHOWN, DaemonStatus, NodeView
from cri_proxy.state.rows import Saved
from cri_proxy.steps import BUNCH, at_once
from policies.devices import DeviceInventory, InventoryDevice
from sysfs.cpuset import CpuSet
from tests.fakes.device_policy import policy_with_devices
from tests.fakes.grants import small_policy
from tests.fakes.site import Site, opened
from tests.fakes.store import MemoryStore
from tests.unit.cri_proxy.node.stage import BUSY_AFTER, SHARES, FragilePolicy, background, entered, soon

NO_SOCKET = HealthPart("socket", "the socket was removed", is_vital=True)


class Around(DaemonStatus):
    """A daemon with a part and a warning of its own; its runtime may be away."""

    def __init__(
        self, part: HealthPart | None = None, *, is_reached: bool = True, warnings: tuple[str, ...] = ()
    ) -> None:
        self._part = part
        self._is_reached = is_reached
        self._warnings = warnings

    def reaches_runtime(self) -> bool:
        return self._is_reached

    def parts(self) -> tuple[HealthPart, ...]:
        return (self._part,) if self._part is not None else ()

    def samples(self) -> tuple[Sample, ...]:
        return (Sample(READY, 7),)

    def warnings(self) -> tuple[str, ...]:
        return self._warnings


def view(site: Site, around: DaemonStatus | None = None) -> NodeView:
    site.node.coordinator.config_warnings = ("look here",)
    return NodeView(site.node, name="worker-1", daemon=around)


async def test_the_status_shows_every_container_with_what_it_holds(site: Site) -> None:
    a = await site.run("a", guaranteed("c", 2500))
    status = view(site).status()
    (container,) = status.containers
    assert (status.node, status.policy, status.is_ready) == ("worker-1", "topology-aware", True)
    assert (container.pod, container.state, container.kind, container.qos) == ("a", "running", "mixed", "Guaranteed")
    assert (container.container_id, container.shared_mcpu) == (a.container_id("c"), 500)
    assert str(container.cpus) == site.cpus(container.container_id)
    assert {pool.name for pool in status.pools} == {"root", "socket #0", "socket #1"}
    assert status.warnings == ("look here",)


async def test_the_status_has_what_still_fits_and_where_the_cpus_are(site: Site) -> None:
    await site.run("a", guaranteed("c", 2000))
    status = view(site).status()
    assert status.fits is not None
    assert status.map is not None
    assert (status.fits.free_cpus, [node.cpus for node in status.fits.nodes]) == (5, [3, 2])
    assert [package.id for package in status.map.packages] == [0, 1]
    assert str(status.map.reserved) == "0"


async def test_the_map_is_made_once_for_a_policy(site: Site) -> None:
    shown = view(site)
    first = shown.status().map
    assert shown.status().map is first
    site.node.context.ledger.policy = small_policy("0-1")
    other = shown.status().map
    assert other is not None
    assert str(other.reserved) == "0-1"


async def test_a_bunch_of_containers_more_is_a_slice_more(site: Site) -> None:
    counts = []
    for i in range(BUNCH + 1):
        await site.run(f"p{i}", ContainerSpec("c", cpu_request_mcpu=50))
        counts.append(len(list(view(site).status_steps())))
    assert counts == [counts[0]] * BUNCH + [counts[0] + 1]


async def test_a_status_is_of_the_moment_when_it_was_begun(site: Site) -> None:
    for name in ("s", "t"):
        await site.run(name, SHARES)
    before, slices = view(site).status(), view(site).status_steps()
    next(slices)
    await site.run("a", guaranteed("c", 6000))  # the others have to move
    assert at_once(slices) == before != view(site).status()


async def test_a_container_whose_update_waits_says_so(site: Site) -> None:
    await site.run("s", SHARES)
    await site.run("busy", BUSY_AFTER)
    gate = site.runtime.faults.block("UpdateContainerResources")
    spec = PodSpec("a", (guaranteed("c", 2000),))
    await site.kubelet.create(spec, spec.containers[0], await site.kubelet.run_sandbox(spec))
    await entered(gate)
    notes = {c.pod: c.notes for c in view(site).status().containers}
    assert notes["s"] == ("an update waits: the runtime has it on CPUs 4-7",)
    gate.release()
    await site.node.settle()
    assert all(not c.notes for c in view(site).status().containers)


async def test_an_update_that_the_runtime_refuses_is_a_warning(site: Site) -> None:
    await site.run("s", SHARES)
    await site.run("busy", BUSY_AFTER)
    site.runtime.faults.fail_next("UpdateContainerResources", 2, "stuck", times=100)
    spec = PodSpec("a", (guaranteed("c", 2000),))
    await site.kubelet.create(spec, spec.containers[0], await site.kubelet.run_sandbox(spec))
    await site.node.settle()
    assert "default/s/c: the runtime rejected its update: stuck" in view(site).status().warnings
    site.log.errors.clear()


async def test_system_containers_that_ask_for_more_than_is_reserved_are_a_warning(site: Site) -> None:
    for name in ("a", "b"):
        await site.run(name, ContainerSpec("c", cpu_request_mcpu=700), namespace="kube-system")
    said = "their containers ask for 1400m; on shared CPUs meanwhile: kube-system/b/c"
    assert any(said in warning for warning in view(site).status().warnings)


async def test_the_explanation_of_a_placement_has_its_ranking_and_whom_it_displaced(site: Site) -> None:
    await site.run("s", SHARES)
    await site.run("busy", BUSY_AFTER)
    await site.run("a", guaranteed("c", 2000))
    (explained,) = view(site).explain("a", "c").decisions
    decision = explained.decision
    assert (decision.outcome, decision.displaced[0].pod, str(decision.displaced[0].cpus)) == ("placed", "s", "6-7")
    assert decision.ranking[0].outcome == "chosen"
    assert explained.container is not None


async def test_a_refused_container_is_explained_too(site: Site) -> None:
    try:
        await site.run("huge", guaranteed("c", 9000))
    except CallFailed:
        (explained,) = view(site).explain("huge", None).decisions
    assert (explained.decision.outcome, explained.container) == ("refused", None)
    assert "wanted 9 exclusive CPUs" in explained.decision.reasons[0].text


async def test_a_decision_is_explained_the_same_after_a_restart(site: Site) -> None:
    await site.run("s", SHARES)
    await site.run("a", guaranteed("c", 2000))
    before = view(site).explain("a", None)
    await site.open()
    assert view(site).explain("a", None) == before
    assert before.decisions[0].decision.ranking


async def test_a_refusal_is_explained_the_same_after_a_restart(site: Site) -> None:
    with pytest.raises(CallFailed):
        await site.run("huge", guaranteed("c", 9000))
    before = view(site).explain("huge", None)
    await site.node.settle()
    await site.open()
    assert view(site).explain("huge", None) == before
    assert before.decisions[0].decision.outcome == "refused"


async def test_what_was_kept_without_a_record_is_explained_as_restored(site: Site) -> None:
    await site.run("a", guaranteed("c", 2000))
    site.store = MemoryStore(replace(site.store.load(), decisions=()))
    await site.open()
    (explained,) = view(site).explain("a", None).decisions
    assert (explained.decision.outcome, explained.decision.decided_at_seconds, explained.container is None) == (
        "restored",
        None,
        False,
    )


@pytest.mark.parametrize("words", ["a", "default/a", "uid"])
async def test_a_pod_is_found_by_its_name_with_its_namespace_or_by_its_uid(words: str, site: Site) -> None:
    a = await site.run("a", guaranteed("c", 2000))
    asked = a.spec.pod_uid if words == "uid" else words
    assert len(view(site).explain(asked, "c").decisions) == 1


async def test_a_static_pod_is_found_without_the_nodes_name_and_others_are_suggested(site: Site) -> None:
    await site.run("etcd-worker-1", guaranteed("c", 2000))
    shown = view(site)
    assert (len(shown.explain("etcd").decisions), shown.explain("etcd").read_as) == (
        1,
        ("static pod default/etcd-worker-1",),
    )
    assert shown.explain("etdc").decisions == ()
    assert at_once(shown.candidates("etdc")) == ("default/etcd-worker-1",)
    assert shown.explain("etcd", namespace="kube-system").decisions == ()


async def test_who_still_uses_exclusive_cpus_is_a_violation_once_their_owner_runs(site: Site) -> None:
    await site.run("s", SHARES)
    site.runtime.faults.fail_next("UpdateContainerResources", 2, "stuck", times=100)
    await site.run("a", guaranteed("c", 6000))
    (text,) = view(site).status().violations
    assert text.startswith("default/a/c does not have its CPUs")
    assert text.endswith("still used by default/s/c")
    site.log.errors.clear()


async def test_memory_is_shown_per_node_with_what_is_promised(site: Site) -> None:
    await site.run("a", guaranteed("c", 2000, memory_bytes=1 << 20))
    status = view(site).status()
    assert sum(node.promised_bytes for node in status.memory) == 1 << 20
    assert sum(node.containers for node in status.memory) == 1


async def test_a_damaged_record_of_a_container_that_holds_nothing_is_nothing_known(site: Site) -> None:
    with pytest.raises(CallFailed):
        await site.run("huge", guaranteed("c", 9000))
    await site.node.settle()
    (packed,) = site.store.load().decisions
    site.store = MemoryStore(Saved(decisions=(replace(packed, text="{"),)))
    await site.open()
    assert view(site).explain("huge", None).decisions == ()


async def test_a_refusal_is_shown_in_the_status_for_a_while(site: Site) -> None:
    with pytest.raises(CallFailed):
        await site.run("huge", guaranteed("c", 9000))
    (refused,) = view(site).status().refused
    assert refused.pod == "huge"
    await site.clock.sleep(LATELY_SECONDS + 1)
    assert view(site).status().refused == ()


async def test_refusals_that_are_not_shown_are_counted(site: Site) -> None:
    for number in range(REFUSED_SHOWN + 4):
        with pytest.raises(CallFailed):
            await site.run(f"huge-5d4f9c7b8-x2x{'bcdfghjkl'[number]}z", guaranteed("c", 9000))
    status = view(site).status()
    assert (len(status.refused), status.refused_count) == (REFUSED_SHOWN, REFUSED_SHOWN + 4)
    assert {each.workload for each in status.refused} == {"huge"}


async def test_nothing_is_explained_of_a_pod_that_nobody_knows(site: Site) -> None:
    assert view(site).explain("nobody", None).decisions == ()


async def test_a_store_that_fails_makes_the_node_degraded_not_dead(site: Site) -> None:
    assert view(site).health().is_ready
    site.store.failure = StoreError("state.db", "disk full")
    await site.run("a", guaranteed("c", 2000))
    health = view(site).health()
    assert (health.is_alive, health.is_ready, view(site).status().is_ready) == (True, False, False)
    assert "disk full" in health.problems[0]


async def test_a_runtime_that_cannot_be_reached_or_asked_makes_the_node_not_ready_and_not_dead(site: Site) -> None:
    seen = view(site, Around(is_reached=False))
    assert (seen.health().is_alive, seen.health().is_ready) == (True, False)
    assert seen.health().problems == ("the runtime is away: its socket does not answer",)
    site.runtime.faults.fail_next("ListPodSandbox", 14, "shutting down")
    await site.node.resync.check_all("test")
    assert "shutting down" in view(site).health().problems[0]
    await site.node.resync.check_all("test")
    assert view(site).health().is_ready


async def test_a_node_that_has_not_recovered_is_not_ready_and_says_what_keeps_it(site: Site) -> None:
    site.node.coordinator.cannot_open("a bug")
    assert view(site).health().is_ready
    fresh = Site(small_policy())
    fresh.runtime.faults.fail_next("ListPodSandbox", 14, "starting", times=1000)
    opening = background(fresh.open())
    await soon(lambda: hasattr(fresh, "kubelet"))
    (problem,) = view(fresh).health().problems
    assert "not yet checked" in problem
    fresh.node.coordinator.cannot_open("a bug")
    assert "a bug" in view(fresh).health().problems[0]
    opening.cancel()


async def test_what_is_wrong_with_a_part_stands_first_in_the_status(site: Site) -> None:
    seen = view(site, Around(NO_SOCKET, is_reached=False))
    assert seen.status().warnings == (*seen.health().problems, "look here")
    assert "the socket was removed" in seen.status().warnings


async def test_what_the_daemon_warns_of_stands_last_in_the_status(site: Site) -> None:
    assert view(site, Around(warnings=("mind the gap",))).status().warnings == ("look here", "mind the gap")


async def test_a_socket_that_is_gone_is_vital(site: Site) -> None:
    seen = view(site, Around(NO_SOCKET))
    assert (seen.health().is_alive, seen.health().is_ready) == (False, False)


async def test_every_part_that_can_be_told_of_is_known_to_the_metrics(site: Site) -> None:
    assert {part.name for part in view(site).health().parts} < set(PARTS)


async def test_the_metrics_of_a_node_hold_together(site: Site) -> None:
    await site.run("a", guaranteed("c", 2500))
    samples = list(view(site, Around()).samples())
    assert samples[-1] == Sample(READY, 7)
    assert {sample.metric for sample in samples} <= set(TABLE)


async def test_the_machine_and_the_configuration_are_shown_as_they_are(site: Site) -> None:
    assert view(site).topology().online == CpuSet.parse("0-7")
    assert view(site).config() == Config()


async def test_whoever_is_not_pinned_is_named_where_it_can_reach_exclusive_cpus(site: Site) -> None:
    await site.run("free", SHARES, namespace="kube-system", **{"cpu.preserve.cri-proxy.io/pod": "true"})
    await site.run("a", guaranteed("c", 2000))
    notes = {c.pod: c.notes for c in view(site).status().containers}
    assert notes["a"] == ("its CPUs are reachable by: kube-system/free/c (which cri-proxy does not pin)",)


async def test_a_container_that_the_runtime_did_not_create_holds_nothing_and_says_why(site: Site) -> None:
    site.runtime.faults.fail_next("CreateContainer", 2, "no such image")
    with pytest.raises(CallFailed):
        await site.run("a", guaranteed("c", 2000))
    (explained,) = view(site).explain("a", None).decisions
    assert explained.container is None
    assert (explained.decision.outcome, explained.decision.failure) == (
        "not created",
        "the runtime refused: no such image",
    )
    assert explained.decision.ranking


async def test_a_container_that_waits_for_its_place_is_a_warning_until_it_has_one() -> None:
    policy = FragilePolicy(small_policy())
    site = Site(policy)
    await site.open()
    policy.broken |= {"decide", "reinstate"}
    spec = PodSpec("a", (SHARES,))
    container_id = await site.kubelet.create(spec, SHARES, await site.kubelet.run_sandbox(spec))
    await site.node.settle()
    assert [w for w in view(site).status().warnings if container_id[:12] in w and "unplaced" in w]
    policy.broken.clear()
    await site.kubelet.start(container_id)
    assert view(site).status().warnings == ("look here",)


def test_a_node_alone_is_well_and_has_nothing_to_add() -> None:
    alone = DaemonStatus()
    assert alone.reaches_runtime()
    assert (*alone.parts(), *alone.samples(), *alone.warnings()) == ()
    assert alone.configuration() is None


async def test_the_status_shows_devices_and_who_has_them() -> None:
    async with opened(Site(policy_with_devices("example.com/gpu/gpu0", "example.com/gpu/gpu1"))) as site:
        await site.run("a", guaranteed("c", 1000), **{"cri-proxy.io/device-request": "example.com/gpu=1"})
        status = view(site).status()
        (container,), (gpus,) = status.containers, status.devices
        assert container.devices == ("example.com/gpu/gpu0",)
        assert (gpus.free, gpus.holders[0].container) == (("example.com/gpu/gpu1",), "default/a/c")
        (explained,) = view(site).explain("a").decisions
        assert explained.decision.granted is not None
        assert explained.decision.granted.devices == container.devices


async def test_a_device_on_a_node_that_the_machine_has_not_is_a_warning() -> None:
    far = DeviceInventory((InventoryDevice("gpu", 0, numa=7),))
    async with opened(Site(policy_with_devices(devices=far))) as site:
        assert "inventory: gpu 0 (node 7)" in view(site).status().warnings[-1]


async def test_the_mark_changes_with_what_happens_and_with_nothing_else(site: Site) -> None:
    shown = view(site)
    marks = [shown.mark(), shown.mark()]
    await site.run("a", guaranteed("c", 1000))
    marks.append(shown.mark())
    with pytest.raises(CallFailed):  # a refusal alone
        await site.run("huge", guaranteed("c", 60_000))
    marks.append(shown.mark())
    assert [one == other for one, other in pairwise(marks)] == [True, False, False]
