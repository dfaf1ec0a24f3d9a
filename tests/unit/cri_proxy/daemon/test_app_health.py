"""Health and metrics of a whole daemon, over its admin socket: each condition, and the way back."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from cri_proxy.cri_client.kubelet import Kubelet
from cri_proxy.cri_client.pods import IMAGE, KubeletNode, PodSpec, guaranteed
from cri_proxy.daemon.app import Daemon
from cri_proxy.metrics.catalog import TABLE
from cri_proxy.runtime.client import RuntimeClient
from cri_proxy.runtime.embedded.server import RuntimeServer
from cri_proxy.testbed.wait import until
from tests.fakes.machines import small_machine
from tests.fakes.scripted_runtime import ScriptedRuntime
from tests.fakes.settings import TEXT, settings_in
from tests.fakes.site import Silent

IMAGES = "/runtime.v1.ImageService/"
MACHINE = small_machine()


class Scene:
    def __init__(self, directory: Path, more: str) -> None:
        self.directory = directory
        self.log = Silent()
        self.settings = settings_in(directory, TEXT + more)
        self.runtime = ScriptedRuntime(MACHINE, image_names=(IMAGE,))
        self.server = self.new_server()

    def new_server(self) -> RuntimeServer:
        return RuntimeServer(self.runtime, f"unix://{self.directory}/runtime.sock")

    async def get(self, target: str) -> tuple[int, str]:
        reader, writer = await asyncio.open_unix_connection(self.settings.admin_socket, limit=1 << 20)
        writer.write(f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        head, _, body = (await reader.read(-1)).decode().partition("\r\n\r\n")
        writer.close()
        return int(head.split(" ")[1]), body

    async def readiness(self) -> int:
        return (await self.get("/readyz"))[0]

    async def ready(self, status: int = 200) -> None:
        async def is_so() -> bool:
            return await self.readiness() == status

        await until(f"/readyz says {status}", is_so, seconds=20)

    async def run_pod(self, name: str = "web") -> None:
        client = RuntimeClient(self.settings.listen)
        caller = Kubelet(client, KubeletNode(4 << 30, log_directory="", image=IMAGE))
        await caller.run_pod(PodSpec(name, (guaranteed("c", 2000),)))
        await client.close()


@asynccontextmanager
async def started(directory: Path, *, relay: str = "splice", more: str = "", http: str = "off") -> AsyncIterator[Scene]:
    scene = Scene(directory, more)
    settings = replace(scene.settings, relay=relay, http=http)  # type: ignore[arg-type]  # one of the two words
    daemon = Daemon(settings, log=scene.log, machine=MACHINE)
    try:
        await daemon.start()
        yield scene
    finally:
        await daemon.stop()
        await scene.server.stop()


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with started(tmp_path) as scene:
        yield scene


async def with_runtime(scene: Scene) -> None:
    await scene.server.start()
    await scene.ready()


async def test_until_the_runtime_has_answered_it_lives_and_is_not_ready(scene: Scene) -> None:
    assert (await scene.get("/healthz"))[0] == 200
    status, text = await scene.get("/readyz?verbose")
    assert status == 503
    assert "[-]recovery failed: the saved placements are not yet checked" in text
    assert "[-]runtime failed: the runtime is away" in text
    assert "[+]store ok\n[+]socket ok\n" in text
    await with_runtime(scene)


async def test_a_runtime_that_goes_away_makes_it_not_ready_until_it_is_back(scene: Scene) -> None:
    await with_runtime(scene)
    await scene.server.stop()
    await scene.ready(503)
    plain = json.loads((await scene.get("/readyz?format=json"))[1])
    assert [part["name"] for part in plain["parts"] if part["problem"]] == ["runtime"]
    assert plain["is_alive"]
    scene.server = scene.new_server()
    await with_runtime(scene)


async def test_an_http_port_that_is_taken_is_a_warning_and_no_more(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        async with started(tmp_path, http=address) as scene:
            await with_runtime(scene)
            assert (await scene.get("/healthz"))[0] == 200
            (warning,) = [w for w in json.loads((await scene.get("/api/v1/status"))[1])["warnings"] if "http" in w]
            assert f"http: {address}: the port is taken" in warning
        assert "http_unavailable" in scene.log.warnings


@pytest.mark.parametrize("relay", ["splice", "grpc"])
async def test_a_socket_that_somebody_removed_is_what_only_a_new_start_helps_against(
    tmp_path: Path, relay: str
) -> None:
    async with started(tmp_path, relay=relay) as scene:
        await with_runtime(scene)
        (tmp_path / "proxy.sock").unlink()
        status, text = await scene.get("/healthz")
        assert status == 503
        assert "not alive" in text
        assert "proxy.sock was removed or replaced: restart the daemon" in text
        assert await scene.readiness() == 503


@pytest.mark.parametrize("relay", ["splice", "grpc"])
async def test_the_metrics_of_a_daemon_at_work_are_what_the_table_says(tmp_path: Path, relay: str) -> None:
    async with started(tmp_path, relay=relay) as scene:
        await with_runtime(scene)
        await scene.run_pod()
        families = list(text_string_to_metric_families((await scene.get("/metrics"))[1]))
        samples = {(s.name, *sorted(s.labels.values())): s.value for f in families for s in f.samples}
        assert samples["cri_proxy_decisions_total", "placed", "pool"] == 1
        assert samples["cri_proxy_relay_calls_total", "CreateContainer", "OK"] == 1
        assert samples["cri_proxy_relay_held_duration_seconds_count", "StartContainer"] == 1
        assert samples["cri_proxy_relay_intercepted_calls",] == 0
        assert samples["cri_proxy_build_info", "0.1.0", relay, "topology-aware"] == 1
        assert {f.name + ("_total" if f.type == "counter" else "") for f in families} == {m.name for m in TABLE}
        assert len(samples) == sum(len(f.samples) for f in families)
    assert scene.log.errors == []


async def test_with_a_separate_image_service_no_series_is_told_twice(tmp_path: Path) -> None:
    more = f"imageListen: unix://{tmp_path}/images.sock\nimageEndpoint: unix://{tmp_path}/runtime.sock\n"
    async with started(tmp_path, more=more) as scene:
        await with_runtime(scene)
        images = RuntimeClient(f"unix://{tmp_path}/images.sock")
        await images.unary(IMAGES + "ListImages", b"", timeout_seconds=20)
        await images.close()
        lines = [line.rpartition(" ")[0] for line in (await scene.get("/metrics"))[1].splitlines()]
        assert len(lines) == len(set(lines))
        assert 'cri_proxy_relay_calls_total{code="unread",method="ListImages"}' in lines
