"""An interceptor that does what its test says, and remembers what it was asked and told."""

import asyncio
from collections.abc import Awaitable, Callable

from cri_proxy.relay.calls import Call, Forward, Interest, Outcome, Refuse, Rewrite, Verdict


async def answer_by_message(call: Call) -> Verdict:
    """A request that begins with 'refuse', 'rewrite', 'wait' or 'raise' gets just that; any other goes on."""
    match call.message[:7]:
        case b"refuse ":
            return Refuse(9, call.message[7:].decode())
        case b"rewrite":
            return Rewrite(call.message + b" rewritten")
        case b"wait...":
            await asyncio.Event().wait()
        case b"raise..":
            raise ValueError("an interceptor's bug")
    return Forward()


async def no_reply() -> None:
    """The runtime's own answer goes on."""


class ScriptedInterceptor:
    """Holds methods named ``Hold...``, stands in for ``StandIn...`` and refuses those of services named ``...Old``."""

    def __init__(self, answer: Callable[[Call], Awaitable[Verdict]] = answer_by_message) -> None:
        self._answer = answer
        self.asked: list[Call] = []
        self.outcomes: list[tuple[Call, Outcome]] = []
        self.reply: Callable[[], Awaitable[bytes | None]] = no_reply

    def wants(self, method: str) -> Interest:
        service, _, name = method.rpartition("/")
        if service.endswith("Old"):
            return Interest.REFUSE
        if name.startswith("StandIn"):
            return Interest.STAND_IN
        return Interest.HOLD if name.startswith("Hold") else Interest.PASS

    async def on_request(self, call: Call) -> Verdict:
        self.asked.append(call)
        return await self._answer(call)

    async def stand_in(self, method: str) -> bytes | None:
        return await self.reply()

    def on_outcome(self, call: Call, outcome: Outcome) -> None:
        self.outcomes.append((call, outcome))
