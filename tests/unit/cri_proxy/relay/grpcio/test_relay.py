"""The gRPC relay's own matters; what it has in common with the splice is in tests/relay."""

import stat
from pathlib import Path

import pytest

from cri_proxy.errors import ConfigError
from cri_proxy.relay.grpcio.relay import GrpcRelay
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
