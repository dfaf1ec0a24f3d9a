"""The gRPC relay's own matters; what it has in common with the splice is in tests/relay."""

import stat
from pathlib import Path

import grpc.aio
import pytest

from cri_proxy.errors import ConfigError
from cri_proxy.relay.grpcio.relay import GrpcRelay
from tests.fakes.http2 import begun_calls
from tests.fakes.scripted_interceptor import ScriptedInterceptor


def relay(directory: Path) -> GrpcRelay:
    return GrpcRelay(
        listen=str(directory / "relay"), runtime=str(directory / "runtime"), interceptor=ScriptedInterceptor()
    )


async def test_its_socket_is_private_and_goes_when_it_stops(tmp_path: Path) -> None:
    made = relay(tmp_path)
    await made.start()
    assert stat.S_IMODE((tmp_path / "relay").stat().st_mode) == 0o600
    await made.stop(0)
    assert list(tmp_path.iterdir()) == []


async def test_it_does_not_take_a_socket_that_answers(tmp_path: Path) -> None:
    first, second = relay(tmp_path), relay(tmp_path)
    await first.start()
    with pytest.raises(ConfigError):
        await second.start()
    await first.stop(0)


async def test_stopping_what_never_started_is_harmless(tmp_path: Path) -> None:
    await relay(tmp_path).stop(0)


async def test_one_clients_calls_that_wait_cost_another_client_no_call(tmp_path: Path) -> None:
    """Beyond 3000 that its loop has not come to, a server of grpcio drops each new call with CANCELLED."""
    made = relay(tmp_path)
    await made.start()
    async with grpc.aio.insecure_channel(f"unix:{tmp_path / 'relay'}") as client:
        await client.channel_ready()
        with begun_calls(tmp_path / "relay", "/a.B/C", 1900), begun_calls(tmp_path / "relay", "/a.B/C", 1900):
            code = await client.unary_unary("/a.B/C", None, None)(b"").code()
    assert code == grpc.StatusCode.UNAVAILABLE  # there is no runtime
    await made.stop(0)
