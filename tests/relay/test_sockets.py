"""The socket that a relay makes: the runtime socket's owner and mode, nobody else's name, one for each service."""

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from cri_proxy.daemon.app import PassAll
from cri_proxy.errors import ConfigError
from cri_proxy.relay.grpcio.relay import GrpcRelay
from cri_proxy.relay.server import SpliceRelay
from tests.fakes.grpc_runtime import GrpcRuntime
from tests.fakes.scripted_interceptor import ScriptedInterceptor
from tests.relay.stage import CLIENTS, RELAY_VIAS, RELAYS, Stage


@RELAY_VIAS
@pytest.mark.parametrize("mode", [0o600, 0o660, 0o666])
async def test_the_socket_has_the_owner_and_mode_of_the_runtimes(tmp_path: Path, via: str, mode: int) -> None:
    with socket.socket(socket.AF_UNIX) as runtime:
        runtime.bind(str(tmp_path / "runtime"))
        (tmp_path / "runtime").chmod(mode)
        if os.geteuid() == 0:
            os.chown(tmp_path / "runtime", 12, 34)
        relay = relay_in(tmp_path, via)
        await relay.start()
        ours, model = (tmp_path / "relay").stat(), (tmp_path / "runtime").stat()
        assert (stat.S_IMODE(ours.st_mode), ours.st_uid, ours.st_gid) == (mode, model.st_uid, model.st_gid)
        await relay.stop(0)
        assert not (tmp_path / "relay").exists()


def relay_in(directory: Path, via: str) -> SpliceRelay | GrpcRelay:
    listen, runtime = str(directory / "relay"), str(directory / "runtime")
    return RELAYS[via](listen=listen, runtime=runtime, interceptor=ScriptedInterceptor())


WATCH = """
import asyncio, os, stat, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from tests.fakes.scripted_interceptor import ScriptedInterceptor
if sys.argv[2] == "grpc":
    from cri_proxy.relay.grpcio.relay import GrpcRelay as Relay
else:
    from cri_proxy.relay.server import SpliceRelay as Relay
directory = Path(sys.argv[1])
os.umask(0)
async def act():
    listen, runtime = str(directory / "relay"), str(directory / "runtime")
    relay = Relay(listen=listen, runtime=runtime, interceptor=ScriptedInterceptor())
    def look(event, arguments):  # everything that changes a file says so here first
        if event in ("os.chmod", "os.chown", "os.rename"):
            for found in directory.iterdir():
                if found.name != "runtime":
                    seen.append(stat.S_IMODE(found.stat().st_mode))
    seen = []
    sys.addaudithook(look)
    await relay.start()
    print(sorted({oct(mode) for mode in seen}))
    await relay.stop(0)
asyncio.run(act())
"""


@RELAY_VIAS
def test_the_socket_is_nobodys_else_from_its_first_moment(tmp_path: Path, via: str) -> None:
    """Under a umask that forbids nothing, with a runtime socket for everybody: private until it is given its mode."""
    with socket.socket(socket.AF_UNIX) as runtime:
        runtime.bind(str(tmp_path / "runtime"))
        (tmp_path / "runtime").chmod(0o660)
        command = [sys.executable, "-c", WATCH, str(tmp_path), via, str(Path(__file__).parents[2])]
        found = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    assert found.strip() == "['0o600', '0o660']"


@RELAY_VIAS
async def test_a_socket_that_answers_is_left_alone_and_a_stale_one_is_no_obstacle(tmp_path: Path, via: str) -> None:
    first, second = relay_in(tmp_path, via), relay_in(tmp_path, via)
    await first.start()
    with pytest.raises(ConfigError, match="another process answers"):
        await second.start()
    os.link(tmp_path / "relay", tmp_path / "stale")
    await first.stop(0)
    (tmp_path / "stale").rename(tmp_path / "relay")
    third = relay_in(tmp_path, via)
    await third.start()
    assert third.socket_problem() == ""
    await third.stop(0)


@RELAY_VIAS
@CLIENTS
async def test_an_image_service_has_a_socket_of_its_own(tmp_path: Path, via: str, stage: Stage) -> None:
    """Two relays in one process, as the daemon has them: each call comes to the service of its socket."""
    service = GrpcRuntime(str(tmp_path / "runtime"))
    await service.start()
    relay = RELAYS[via](listen=str(tmp_path / "relay"), runtime=str(tmp_path / "runtime"), interceptor=PassAll())
    await relay.start()
    images = Stage(
        service,
        stage.interceptor,
        str(tmp_path / "relay"),
        type(stage.client)(str(tmp_path / "relay")),
        relay,
        stage.other,
    )
    for method in (
        "/runtime.v1.ImageService/PullImage",
        "/runtime.v1alpha2.ImageService/ListImages",
        "/runtime.v1.RuntimeService/HoldThis",
    ):
        assert (await images.call(method, b"image")).replies == (b"image",)
        assert (await stage.call("/runtime.v1.RuntimeService/Version", b"runtime")).replies == (b"runtime",)
    assert [seen.requests for seen in service.calls] == [[b"image"]] * 3
    assert [seen.requests for seen in stage.runtime.calls] == [[b"runtime"]] * 3
    assert stage.interceptor.asked == []
    await images.client.close()
    await relay.stop(0.2)
    await service.stop()
