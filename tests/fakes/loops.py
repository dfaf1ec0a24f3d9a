"""The event loops of tests, on which a fault in a callback fails the test."""

import asyncio
from typing import Any

from cri_proxy.relay.event_loop import RelayLoop


class FreshLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop, without the complaints of gRPC's poller, which is one for all loops, about closed ones."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if "PollerCompletionQueue" not in repr(context.get("handle")):
            super().call_exception_handler(context)


class DaemonLoop(RelayLoop):
    """The same of the loop that the daemon runs on."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if "PollerCompletionQueue" not in repr(context.get("handle")):
            super().call_exception_handler(context)


class SkippingLoop(DaemonLoop):
    """The same, with a time that a test can put forward: what waits for it has waited as long as need be."""

    def __init__(self) -> None:
        super().__init__()
        self._skipped_seconds = 0.0

    def time(self) -> float:
        return super().time() + self._skipped_seconds

    def skip(self, seconds: float) -> None:
        """Let so much time have passed."""
        self._skipped_seconds += seconds


def skip(seconds: float) -> None:
    """Put the running loop's time forward. It must be a ``SkippingLoop``."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SkippingLoop), "the module overrides anyio_backend"
    loop.skip(seconds)
