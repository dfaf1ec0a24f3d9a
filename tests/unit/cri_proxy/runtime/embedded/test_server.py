import stat
from pathlib import Path

import grpc
import grpc.aio
import pytest

from cri_proxy.cri.methods import RUNTIME
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.runtime.embedded.server import RuntimeServer
from tests.fakes.embedded_calls import Calls
from tests.fakes.http2 import begun_calls
from tests.fakes.machines import small_machine
from tests.fakes.scripted_runtime import ScriptedRuntime


class Served:
    def __init__(self, directory: Path) -> None:
        self.runtime = ScriptedRuntime(small_machine())
        self.server = RuntimeServer(self.runtime, f"unix://{directory / 'r.sock'}")
        self.client = grpc.aio.insecure_channel(f"unix:{directory / 'r.sock'}")

    async def __aenter__(self) -> "Served":
        await self.server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.close(None)
        await self.server.stop()

    async def call(self, method: str, message: bytes = b"") -> bytes:
        return bytes(await self.client.unary_unary(method, None, None)(message, timeout=10))


async def test_a_call_over_the_socket_is_answered_by_the_runtime(tmp_path: Path) -> None:
    async with Served(tmp_path) as served:
        reply = pb.VersionResponse.FromString(await served.call(RUNTIME + "Version"))
        assert reply.runtime_api_version == "v1"


@pytest.mark.parametrize(
    ("method", "message", "code"),
    [
        (RUNTIME + "StartContainer", pb.StartContainerRequest(container_id="nosuch"), grpc.StatusCode.NOT_FOUND),
        (RUNTIME + "MakeCoffee", pb.VersionRequest(), grpc.StatusCode.UNIMPLEMENTED),
        ("/some.Service/Method", pb.VersionRequest(), grpc.StatusCode.UNIMPLEMENTED),
    ],
)
async def test_refusals_keep_their_code_on_the_wire(
    method: str, message: pb.StartContainerRequest | pb.VersionRequest, code: grpc.StatusCode, tmp_path: Path
) -> None:
    async with Served(tmp_path) as served:
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await served.call(method, message.SerializeToString())
        assert failed.value.code() == code


async def test_a_runtime_that_is_away_reads_as_unavailable(tmp_path: Path) -> None:
    async with Served(tmp_path) as served:
        served.runtime.go_away()
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await served.call(RUNTIME + "Version")
        assert failed.value.code() == grpc.StatusCode.UNAVAILABLE


async def test_streams_are_served(tmp_path: Path) -> None:
    async with Served(tmp_path) as served:
        pod = await Calls(served.runtime).pod()
        stream = served.client.unary_stream(RUNTIME + "StreamPodSandboxes", None, None)(b"", timeout=10)
        replies = [pb.StreamPodSandboxesResponse.FromString(m) async for m in stream]
        assert [r.pod_sandboxes[0].id for r in replies] == [pod]


async def test_the_socket_is_private_and_goes_with_the_server(tmp_path: Path) -> None:
    async with Served(tmp_path) as served:
        assert stat.S_IMODE(served.server.path.stat().st_mode) == 0o600
    assert not served.server.path.exists()


async def test_calls_that_wait_cost_another_client_no_call(tmp_path: Path) -> None:
    """Beyond 3000 that its loop has not come to, a server of grpcio drops each new call with CANCELLED."""
    async with Served(tmp_path) as served:
        await served.client.channel_ready()
        path, method = served.server.path, RUNTIME + "CreateContainer"
        with begun_calls(path, method, 1900), begun_calls(path, method, 1900):
            assert await served.call(RUNTIME + "Version")
