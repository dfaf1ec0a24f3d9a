from collections.abc import AsyncIterator

from cri_proxy.runtime.channel import RuntimeChannel
from tests.fakes.machines import small_machine
from tests.fakes.scripted_runtime import ScriptedRuntime


class Unconnected(RuntimeChannel):
    """A channel that knows nothing of connections."""

    async def unary(self, method: str, message: bytes, *, timeout_seconds: float) -> bytes:
        return b""

    def stream(self, method: str, message: bytes) -> AsyncIterator[bytes]:
        raise NotImplementedError

    async def close(self) -> None:
        return


def test_who_has_no_connection_loses_none() -> None:
    assert Unconnected().losses() == 0


def test_each_end_of_the_runtimes_process_is_a_loss() -> None:
    runtime = ScriptedRuntime(small_machine())
    runtime.restart()
    assert runtime.losses() == 1
    runtime.go_away()
    assert runtime.losses() == 2
