"""What a whole daemon serves: while what decides is still being loaded, its health, and its metrics."""

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from cri_proxy.config.files.location import ConfigLocation
from cri_proxy.config.last_known_good import KNOWN_GOOD, KnownGood
from cri_proxy.config.load import parse_config
from cri_proxy.config.settings import Settings
from cri_proxy.cri_client.pods import IMAGE, KubeletNode, PodSpec, guaranteed
from cri_proxy.daemon.app import Daemon
from cri_proxy.errors import CallFailed, ConfigError, RuntimeUnavailable
from cri_proxy.metrics.catalog import TABLE
from cri_proxy.runtime.client import RuntimeClient
from cri_proxy.runtime.embedded.server import RuntimeServer
from cri_proxy.state.process_lock import DeciderLock
from cri_proxy.tasks import Tasks
from tests.fakes.scripted_runtime import ScriptedRuntime
from tests.fakes.settings import BROKEN, TEXT, settings_in
from tests.fakes.site import Silent
from tests.testbed.pod_kubelet import PodKubelet
from tests.testbed.wait import until
from tests.unit.cri_proxy.daemon.scene import MACHINE, Scene, started, with_runtime

SPEC = PodSpec("web", (guaranteed("c", 2000),))
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # RFC 9113, 3.4: no settings


@dataclass(slots=True)
class Starting:
    """A daemon that serves and cannot decide before ``load`` is set."""

    daemon: Daemon
    log: Silent
    kubelet: PodKubelet
    running: Tasks
    start: asyncio.Task[None]
    load: threading.Event


@asynccontextmanager
async def starting_with(settings: Settings) -> AsyncIterator[Starting]:
    """A runtime, a daemon in the middle of its start, and a kubelet."""
    load, executor, log = threading.Event(), ThreadPoolExecutor(max_workers=1), Silent()
    asyncio.get_running_loop().set_default_executor(executor)
    executor.submit(load.wait, 20)
    runtime = RuntimeServer(ScriptedRuntime(MACHINE, image_names=(IMAGE,)), settings.config.runtime_endpoint)
    await runtime.start()
    daemon, client = Daemon(settings, log=log, machine=MACHINE), RuntimeClient(settings.config.listen)
    running = Tasks(lambda error: None)  # who waits for it sees it
    start = running.start(daemon.start())
    kubelet = PodKubelet(client, KubeletNode(4 << 30, log_directory="", image=IMAGE))
    try:
        yield Starting(daemon, log, kubelet, running, start, load)
    finally:
        load.set()
        await asyncio.gather(start, return_exceptions=True)
        await client.close()
        await daemon.stop()
        await runtime.stop()


async def run_pod(kubelet: PodKubelet) -> None:
    await kubelet.run_pod(SPEC)


async def is_served(kubelet: PodKubelet) -> bool:
    try:
        return await kubelet.sandboxes() == ()
    except RuntimeUnavailable:
        return False


async def test_what_needs_no_decision_passes_and_the_rest_waits_for_it(tmp_path: Path) -> None:
    async with starting_with(settings_in(tmp_path)) as starting:
        await until("it serves", lambda: is_served(starting.kubelet), seconds=20)
        pod = starting.running.start(run_pod(starting.kubelet))
        assert await is_served(starting.kubelet)
        assert not pod.done()
        assert starting.daemon.node is None
        starting.load.set()
        await pod
        assert starting.daemon.node is not None
        (row,) = starting.daemon.node.context.ledger.active()
        assert (row.state, len(row.grant.owned)) == ("running", 2)


async def test_who_waits_for_a_start_that_fails_is_turned_away_at_once(tmp_path: Path) -> None:
    async with starting_with(settings_in(tmp_path, BROKEN)) as starting:
        await until("it serves", lambda: is_served(starting.kubelet), seconds=20)
        pod = starting.running.start(run_pod(starting.kubelet))
        assert await is_served(starting.kubelet)
        starting.load.set()
        with pytest.raises(Exception, match="64-65"):
            await starting.start
        async with asyncio.timeout(9):  # a drain would give it 10, a deadline far more
            await starting.daemon.stop()
            with pytest.raises((CallFailed, RuntimeUnavailable)):
                await pod


def kept_instead(directory: Path, text: str) -> Settings:
    """Of a start whose file cannot be had on this machine, where this was in force before."""
    file, settings = directory / "config.yaml", settings_in(directory, BROKEN)
    kept = parse_config(text.replace("DIR", str(directory)))
    KNOWN_GOOD.save(directory / "state", KnownGood(kept, file, file, "", "0" * 64, 5.0))
    return replace(settings, location=ConfigLocation(file), from_file=settings.config)


async def test_a_start_that_goes_on_with_what_was_kept_serves_on_the_sockets_of_that(tmp_path: Path) -> None:
    settings = kept_instead(tmp_path, TEXT.replace("proxy.sock", "before.sock"))
    async with starting_with(settings) as starting:
        await until("it serves", lambda: is_served(starting.kubelet), seconds=20)
        starting.load.set()
        await starting.start
        assert not (tmp_path / "proxy.sock").exists()
        assert (tmp_path / "before.sock").exists()


async def test_and_by_its_relay_on_the_same_sockets(tmp_path: Path) -> None:
    async with starting_with(kept_instead(tmp_path, f"{TEXT}relay: grpc\n")) as starting:
        await until("it serves", lambda: is_served(starting.kubelet), seconds=20)
        reader, writer = await asyncio.open_unix_connection(tmp_path / "proxy.sock")
        writer.write(PREFACE)
        await reader.readexactly(9)
        starting.load.set()
        await starting.start
        with suppress(ConnectionResetError):
            async with asyncio.timeout(20):
                await reader.read()  # to its end: the relay that took this client has gone
        writer.transport.abort()
        await until("it serves again", lambda: is_served(starting.kubelet), seconds=20)


async def test_a_connection_that_breaks_http2_meanwhile_is_counted_as_soon_as_there_are_books(tmp_path: Path) -> None:
    async with starting_with(settings_in(tmp_path)) as starting:
        await until("it serves", lambda: is_served(starting.kubelet), seconds=20)
        reader, writer = await asyncio.open_unix_connection(tmp_path / "proxy.sock")
        writer.write(b"GET / HTTP/1.1\r\n\r\n" + bytes(64))
        await reader.read()
        writer.close()
        await writer.wait_closed()
        assert starting.log.errors == []
        starting.load.set()
        await starting.start
        assert any("relay" in error for error in starting.log.errors)


async def test_the_image_socket_needs_no_decision(tmp_path: Path) -> None:
    images = f"imageListen: unix://{tmp_path}/images.sock\nimageEndpoint: unix://{tmp_path}/runtime.sock\n"
    async with starting_with(settings_in(tmp_path, TEXT + images)) as starting:
        await until("it serves", lambda: is_served(starting.kubelet), seconds=20)
        assert (tmp_path / "images.sock").exists()


async def test_a_socket_that_another_serves_ends_the_start_before_anything_is_loaded(tmp_path: Path) -> None:
    async with starting_with(settings_in(tmp_path)) as starting:
        await until("it serves", lambda: is_served(starting.kubelet), seconds=20)
        second = Daemon(settings_in(tmp_path, TEXT.replace("DIR/state", "DIR/other")), log=Silent())
        with pytest.raises(ConfigError, match="another process answers there"):
            await second.start()
        await second.stop()


async def test_who_is_stopped_in_the_middle_of_a_start_leaves_nothing_behind(tmp_path: Path) -> None:
    async with starting_with(settings_in(tmp_path)) as starting:
        await until("it serves", lambda: is_served(starting.kubelet), seconds=20)
        pod = starting.running.start(run_pod(starting.kubelet))
        assert await is_served(starting.kubelet)
        starting.start.cancel()
        async with asyncio.timeout(9):
            await starting.daemon.stop()
            with pytest.raises((CallFailed, RuntimeUnavailable)):
                await pod
        assert not (tmp_path / "proxy.sock").exists()
        DeciderLock.acquire(tmp_path / "state").release()


IMAGES = "/runtime.v1.ImageService/"


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with started(tmp_path) as scene:
        yield scene


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
    (tmp_path / "inventory.yaml").write_text("gpu: [{minor: 0}]")
    more = f"devices: {{inventory: {tmp_path}/inventory.yaml}}\n"
    async with started(tmp_path, relay=relay, more=more) as scene:
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
