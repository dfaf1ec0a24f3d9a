"""The event loops of tests, on which a fault in a callback fails the test."""

import asyncio
from contextlib import suppress
from typing import Any

daemon_loop: type[asyncio.AbstractEventLoop]


class FreshLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop, without the complaints of gRPC's poller, which is one for all loops, about closed ones."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if "PollerCompletionQueue" not in repr(context.get("handle")):
            super().call_exception_handler(context)


daemon_loop = FreshLoop
with suppress(ImportError):
    import uvloop

    class FreshUvLoop(uvloop.Loop):
        """The same of uvloop, which the daemon runs on where it is installed."""

        def call_exception_handler(self, context: dict[str, Any]) -> None:
            if "PollerCompletionQueue" not in repr(context.get("handle")):
                super().call_exception_handler(context)

    daemon_loop = FreshUvLoop
