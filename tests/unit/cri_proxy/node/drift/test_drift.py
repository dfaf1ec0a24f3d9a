from pathlib import Path

import pytest

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import ContainerSpec, guaranteed
from cri_proxy.node.drift.cgroups import Cgroups, Enforced
from cri_proxy.node.drift.drift import AT_ONCE, REPAIRS, WINDOW_SECONDS, Drift, DriftProbes, likely_writer
from cri_proxy.node.drift.kubelet_state import KubeletManagers
from cri_proxy.node.node import NO_DIRECTORY
from cri_proxy.node.sync.adoption import LeftAlone
from policies.base import Pinning
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.descriptions.machine import describe
from tests.fakes.cgroup_tree import CgroupTree
from tests.fakes.site import Site
from tests.unit.cri_proxy.node.stage import background, soon

UPDATE = "UpdateContainerResources"


async def no_managers() -> KubeletManagers:
    return KubeletManagers()


class Scene:
    def __init__(self, site: Site, root: Path, *, v1: bool = False) -> None:
        self.site = site
        self.tree = CgroupTree(root, v1=v1)
        probes = DriftProbes(Cgroups(root), no_managers, lambda: 60.0)
        self.drift = Drift(site.node.context, site.node.effects, site.node.adoption, probes)

    async def run(self, name: str, spec: ContainerSpec) -> str:
        container_id = (await self.site.run(name, spec)).container_id("c")
        self.enforce(container_id)
        return container_id

    def enforce(self, container_id: str) -> None:
        container = self.site.runtime.node.containers[container_id]
        self.tree.write(container.pid, container_id, container.kernel_cpus, container.kernel_mems)

    def tamper(self, container_id: str, cpus: str) -> None:
        (self.tree.directory(container_id) / "cpuset.cpus").write_text(f"{cpus}\n")

    async def check(self) -> None:
        await self.drift.check()
        await self.site.node.settle()

    def sent(self) -> list[str]:
        return [update.cpus for update in self.site.runtime.updates]


@pytest.fixture
def scene(site: Site, tmp_path: Path) -> Scene:
    return Scene(site, tmp_path)


async def test_a_container_that_is_where_it_was_put_needs_nothing(scene: Scene) -> None:
    await scene.run("a", guaranteed("c", 2000))
    await scene.check()
    assert scene.sent() == []


async def test_what_somebody_wrote_to_the_cgroup_is_put_back_through_the_runtime(scene: Scene) -> None:
    container_id = await scene.run("a", guaranteed("c", 2000))
    right = scene.site.cpus(container_id)
    scene.tamper(container_id, "0-7")
    await scene.check()
    assert scene.sent() == [right]


async def test_few_are_asked_for_at_a_time_the_newest_first_and_decisions_do_not_wait_for_them(scene: Scene) -> None:
    ids = [(await scene.site.run(f"p{n}", ContainerSpec("c"))).container_id("c") for n in range(3 * AT_ONCE)]
    asked: list[str] = []

    def note(message: bytes) -> bool:
        asked.append(pb.ContainerStatusRequest.FromString(message).container_id)
        return True

    gate = scene.site.runtime.faults.hang("ContainerStatus", note)
    check = background(scene.drift.check())
    await soon(lambda: gate.waiting == AT_ONCE)
    assert asked == ids[: -AT_ONCE - 1 : -1]
    decision = background(scene.site.node.adoption.inspect(ids[0]))
    await soon(lambda: gate.waiting == AT_ONCE + 1)
    assert asked[-1] == ids[0]
    gate.release()
    await check
    assert (await decision).container_id == ids[0]


async def test_until_it_is_put_back_it_counts_as_being_on_both(scene: Scene) -> None:
    container_id = await scene.run("a", guaranteed("c", 2000))
    scene.tamper(container_id, "0-7")
    gate = scene.site.runtime.faults.block(UPDATE)
    await scene.drift.check()
    row = scene.site.row(container_id)
    assert row.acknowledged is not None
    assert str(row.acknowledged.cpus) == "0-7"
    gate.release()
    await scene.site.node.settle()


async def test_memory_nodes_are_put_back_too(scene: Scene) -> None:
    container_id = await scene.run("a", guaranteed("c", 2000))
    (scene.tree.directory(container_id) / "cpuset.mems").write_text("0-1\n")
    await scene.check()
    own = scene.site.recorded()[container_id][1]
    assert [(u.cpus, u.mems) for u in scene.site.runtime.updates] == [("", own)]


async def test_a_cpu_that_went_offline_is_nobodys_tampering(site: Site, tmp_path: Path) -> None:
    """V1 takes it out of the file at once; that the machine has changed is noticed a moment later."""
    scene = Scene(site, tmp_path, v1=True)
    container_id = await scene.run("a", guaranteed("c", 2000))
    low, high = CpuSet.parse(scene.site.cpus(container_id))
    scene.tamper(container_id, str(low))
    scene.tree.write_online(str(scene.site.node.context.ledger.policy.machine.online - CpuSet.of([high])))
    await scene.check()
    assert scene.sent() == []


async def test_processes_that_the_kernel_moved_out_are_told_of_and_not_put_back(site: Site, tmp_path: Path) -> None:
    scene = Scene(site, tmp_path, v1=True)
    container_id = await scene.run("a", guaranteed("c", 2000))
    scene.tree.flee(scene.site.runtime.node.containers[container_id].pid, container_id, "0-6")
    await scene.check()
    await scene.check()
    assert scene.sent() == []
    (warning,) = scene.drift.warnings()
    assert "its processes run on CPUs 0-6, outside its cgroup" in warning
    assert scene.drift.escaped() == (LeftAlone("default/a/c", CpuSet.parse("0-6")),)
    scene.enforce(container_id)
    await scene.check()
    assert (scene.drift.warnings(), scene.drift.escaped()) == ((), ())


async def test_a_container_that_is_gone_is_not_put_back(scene: Scene) -> None:
    container_id = await scene.run("a", guaranteed("c", 2000))
    scene.tamper(container_id, "0-7")
    (scene.tree.root / "proc" / str(scene.site.runtime.node.containers[container_id].pid) / "cgroup").unlink()
    await scene.check()
    assert scene.sent() == []


async def test_a_container_with_a_call_under_way_is_not_looked_at(scene: Scene) -> None:
    container_id = await scene.run("a", guaranteed("c", 2000))
    scene.tamper(container_id, "0-7")
    async with scene.site.node.effects.lock(scene.site.row(container_id).key):
        await scene.check()
    assert "drifted" not in scene.site.log.warnings


async def test_a_container_that_is_to_be_preserved_is_nobodys_business(scene: Scene) -> None:
    run = await scene.site.run(
        "a", ContainerSpec("c"), namespace="kube-system", **{"cpu.preserve.cri-proxy.io/pod": "true"}
    )
    scene.enforce(run.container_id("c"))
    scene.tamper(run.container_id("c"), "3")
    await scene.check()
    assert scene.sent() == []


async def put_back(scene: Scene, container_id: str) -> None:
    scene.tamper(container_id, "0-7")
    await scene.check()


async def test_after_three_repairs_within_an_hour_we_give_way(scene: Scene) -> None:
    container_id = await scene.run("a", guaranteed("c", 2000))
    for _ in range(REPAIRS + 2):
        await put_back(scene, container_id)
    assert len(scene.sent()) == REPAIRS
    (warning,) = scene.drift.warnings()
    assert warning.startswith("default/a/c: left alone, because another manager pins it: put back 3 times")


async def test_repairs_of_long_ago_do_not_count(scene: Scene) -> None:
    container_id = await scene.run("a", guaranteed("c", 2000))
    for _ in range(REPAIRS + 2):
        await put_back(scene, container_id)
        await scene.site.clock.sleep(WINDOW_SECONDS)
    assert (len(scene.sent()), scene.drift.warnings()) == (REPAIRS + 2, ())


async def test_the_cpus_of_a_container_that_is_left_to_another_are_not_given_away(scene: Scene) -> None:
    container_id = await scene.run("a", ContainerSpec("c", cpu_request_mcpu=500))
    for _ in range(REPAIRS + 1):
        scene.tamper(container_id, "6-7")
        await scene.check()
    assert str(scene.site.node.context.ledger.allocations.withheld) == "6-7"
    later = await scene.run("b", guaranteed("c", 2000))
    assert set(scene.site.cpus(later)).isdisjoint("67")


async def test_a_spec_that_differs_from_the_start_betrays_another_manager(scene: Scene) -> None:
    container_id = await scene.run("a", guaranteed("c", 2000))
    container = scene.site.runtime.node.containers[container_id]
    container.record.cpuset_cpus = container.kernel_cpus = "7"
    scene.enforce(container_id)
    await scene.check()
    assert scene.sent() == []
    (warning,) = scene.drift.warnings()
    assert "the runtime gave it CPUs 7 when it was created" in warning
    assert "NRI plugin" in warning


async def test_a_spec_that_was_right_before_is_put_back(scene: Scene) -> None:
    container_id = await scene.run("a", guaranteed("c", 2000))
    right = scene.site.cpus(container_id)
    await scene.check()
    container = scene.site.runtime.node.containers[container_id]
    container.record.cpuset_cpus = container.kernel_cpus = "7"
    scene.enforce(container_id)
    await scene.check()
    assert (scene.sent(), scene.drift.warnings()) == ([right], ())


async def test_the_next_attempt_of_a_container_is_ours_again(scene: Scene) -> None:
    container_id = await scene.run("a", guaranteed("c", 2000))
    for _ in range(REPAIRS + 1):
        await put_back(scene, container_id)
    await scene.site.kubelet.stop(container_id)
    await scene.check()
    assert scene.drift.warnings() == ()
    assert scene.drift.left() == ()


async def test_an_update_without_a_known_outcome_is_no_drift(scene: Scene) -> None:
    container_id = await scene.run("a", guaranteed("c", 2000))
    row = scene.site.row(container_id)
    scene.site.node.context.ledger.mark_unconfirmed(row.key, row.acknowledged or Pinning(None, None))
    scene.tamper(container_id, "0-7")
    await scene.drift.check()
    assert "drifted" not in scene.site.log.warnings


def test_a_node_that_is_not_this_host_sees_nothing(tmp_path: Path) -> None:
    assert Cgroups(NO_DIRECTORY).enforced(1, "a") is None


MACHINE = describe({"packages": 2, "cores": 4})

STATIC = KubeletManagers("static", sets=(CpuSet.parse("0,4-7"),))

SCOPE = "/kubepods.slice/cri-containerd-1.scope"


def named(
    cpus: str, *, path: str = "/kubepods/pod-1/1", managers: KubeletManagers = STATIC, record: bool = False
) -> str:
    enforced = Enforced(path, CpuSet.parse(cpus), NodeSet.parse("0"))
    return likely_writer(enforced, MACHINE, managers, runtime_differs=record)


def test_what_the_runtime_itself_has_on_record_came_through_it() -> None:
    assert "NRI plugin" in named("0,4-7", record=True)


def test_a_set_of_the_kubelets_state_file_is_the_kubelets() -> None:
    assert "the kubelet's CPU manager (policy static)" in named("0,4-7")
    assert "kubelet's CPU manager" not in named("0,4-7", managers=KubeletManagers("none", sets=STATIC.sets))


def test_a_scope_that_was_set_free_was_reloaded_by_systemd() -> None:
    assert "daemon-reload" in named("0-7", path=SCOPE)
    assert "daemon-reload" not in named("0-7")
    assert "daemon-reload" not in named("2-3", path=SCOPE)


def test_without_evidence_nobody_is_named() -> None:
    assert named("2-3").startswith("the cgroup's files")
