"""A node of 16 CPUs whose runc reverses the bytes of the masks that it gives to systemd."""

from collections.abc import AsyncIterator, Callable, Collection
from copy import copy
from dataclasses import replace
from pathlib import Path

import pytest

from cri_proxy.cri_client.pods import guaranteed
from cri_proxy.metrics import catalog
from cri_proxy.node.drift.cgroups import Cgroups
from cri_proxy.node.drift.drift import PAUSE_SECONDS, REPAIRS, Drift, DriftProbes
from cri_proxy.node.drift.runc_scope import REMIND_SECONDS
from cri_proxy.node.status.gauges import node_samples
from cri_proxy.node.status.view import NodeView
from cri_proxy.runtime.runc import as_systemd_reads
from cri_proxy.tasks import Tasks
from policies.base import Pinning
from policies.builder import build_policy
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.descriptions.machine import describe
from tests.fakes.cgroup_tree import CgroupTree
from tests.fakes.site import Site, opened
from tests.fakes.waiting import holds

KNOWN = ("put_back", "runc_masks")


class FakeWrites:
    """Implements ``Writes``; a test writes for it."""

    def __init__(self, on_write: Callable[[str], None]) -> None:
        self.on_write = on_write
        self.followed: dict[str, Path] = {}
        self.problem = ""

    def follow(self, container_id: str, directory: Path) -> bool:
        is_new = container_id not in self.followed and not self.problem
        if is_new:
            self.followed[container_id] = directory
        return is_new

    def keep(self, container_ids: Collection[str]) -> None:
        self.followed = {i: directory for i, directory in self.followed.items() if i in container_ids}

    def close(self) -> None:
        self.followed = {}


class Scene:
    """``victim`` owns CPUs above 7."""

    def __init__(self, site: Site, root: Path, *, period_seconds: float = 60.0) -> None:
        self.site = site
        self.tree = CgroupTree(root)
        self.writes: list[FakeWrites] = []
        self.period_seconds = period_seconds
        managers = site.node.managers.read
        probes = DriftProbes(Cgroups(root), managers, lambda: self.period_seconds, self._writes)
        self.drift = Drift(site.node.context, site.node.effects, site.node.adoption, probes)
        self.node = copy(site.node)
        self.node.drift = self.drift

    def _writes(self, on_write: Callable[[str], None]) -> FakeWrites:
        self.writes.append(FakeWrites(on_write))
        return self.writes[0]

    async def start(self) -> None:
        self.victim = (await self.site.run("victim", guaranteed("c", 2000))).container_id("c")
        await self.site.run("neighbour", guaranteed("c", 7000))
        self.own = CpuSet.parse(self.site.cpus(self.victim))
        self.other = as_systemd_reads(self.own)
        assert self.other != self.own
        self.enforce()

    def enforce(self) -> None:
        container = self.site.runtime.node.containers[self.victim]
        self.tree.write(container.pid, self.victim, container.kernel_cpus, container.kernel_mems)

    def write(self, cpus: CpuSet | str) -> None:
        (self.tree.directory(self.victim) / "cpuset.cpus").write_text(f"{cpus}\n")

    async def check(self) -> None:
        await self.drift.check()
        await self.site.node.settle()

    async def wake(self) -> None:
        """The ledger changes, and what runs is looked at."""
        self.site.node.context.signals.ledger_changed.send()
        seen = self.site.clock.now_seconds()
        await holds("it was looked at", lambda: self.site.clock.now_seconds() >= seen + PAUSE_SECONDS)

    async def reload(self) -> None:
        """Systemd writes the scope as it reads it; the look at it puts it back."""
        self.write(self.other)
        await self.check()
        self.enforce()

    def sent(self) -> list[str]:
        return [update.cpus for update in self.site.runtime.updates]

    def samples(self) -> dict[tuple[object, ...], object]:
        return {(s.metric, *s.labels): s.value for s in node_samples(self.node)}

    def counted(self, *labels: str) -> object:
        samples = {(s.metric, *s.labels): s.value for s in self.site.journal.counters.samples()}
        return samples[catalog.DRIFTS, *labels]

    def logged(self) -> int:
        return self.site.log.warnings.count("runc_masks")


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    machine = describe({"packages": 2, "cores": 8})
    options = TopologyAwareOptions(machine.online, CpuSet.of([0]))
    async with opened(Site(build_policy("topology-aware", machine, options))) as site:
        scene = Scene(site, tmp_path)
        await scene.start()
        yield scene


async def test_reversed_bytes_are_put_back_however_often_and_never_given_up(scene: Scene) -> None:
    for _ in range(REPAIRS + 3):
        await scene.reload()
    assert scene.sent() == [str(scene.own)] * (REPAIRS + 3)
    assert scene.drift.left() == ()
    assert (scene.counted(*KNOWN), scene.counted("put_back", "other")) == (REPAIRS + 3, 0)


async def test_they_do_not_count_towards_giving_up_another_writer(scene: Scene) -> None:
    for _ in range(REPAIRS):
        await scene.reload()
    for _ in range(REPAIRS):
        scene.write("0-15")
        await scene.check()
        scene.enforce()
    assert scene.drift.left() == ()
    assert scene.counted("put_back", "other") == REPAIRS


async def test_the_log_names_the_remedy_once_in_a_while_and_explain_each_time(scene: Scene) -> None:
    for _ in range(3):
        await scene.reload()
    assert scene.logged() == 1
    await scene.site.clock.sleep(REMIND_SECONDS)
    await scene.reload()
    assert scene.logged() == 2
    assert "drifted" not in scene.site.log.warnings
    record = scene.site.journal.records.get(scene.site.row(scene.victim).key)
    assert record is not None
    (entry,) = [entry for entry in record.history if entry.what == "drifted"]
    assert (entry.count, "runc 1.1.6 or later" in entry.text) == (4, True)


async def test_memory_nodes_are_reversed_likewise(scene: Scene) -> None:
    row = scene.site.row(scene.victim)
    known = Pinning(scene.own, NodeSet.parse("8"))
    enforced = Cgroups(scene.tree.root).enforced(scene.site.runtime.node.containers[row.container_id].pid, scene.victim)
    assert enforced is not None
    online, nodes = CpuSet.parse("0-15"), NodeSet.parse("0-15")
    row = replace(row, acknowledged=known)

    def has_happened(cpus: CpuSet, mems: str) -> bool:
        found = replace(enforced, cpus=cpus, mems=NodeSet.parse(mems))
        return scene.drift.misread.has_happened(row, found, online, nodes)

    assert has_happened(scene.own, "0")
    assert has_happened(scene.other, "0")
    assert has_happened(scene.other, "8")
    assert not has_happened(scene.own, "8")
    assert not has_happened(scene.own, "1")
    assert not has_happened(scene.other, "1")


async def test_a_scope_that_is_wrong_is_warned_of_before_anybody_reloads(scene: Scene) -> None:
    container = scene.site.runtime.node.containers[scene.victim]
    scope = f"cri-containerd-{scene.victim}.scope"
    scene.tree.write(container.pid, scope, container.kernel_cpus, container.kernel_mems)
    scene.tree.write_unit(scope, AllowedCPUs=str(scene.own).replace(",", " "))
    await scene.check()
    assert (scene.drift.warnings(), scene.logged(), scene.samples()[(catalog.MISREAD,)]) == ((), 0, 0)
    scene.tree.write_unit(scope, AllowedCPUs=str(scene.other).replace(",", " "))
    await scene.check()
    await scene.check()
    (warning,) = scene.drift.warnings()
    assert f"moves default/victim/c from CPUs {scene.own} to {scene.other}, until they are put back" in warning
    assert warning.endswith("install runc 1.1.6 or later")
    assert (scene.sent(), scene.logged(), scene.samples()[(catalog.MISREAD,)]) == ([], 1, 1)
    await scene.site.kubelet.stop(scene.victim)
    await scene.check()
    assert scene.drift.warnings() == ()


@pytest.mark.parametrize(("possible", "is_said"), [("0-15", True), ("8-15", False)])
async def test_cpus_that_there_cannot_be_are_never_written_by_systemd(
    scene: Scene, possible: str, is_said: bool
) -> None:
    """The kernel refuses the whole list (cpuset.c, EINVAL), so that a reload changes nothing."""
    container = scene.site.runtime.node.containers[scene.victim]
    scope = f"cri-containerd-{scene.victim}.scope"
    scene.tree.write(container.pid, scope, container.kernel_cpus, container.kernel_mems)
    scene.tree.write_unit(scope, AllowedCPUs=str(scene.other))
    scene.tree.write_possible(possible)
    await scene.check()
    assert bool(scene.drift.warnings()) == is_said


async def test_what_was_found_misread_is_all_that_is_named(scene: Scene) -> None:
    await scene.reload()
    (warning,) = scene.drift.warnings()
    assert f"from CPUs {scene.own} to {scene.other}, until" in warning


async def test_an_owner_that_is_left_to_another_manager_is_a_violation(scene: Scene) -> None:
    for _ in range(REPAIRS + 1):
        scene.write("1-3")
        await scene.check()
    status = NodeView(scene.node, name="").status()
    assert status.violations == (
        "default/neighbour/c does not have its CPUs 1-7 alone: still used by default/victim/c",
        f"default/victim/c owns CPUs {scene.own} and is on 1-3, where another manager keeps it",
    )
    assert scene.samples()[(catalog.VIOLATED,)] == 2


@pytest.fixture
async def following(scene: Scene) -> AsyncIterator[Scene]:
    """The victim is followed, and has been looked at since."""
    task = Tasks().start(scene.drift.follow())
    await holds("it is followed", lambda: scene.victim in scene.writes[0].followed)
    yield scene
    task.cancel()


async def test_a_write_is_looked_at_without_waiting_for_the_next_check(following: Scene) -> None:
    scene = following
    assert scene.writes[0].followed[scene.victim] == scene.tree.directory(scene.victim)
    scene.write(scene.other)
    scene.writes[0].on_write(scene.victim)
    # Twice where a look that was due anyway came between these two lines: nothing here does what is sent.
    await holds("it is put back", lambda: set(scene.sent()) == {str(scene.own)})


async def test_what_was_written_before_the_start_is_looked_at(scene: Scene) -> None:
    scene.write(scene.other)
    task = Tasks().start(scene.drift.follow())
    await holds("it is put back", lambda: str(scene.own) in scene.sent())
    task.cancel()


async def test_a_container_is_followed_as_soon_as_it_runs(following: Scene) -> None:
    scene = following
    later = (await scene.site.run("later", guaranteed("c", 1000))).container_id("c")
    container = scene.site.runtime.node.containers[later]
    scene.tree.write(container.pid, later, container.kernel_cpus, container.kernel_mems)
    scene.site.node.context.signals.ledger_changed.send()
    await holds("it is followed", lambda: later in scene.writes[0].followed)


async def test_one_whose_cgroup_is_unknown_is_asked_for_once_and_then_with_all_others(following: Scene) -> None:
    scene = following
    scene.site.runtime.calls.clear()
    await scene.site.run("hidden", guaranteed("c", 1000))
    for _ in range(3):
        await scene.wake()
    assert scene.site.runtime.calls["ContainerStatus"] == 1
    await scene.check()
    assert scene.site.runtime.calls["ContainerStatus"] == len(["hidden", "hidden", "neighbour"])


async def test_a_write_during_a_call_is_looked_at_after_it(following: Scene) -> None:
    scene = following
    async with scene.site.node.effects.lock(scene.site.row(scene.victim).key):
        scene.write(scene.other)
        scene.writes[0].on_write(scene.victim)
        seen = scene.site.clock.now_seconds()
        await holds("it was looked at", lambda: scene.site.clock.now_seconds() > seen + 3 * PAUSE_SECONDS)
        assert scene.sent() == []
    await holds("it is put back", lambda: scene.sent() == [str(scene.own)])


async def test_without_the_check_nothing_is_looked_at(scene: Scene) -> None:
    scene.period_seconds = 0
    task = Tasks().start(scene.drift.follow())
    scene.writes[0].on_write(scene.victim)
    seen = scene.site.clock.now_seconds()
    await holds("it was woken", lambda: scene.site.clock.now_seconds() >= seen + PAUSE_SECONDS)
    assert scene.writes[0].followed == {}
    task.cancel()


async def test_what_keeps_writes_from_being_noticed_is_said(scene: Scene) -> None:
    scene.writes[0].problem = "inotify: No space left on device"
    await scene.check()
    assert scene.drift.warnings() == (
        "cpusets that others write are found by polling only: inotify: No space left on device",
    )


async def test_a_container_that_is_gone_is_not_followed(scene: Scene) -> None:
    await scene.check()
    assert scene.victim in scene.writes[0].followed
    await scene.site.kubelet.stop(scene.victim)
    await scene.check()
    assert scene.victim not in scene.writes[0].followed
