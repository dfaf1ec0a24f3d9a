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
