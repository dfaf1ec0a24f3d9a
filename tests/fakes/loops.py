"""The event loop of a test, on which a fault in a callback fails the test."""

import asyncio
from typing import Any


class FreshLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop, without the complaints of gRPC's poller, which is one for all loops, about closed ones."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if "PollerCompletionQueue" not in repr(context.get("handle")):
            super().call_exception_handler(context)
