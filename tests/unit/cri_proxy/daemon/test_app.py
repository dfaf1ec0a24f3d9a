import asyncio
import json
import signal
import socket
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

import pytest

from cri_proxy.config.settings import Settings
from cri_proxy.cri.methods import IMAGE
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import IMAGE as IMAGE_NAME
from cri_proxy.cri_client.pods import KubeletNode, PodSpec, create_request, guaranteed
from cri_proxy.daemon.app import Daemon, PassAll
from cri_proxy.daemon.handover import ASK
from cri_proxy.daemon.watchers import Watchers
from cri_proxy.device_files.cdi import CLAIM_KINDS
from cri_proxy.errors import CallFailed, ConfigError, CriProxyError, RuntimeUnavailable, StoreError
from cri_proxy.inventory.numbers import NUMBERS
from cri_proxy.node.node import Node
from cri_proxy.relay.calls import Call, Forward, Interest, Replied
from cri_proxy.runtime.client import RuntimeClient
from cri_proxy.runtime.embedded.server import RuntimeServer
from cri_proxy.simulate.machine import with_offline
from cri_proxy.state.process_lock import DeciderLock, LockHeld
from cri_proxy.unix_socket import answers, socket_path
from policies.base import Allocations
from policies.errors import PolicyBaseError
from sysfs.cpuset import CpuSet
from tests.fakes.machines import small_machine
from tests.fakes.scripted_runtime import ScriptedRuntime
from tests.fakes.settings import BROKEN, EMBEDDED, settings_in, settings_with
from tests.fakes.site import Silent
from tests.fakes.sysfs_tree import write_tree
from tests.fakes.waiting import holds
from tests.testbed.pod_kubelet import PodKubelet
from tests.testbed.wait import until

MACHINE = small_machine()
SPEC = PodSpec("web", (guaranteed("c", 2000),))


def embedded_in(directory: Path, more: str = "") -> Settings:
    return settings_in(directory, EMBEDDED + more)


@asynccontextmanager
async def served(settings: Settings, expected: str = "") -> AsyncIterator[Daemon]:
    """Start a daemon, and stop it at the end; it logs no errors but of this event."""
    log = Silent()
    daemon = Daemon(settings, log=log, machine=MACHINE)
    try:
        await daemon.start()
        yield daemon
    finally:
        await daemon.stop()
    assert {error.split()[0] for error in log.errors} == ({expected} if expected else set())


async def start_and_stop(settings: Settings, expected: str = "") -> None:
    async with served(settings, expected):
        pass


async def is_ready(daemon: Daemon) -> bool:
    return daemon.node is not None and daemon.node.coordinator.is_ready


def kubelet(settings: Settings) -> tuple[RuntimeClient, PodKubelet]:
    client = RuntimeClient(settings.config.listen)
    return client, PodKubelet(client, KubeletNode(4 << 30, log_directory="", image="localhost/app:1"))


async def run_pod(settings: Settings, daemon: Daemon) -> None:
    await until("it decides", lambda: is_ready(daemon), seconds=20)
    client, caller = kubelet(settings)
    try:
        await caller.run_pod(SPEC)
    finally:
        await client.close()


@pytest.mark.parametrize("relay", ["splice", "grpc"])
async def test_with_either_relay_a_container_is_placed(tmp_path: Path, relay: Literal["splice", "grpc"]) -> None:
    settings = settings_with(embedded_in(tmp_path), relay=relay)
    async with served(settings) as daemon:
        await run_pod(settings, daemon)
        assert daemon.node is not None
        (row,) = daemon.node.context.ledger.active()
        assert (row.state, len(row.grant.owned)) == ("running", 2)


async def test_a_second_one_on_the_same_sockets_ends_and_leaves_the_first_its_runtime(tmp_path: Path) -> None:
    settings = embedded_in(tmp_path)
    async with served(settings) as daemon:
        second = Daemon(replace(settings, state_dir=tmp_path / "other"), log=Silent(), machine=MACHINE)
        with pytest.raises(ConfigError, match="another process has its embedded runtime at"):
            await second.start()
        await second.stop()
        await run_pod(settings, daemon)


async def test_after_the_end_nothing_is_left_but_the_state_and_the_next_one_can_start(tmp_path: Path) -> None:
    settings = embedded_in(tmp_path)

    for _ in range(2):
        async with served(settings) as daemon:
            await until("it decides", partial(is_ready, daemon), seconds=20)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["state"]
    DeciderLock.acquire(tmp_path / "state").release()


async def test_the_embedded_runtime_ends_after_the_relay_in_front_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, is_served = embedded_in(tmp_path), list[bool]()
    stop = RuntimeServer.stop

    async def noted(server: RuntimeServer) -> None:
        is_served.append(answers(socket_path(settings.config.listen)))
        await stop(server)

    monkeypatch.setattr(RuntimeServer, "stop", noted)
    await start_and_stop(settings)
    assert is_served == [False]


async def test_who_finds_the_lock_taken_does_not_start_and_takes_nothing(tmp_path: Path) -> None:
    settings = embedded_in(tmp_path)
    lock = DeciderLock.acquire(tmp_path / "state")
    with pytest.raises(LockHeld, match="stop it, or use another --state-dir"):
        await start_and_stop(settings)
    lock.release()
    assert not (tmp_path / "proxy.sock").exists()


async def test_a_start_that_fails_gives_the_lock_back(tmp_path: Path) -> None:
    with pytest.raises((PolicyBaseError, CriProxyError), match="64-65"):
        await start_and_stop(settings_in(tmp_path, BROKEN))
    DeciderLock.acquire(tmp_path / "state").release()


async def test_while_the_runtime_is_away_pass_through_fails_promptly_and_decisions_wait(tmp_path: Path) -> None:
    settings = settings_with(embedded_in(tmp_path), runtime_endpoint=f"unix://{tmp_path}/away.sock")
    async with served(settings) as daemon:
        client, caller = kubelet(settings)
        async with asyncio.timeout(20):
            with pytest.raises((CallFailed, RuntimeUnavailable)):
                await caller.sandboxes()
        assert not await is_ready(daemon)
        await client.close()


async def test_a_separate_image_service_has_a_socket_of_its_own_that_passes_everything(tmp_path: Path) -> None:
    images = f"imageListen: unix://{tmp_path}/images.sock\nimageEndpoint: unix://{tmp_path}/service.sock\n"
    settings = embedded_in(tmp_path, images)
    async with served(settings):
        server = RuntimeServer(ScriptedRuntime(MACHINE, image_names=(IMAGE_NAME,)), settings.config.image_endpoint)
        await server.start()
        client = RuntimeClient(settings.config.image_listen)
        request = pb.ListImagesRequest().SerializeToString()
        reply = pb.ListImagesResponse.FromString(await client.unary(IMAGE + "ListImages", request, timeout_seconds=20))
        assert len(reply.images) == 1
        await client.close()
        await server.stop()


async def test_the_image_sockets_interceptor_wants_nothing() -> None:
    call = Call(1, IMAGE + "PullImage", b"")
    assert PassAll().wants(call.method) is Interest.PASS
    assert await PassAll().on_request(call) == Forward()
    PassAll().on_outcome(call, Replied(b""))


@pytest.fixture
def notify_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> socket.socket:
    """Where systemd listens; the environment is how it tells."""
    path = str(tmp_path / "notify")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.bind(path)
    listener.settimeout(20)
    monkeypatch.setenv("NOTIFY_SOCKET", path)
    return listener


async def test_systemd_is_told_when_it_serves_when_it_decides_and_when_it_stops(
    tmp_path: Path, notify_socket: socket.socket
) -> None:
    async with served(embedded_in(tmp_path / "run")) as daemon:
        await until("it decides", lambda: is_ready(daemon), seconds=20)
        heard = [await asyncio.to_thread(notify_socket.recv, 100) for _ in range(2)]
        assert [message.partition(b"=")[0] for message in heard] == [b"READY", b"STATUS"]
    assert notify_socket.recv(100) == b"STOPPING=1"
    notify_socket.close()


async def test_a_damaged_state_file_is_moved_aside_and_reported(tmp_path: Path) -> None:
    settings = embedded_in(tmp_path)
    await start_and_stop(settings)
    (tmp_path / "state" / "state.db").write_bytes(b"garbage" * 1000)
    await start_and_stop(settings, expected="store_damaged")


async def test_a_cpu_that_goes_offline_is_not_given_out_any_more(tmp_path: Path) -> None:
    """Discovery, options, policy and view: all see the machine as it is now."""
    host = write_tree(tmp_path / "host", MACHINE)
    daemon = Daemon(embedded_in(tmp_path, f"sysfsRoot: {host}\n"), log=Silent())
    try:
        await daemon.start()
        await until("it decides", lambda: is_ready(daemon), seconds=20)
        assert daemon.node is not None
        assert daemon.watchers is not None
        assert not await daemon.watchers.hotplug.check()
        write_tree(host, with_offline(MACHINE, CpuSet.parse("7")))
        assert await daemon.watchers.hotplug.check()
        policy = daemon.node.context.ledger.policy
        assert str(policy.pools(Allocations())[0].cpus) == "0-6"
        (host / "sys/devices/system/cpu/online").write_text("garbage\n")
        assert not await daemon.watchers.hotplug.check()
        assert "the old one stays in force" in daemon.watchers.warnings()[0]
        assert daemon.node.context.ledger.policy is policy
    finally:
        await daemon.stop()


@asynccontextmanager
async def scanning(settings: Settings) -> AsyncIterator[tuple[Node, Watchers]]:
    """A daemon that decides, on the machine below its ``sysfsRoot``."""
    daemon = Daemon(settings, log=Silent())
    try:
        await daemon.start()
        await until("it decides", lambda: is_ready(daemon), seconds=20)
        assert daemon.node is not None
        assert daemon.watchers is not None
        yield daemon.node, daemon.watchers
    finally:
        await daemon.stop()


def gpus_of(node: Node) -> list[tuple[int, str]]:
    return [(gpu.minor, gpu.path.bus) for gpu in node.context.ledger.policy.devices.devices]


async def test_a_gpu_that_goes_leaves_the_others_their_numbers_also_over_a_restart(tmp_path: Path) -> None:
    gpus = [{"address": f"0000:0{bus}:00.0", "class": "0x030200", "vendor": 0x10DE} for bus in (1, 2, 3)]
    host = write_tree(tmp_path / "host", small_machine(pci=gpus))
    settings = embedded_in(tmp_path, f"sysfsRoot: {host}\ndevices: {{scan: true}}\n")
    async with scanning(settings) as (node, watchers):
        assert [minor for minor, _ in gpus_of(node)] == [0, 1, 2]
        (host / "sys/bus/pci/devices/0000:01:00.0").unlink()
        assert await watchers.hotplug.check()
        assert gpus_of(node) == [(1, "0000:02:00.0"), (2, "0000:03:00.0")]
        await holds("the numbers are saved", (tmp_path / "state" / NUMBERS.name).exists)
    (host / "sys/bus/pci/devices/0000:02:00.0").unlink()
    async with scanning(settings) as (node, _):
        assert gpus_of(node) == [(2, "0000:03:00.0")]


async def test_a_kind_of_cdi_devices_that_brings_claims_is_known_after_a_restart(tmp_path: Path) -> None:
    cdi = tmp_path / "host/etc/cdi"
    cdi.mkdir(parents=True)
    devices = [{"name": "a", "containerEdits": {"env": ["DRA_CPUSET_a=2-3"]}}]
    (cdi / "cpus.json").write_text(json.dumps({"kind": "fork.example/cpus", "devices": devices}))
    settings = embedded_in(tmp_path, f"sysfsRoot: {tmp_path}/host\n")
    async with served(settings) as daemon:
        await until("it decides", lambda: is_ready(daemon), seconds=20)
        client, caller = kubelet(settings)
        request = create_request(SPEC, SPEC.containers[0], await caller.run_sandbox(SPEC), node=caller.node)
        request.config.CDI_devices.add(name="fork.example/cpus=a")
        await caller.create_as(request)
        await client.close()
        await holds("the kind is saved", (tmp_path / "state" / CLAIM_KINDS.name).exists)
    async with served(settings) as daemon:
        assert daemon._opened is not None
        assert "fork.example/cpus" in daemon._opened.interceptor._reader.cdi._claim_kinds


@pytest.fixture
def asked_to_leave() -> Iterator[list[int]]:
    """The signals by which this very process was asked for its place."""
    asked: list[int] = []
    before = signal.signal(ASK, lambda number, frame: asked.append(number))
    yield asked
    signal.signal(ASK, before)


async def test_nobody_gives_way_to_who_cannot_read_the_store(tmp_path: Path, asked_to_leave: list[int]) -> None:
    settings = embedded_in(tmp_path)
    await start_and_stop(settings)
    with closing(sqlite3.connect(tmp_path / "state" / "state.db")) as connection:
        connection.execute("PRAGMA user_version = 99")
    lock = DeciderLock.acquire(tmp_path / "state")
    lock.offer_handover()
    with pytest.raises(StoreError, match="start the newer program"):
        await start_and_stop(replace(settings, takes_over=True))
    lock.release()
    assert asked_to_leave == []
    assert not (tmp_path / "proxy.sock").exists()


async def offered(settings: Settings) -> bool:
    """Whether a daemon that serves lets others take over."""
    async with served(settings) as daemon:
        daemon.offer_handover()
        with pytest.raises(LockHeld) as held:
            DeciderLock.acquire(settings.state_dir)
    return held.value.started_ticks > 0


async def test_a_daemon_offers_its_place(tmp_path: Path) -> None:
    assert await offered(settings_with(embedded_in(tmp_path), runtime_endpoint=f"unix://{tmp_path}/away.sock"))


async def test_on_the_embedded_runtime_it_does_not_for_the_containers_would_end_with_it(tmp_path: Path) -> None:
    assert not await offered(embedded_in(tmp_path))


async def test_under_systemd_it_does_not(tmp_path: Path, notify_socket: socket.socket) -> None:
    assert not await offered(settings_with(embedded_in(tmp_path), runtime_endpoint=f"unix://{tmp_path}/away.sock"))
    notify_socket.close()
