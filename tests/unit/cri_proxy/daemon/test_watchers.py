"""What changes under a running daemon: real files, a real watch, a node on the embedded runtime."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cri_proxy.cli.help.parser import command_parser, load_command
from cri_proxy.cli.run import settings_from
from cri_proxy.clock import SystemClock
from cri_proxy.codec import decode
from cri_proxy.config.files.agent import Agent, Origin
from cri_proxy.config.last_known_good import find_known_good
from cri_proxy.config.load import parse_config
from cri_proxy.cri_client.pods import ContainerSpec, KubeletNode, PodSpec, guaranteed
from cri_proxy.daemon.app import Daemon
from cri_proxy.daemon.watchers import Watchers
from cri_proxy.http.client import ask
from cri_proxy.logs import configure_logging
from cri_proxy.node.status.decision_views import PlanView
from cri_proxy.node.status.model import ConfigurationView
from cri_proxy.runtime.client import RuntimeClient
from cri_proxy.state.capture import read_state
from policies.policy import Policy
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet
from sysfs.model import Machine
from tests.fakes.kubelet_volume import KubeletVolume
from tests.fakes.machines import small_machine
from tests.fakes.site import Silent
from tests.fakes.waiting import holds
from tests.testbed.pod_kubelet import PodKubelet
from tests.testbed.wait import until

CONFIG = """
availableResources: {cpu: "cpuset:0-7"}
reservedResources: {cpu: "cpuset:0"}
http: "off"
runtimeEndpoint: embedded
"""


class Scene:
    def __init__(self, directory: Path, text: str = CONFIG, machine: Machine | None = None) -> None:
        self.directory = directory
        self.volume = KubeletVolume(directory / "config")
        self.write(text)
        listen = f"unix://{directory}/p.sock"
        words = ["--config", f"{directory}/config", "--listen", listen, "--state-dir", f"{directory}/state"]
        args = command_parser("run", load_command("run")).parse_args(words)
        self.log = Silent()
        self.daemon = Daemon(settings_from(args), log=self.log, machine=machine or small_machine())
        self.client = RuntimeClient(listen)
        self.kubelet = PodKubelet(self.client, KubeletNode(4 << 30, log_directory="", image="localhost/app:1"))

    def write(self, text: str) -> None:
        self.volume.write({"default.yaml": text})

    @property
    def watchers(self) -> Watchers:
        assert self.daemon.watchers is not None
        return self.daemon.watchers

    def view(self) -> ConfigurationView:
        return self.watchers.reloader.view()

    async def comes(self, outcome: str) -> ConfigurationView:
        """Wait for the next reload; it must be this one."""
        before = self.view().last
        await holds("a reload", lambda: self.view().last != before)
        last = self.view().last
        assert last is not None
        assert (last.outcome, last.is_asked) == (outcome, False), last.reason
        return self.view()

    async def change(self, text: str, outcome: str) -> ConfigurationView:
        self.write(text)
        return await self.comes(outcome)

    def policy(self) -> Policy:
        assert self.daemon.node is not None
        return self.daemon.node.context.ledger.policy

    def owners(self) -> list[str]:
        assert self.daemon.node is not None
        return [row.grant.request.pod.name for row in self.daemon.node.context.ledger.active() if row.grant.owned]

    def cpus(self) -> dict[str, str]:
        """Who is to be on which CPUs."""
        assert self.daemon.node is not None
        ledger = self.daemon.node.context.ledger
        return {row.grant.request.pod.name: str(ledger.desired()[row.key].cpus) for row in ledger.active()}


class Bridged(Scene):
    """A service of the host: what the kubelet writes comes to it through the agent."""

    def __init__(self, directory: Path) -> None:
        self.mounted = KubeletVolume(directory / "mounted")
        super().__init__(directory)

    def write(self, text: str) -> None:
        self.mounted.write({"group.rt.yaml": text, "default.yaml": "nonsense"})
        origin = Origin(self.mounted.directory, "rt")
        agent = Agent(origin, self.directory / "config", log=Silent(), clock=SystemClock())
        with ThreadPoolExecutor(1) as thread:  # another process than the daemon, whose loop runs here
            assert thread.submit(lambda: asyncio.run(agent.copy())).result()


@asynccontextmanager
async def started(scene: Scene, *, errors: Sequence[str] = ()) -> AsyncIterator[Scene]:
    """Start the daemon, and stop it at the end; it logs these errors and no others."""
    try:
        await scene.daemon.start()
        await holds("it decides", lambda: scene.daemon.node is not None and scene.daemon.node.coordinator.is_ready)
        yield scene
        assert [error.split()[0] for error in scene.log.errors] == list(errors)
    finally:
        await scene.client.close()
        await scene.daemon.stop()


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with started(Scene(tmp_path)) as scene:
        yield scene


async def test_a_swapped_volume_is_in_force_for_who_is_there_and_who_comes(scene: Scene) -> None:
    await scene.kubelet.run_pod(PodSpec("a", (guaranteed("c", 2000),)))
    before = scene.cpus()["a"]
    await scene.change(f"{CONFIG}topologyAware: {{PreferSharedCPUs: true}}", "applied")
    await scene.kubelet.run_pod(PodSpec("b", (guaranteed("c", 2000),)))
    assert scene.cpus()["a"] == before
    assert scene.owners() == ["a"]


async def test_what_leaves_no_room_is_rejected_and_who_is_there_stays(scene: Scene) -> None:
    await scene.kubelet.run_pod(PodSpec("a", (guaranteed("c", 6000),)))
    before = scene.cpus()
    await scene.change(CONFIG.replace('"cpuset:0"', '"cpuset:0-4"'), "rejected")
    assert scene.cpus() == before
    assert "no room for a/c" in scene.watchers.reloader.warnings()[0]
    assert scene.view().rejected == 1


async def test_that_changes_are_found_late_is_a_warning(scene: Scene) -> None:
    scene.watchers.configuration.watch.problem = "inotify: No space left on device"
    assert "by polling only, every 15 s: inotify: No space left" in scene.watchers.warnings()[0]


async def test_what_this_machine_cannot_give_is_rejected(scene: Scene) -> None:
    view = await scene.change(CONFIG.replace('"cpuset:0"', '"cpuset:64"'), "rejected")
    assert view.last is not None
    assert "reservedResources.cpu: CPU 64" in view.last.reason


async def test_a_reload_that_is_asked_for_before_it_can_be_made_is_made_then(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    scene.daemon.reload()
    async with started(scene) as scene:
        await holds("the reload", lambda: scene.view().applied == 1)


async def test_pods_come_and_go_while_one_configuration_chases_the_other(scene: Scene) -> None:
    """No call fails, none is lost, and the last configuration is the one in force."""

    async def churn(name: str) -> None:
        for i in range(8):
            pod = await scene.kubelet.run_pod(PodSpec(f"{name}{i}", (guaranteed("c", 1000),)))
            await scene.kubelet.remove_pod(pod.sandbox_id)

    async def reload() -> None:
        for i in range(6):
            wanted = i % 2 == 0
            scene.write(f"{CONFIG}topologyAware: {{ColocatePods: {str(wanted).lower()}}}")
            scene.daemon.reload()

            async def is_in_force(wanted: bool = wanted) -> bool:
                return scene.watchers.reloader.config.of_policy(TopologyAwareOptions).colocate_pods is wanted

            await until(f"configuration {i} is in force", is_in_force, seconds=20)

    await scene.kubelet.run_pod(PodSpec("stays", (guaranteed("c", 2000),)))
    before = scene.cpus()["stays"]
    await asyncio.gather(churn("a"), churn("b"), churn("c"), reload())
    assert scene.cpus() == {"stays": before}
    assert not scene.watchers.reloader.config.of_policy(TopologyAwareOptions).colocate_pods
    assert (scene.view().applied >= 6, scene.view().rejected) == (True, 0)


async def test_the_log_changes_with_the_configuration(scene: Scene) -> None:
    stream = io.StringIO()
    log = configure_logging("info", "json", stream)
    log.info("ready")
    await scene.change(f"{CONFIG}log: {{level: error}}", "applied")
    log.info("stopping")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["ready"]


async def test_a_plan_says_who_would_be_updated_and_changes_nothing(scene: Scene) -> None:
    await scene.kubelet.run_pod(PodSpec("a", (ContainerSpec("c", cpu_request_mcpu=500),)))
    before, policy = scene.cpus(), scene.policy()
    lost = min(CpuSet.parse(before["a"]))
    text = CONFIG.replace('"cpuset:0"', f'"cpuset:0,{lost}"')
    plan = await scene.watchers.plan(f"{text}stateDir: /x\n", "")
    assert (plan.problem, plan.needs_restart) == ("", ())  # the command line has the last word on stateDir
    (move,) = plan.moves
    assert (move.pod, str(move.cpus_before)) == ("a", before["a"])
    assert (scene.cpus(), scene.policy()) == (before, policy)
    await scene.change(text, "applied")
    assert scene.cpus() == {"a": str(move.cpus)} != before


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (CONFIG.replace('"cpuset:0"', '"cpuset:0-4"'), "no room for a/c"),
        (CONFIG.replace('"cpuset:0"', '"cpuset:64"'), "reservedResources.cpu: CPU 64"),
        ("adpot: pin", "did you mean adopt?"),
        ("", "is empty now"),
    ],
)
async def test_a_plan_says_why_it_would_be_rejected(text: str, problem: str, scene: Scene) -> None:
    await scene.kubelet.run_pod(PodSpec("a", (guaranteed("c", 6000),)))
    assert problem in (await scene.watchers.plan(text, "")).problem
    assert scene.view().last is None


async def test_the_plan_is_asked_for_on_the_admin_socket(tmp_path: Path, scene: Scene) -> None:
    text = f"{CONFIG}imageListen: /a"
    answer = await asyncio.to_thread(ask, tmp_path / "admin.sock", "/api/v1/plan", {"group": ""}, post=text)
    assert decode(PlanView, answer).problem.endswith("imageListen: needs imageEndpoint as well: give both or neither")


async def test_what_stands_and_what_fits_is_asked_for_on_the_admin_socket(tmp_path: Path, scene: Scene) -> None:
    await scene.kubelet.run_pod(PodSpec("a", (guaranteed("c", 2000),)))
    state = await asyncio.to_thread(ask, tmp_path / "admin.sock", "/api/v1/state", post="")
    options, saved = read_state(state)
    assert [(row.name.pod, str(row.known.cpus)) for row in saved.rows] == [("a", scene.cpus()["a"])]
    assert parse_config(json.dumps(options)) == scene.watchers.reloader.config
    answer = await asyncio.to_thread(ask, tmp_path / "admin.sock", "/api/v1/fit", post="[]")
    assert answer == {"containers": [], "problem": ""}


async def test_a_configmap_comes_through_the_agent_with_the_nodes_group(tmp_path: Path) -> None:
    async with started(Bridged(tmp_path)) as scene:
        for adopt in ("leave", "pin"):
            view = await scene.change(f"{CONFIG}adopt: {adopt}", "applied")
            assert (view.group, Path(view.file).name) == ("rt", "group.rt.yaml")
            assert scene.watchers.reloader.config.adopt == adopt


async def was_kept(scene: Scene) -> None:
    """Wait until the next start would find what is in force."""

    async def it_was() -> bool:
        path = scene.directory / "config"
        return find_known_good(scene.directory / "state", path) == scene.watchers.reloader.in_force

    await until("it was kept", it_was, seconds=20)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("adpot: pin", "did you mean adopt?"),
        (CONFIG.replace('"cpuset:0"', '"cpuset:64"'), "reservedResources.cpu: CPU 64"),
        ("", "is empty now"),
    ],
)
async def test_a_start_after_a_rejected_edit_goes_on_with_what_was_in_force(
    tmp_path: Path, text: str, problem: str
) -> None:
    shared = f"{CONFIG}topologyAware: {{PreferSharedCPUs: true}}"
    async with started(Scene(tmp_path)) as scene:
        await scene.change(shared, "applied")
        await was_kept(scene)
        await scene.change(text, "rejected")
    async with started(Scene(tmp_path, text), errors=["config_kept"]) as scene:
        assert scene.watchers.reloader.config.of_policy(TopologyAwareOptions).prefer_shared
        assert problem in scene.watchers.reloader.warnings()[0]
        assert scene.daemon.node is not None
        assert (scene.view().is_kept, scene.daemon.node.coordinator.is_ready) == (True, True)
        await scene.kubelet.run_pod(PodSpec("b", (guaranteed("c", 2000),)))
        assert scene.owners() == []
        await scene.change(CONFIG, "applied")
        assert (scene.view().is_kept, scene.watchers.reloader.warnings()) == (False, ())
        await was_kept(scene)
