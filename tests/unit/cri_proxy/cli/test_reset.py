"""The reset command, in front of a runtime that is served over a socket."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cri_proxy.cli.main import run_command
from cri_proxy.cli.reset import render_reset
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client import pods
from cri_proxy.cri_client.pods import IMAGE, ContainerSpec, PodSpec
from cri_proxy.node.reset import Outcome, ResetContainer, ResetReport
from cri_proxy.runtime.embedded.server import RuntimeServer
from cri_proxy.state.process_lock import DeciderLock
from policies.base import Pinning
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.descriptions.machine import describe
from tests.fakes.scripted_runtime import ScriptedRuntime
from tests.fakes.sysfs_tree import write_tree
from tests.testbed.pod_kubelet import PodKubelet


@contextmanager
def runtime_with_a_pinned_container(path: Path) -> Iterator[ScriptedRuntime]:
    """A runtime on this socket with shop/web/c0 on CPU 1 and node 0, served from another thread."""
    runtime = ScriptedRuntime(describe({"cores": 4}), image_names=(IMAGE,))
    started, stopping = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        kubelet = PodKubelet(runtime, pods.KubeletNode(1 << 30, log_directory=""))
        pod = await kubelet.run_pod(PodSpec("web", (ContainerSpec("c0"),), namespace="shop"))
        await kubelet.update(pod.container_id("c0"), pb.LinuxContainerResources(cpuset_cpus="1", cpuset_mems="0"))
        server = RuntimeServer(runtime, f"unix://{path}")
        await server.start()
        loops.append(asyncio.get_running_loop())
        started.set()
        await stopping.wait()
        await server.stop()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert started.wait(30), "the runtime's socket was not opened"
    try:
        yield runtime
    finally:
        loops[0].call_soon_threadsafe(stopping.set)
        thread.join()


def reset(directory: Path, *argv: str) -> int:
    """Run the command on a described machine below this directory."""
    write_tree(directory / "root", describe({"cores": 4, "memory": "1Gi"}))
    where = ("--runtime-endpoint", f"unix://{directory}/r.sock", "--state-dir", f"{directory}/state")
    return run_command(["reset", *where, "--sysfs-root", f"{directory}/root", *argv])


def pinned(runtime: ScriptedRuntime) -> list[tuple[str, str]]:
    return [(c.record.cpuset_cpus, c.record.cpuset_mems) for c in runtime.node.containers.values()]


def test_a_reset_says_who_was_where_and_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with runtime_with_a_pinned_container(tmp_path / "r.sock") as runtime:
        assert reset(tmp_path) == 0
    assert pinned(runtime) == [("0-3", "0")]
    out = capsys.readouterr().out
    assert "shop/web/c0  1 -> 0-3  0" in out
    assert "1 widened; 0 saved grants dropped." in out


def test_a_dry_run_only_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with runtime_with_a_pinned_container(tmp_path / "r.sock") as runtime:
        assert reset(tmp_path, "--dry-run") == 0
    assert pinned(runtime) == [("1", "0")]
    assert "would widen" in capsys.readouterr().out


def test_json_has_every_container_with_before_and_after(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with runtime_with_a_pinned_container(tmp_path / "r.sock"):
        assert reset(tmp_path, "-o", "json") == 0
    report = json.loads(capsys.readouterr().out)
    container = report["containers"][0]
    assert (container["outcome"], container["before"], container["after"]) == (
        "widened",
        {"cpus": "1", "mems": "0"},
        {"cpus": "0-3", "mems": "0"},
    )
    assert (report["target"], report["dropped"]) == ({"cpus": "0-3", "mems": "0"}, 0)


def test_a_container_that_refuses_is_a_clear_no(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with runtime_with_a_pinned_container(tmp_path / "r.sock") as runtime:
        runtime.faults.fail_next("UpdateContainerResources", 2, "the cgroup is busy")
        assert reset(tmp_path) == 1
    out = capsys.readouterr().out
    assert "shop/web/c0: the cgroup is busy" in out
    assert "run it again" in out


def test_while_the_daemon_runs_it_refuses_and_names_the_command_that_stops_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = DeciderLock.acquire(tmp_path / "state")
    with runtime_with_a_pinned_container(tmp_path / "r.sock") as runtime:
        assert reset(tmp_path) == 1
    lock.release()
    assert pinned(runtime) == [("1", "0")]
    assert "`systemctl stop cri-proxy`" in capsys.readouterr().err


def test_a_runtime_that_does_not_answer_is_a_clear_no(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reset(tmp_path) == 1
    assert "r.sock" in capsys.readouterr().err


def test_places_can_come_from_the_daemons_configuration(tmp_path: Path) -> None:
    write_tree(tmp_path / "root", describe({"cores": 4, "memory": "1Gi"}))
    config = tmp_path / "c.yaml"
    config.write_text(
        f"runtimeEndpoint: unix://{tmp_path}/r.sock\nstateDir: {tmp_path}/state\nsysfsRoot: {tmp_path}/root\n"
    )
    with runtime_with_a_pinned_container(tmp_path / "r.sock") as runtime:
        assert run_command(["reset", "--config", str(config)]) == 0
    assert pinned(runtime) == [("0-3", "0")]


@pytest.mark.parametrize("argv", [["--runtime-endpoint", "embedded"], ["--policy", "none"], ["now"]])
def test_wrong_usage_is_told(argv: list[str]) -> None:
    assert run_command(["reset", *argv]) == 2


def pinning(cpus: str, mems: str) -> Pinning:
    return Pinning(CpuSet.parse(cpus) or None, NodeSet.parse(mems) or None)


WIDE = pinning("0-7", "0-1")


def container(name: str, outcome: Outcome, before: Pinning, *, problem: str = "") -> ResetContainer:
    return ResetContainer("shop", "web", name, f"id-{name}", outcome, before, WIDE, problem)


def rendered(*containers: ResetContainer, dropped: int = 0, is_dry: bool = False) -> str:
    return render_reset(ResetReport(WIDE, containers, dropped, is_dry))


def test_each_container_has_a_line_with_before_and_after() -> None:
    text = rendered(container("c0", "widened", pinning("2-3", "0")), container("c1", "wide already", WIDE), dropped=2)
    assert text.splitlines() == [
        "container    CPUs        memory nodes",
        "shop/web/c0  2-3 -> 0-7  0 -> 0-1      widened",
        "shop/web/c1  0-7         0-1           wide already",
        "",
        "1 wide already, 1 widened; 2 saved grants dropped.",
    ]


def test_a_refusal_has_its_reason_and_the_way_on() -> None:
    text = rendered(container("c0", "refused", pinning("2", "0"), problem="busy"), dropped=1)
    assert "shop/web/c0: busy" in text
    assert text.endswith("1 refused; 1 saved grant dropped; run it again for those that were refused.")


def test_a_set_that_nobody_recorded_is_any() -> None:
    assert "any -> 0-7" in rendered(container("c0", "widened", Pinning(None, None)))


def test_a_dry_run_speaks_of_what_would_be() -> None:
    assert rendered(dropped=3, is_dry=True) == "no container runs; 3 saved grants would be dropped."
