"""Where a relay meets its interceptor: a bug of ours must never stop a container from starting.

The only place of the relay that catches everything. An interceptor that raises despite its contract is reported,
and the call goes on unchanged as if it had said Forward.
"""

import itertools
from collections.abc import Callable
from typing import Final

from cri_proxy.relay.calls import Call, Forward, Interceptor, Interest, Outcome, Verdict
from cri_proxy.relay.traffic import Traffic

OnError = Callable[[BaseException], None]

_MAX_METHODS: Final = 1024
_ids: Final = itertools.count(1)


def new_call(method: str, message: bytes) -> Call:
    """A call with a number of its own in this process."""
    return Call(next(_ids), method, message)


class Boundary:
    """An interceptor that cannot raise, and is asked once per method name. ``traffic`` counts what it is asked."""

    def __init__(self, interceptor: Interceptor, on_error: OnError, traffic: Traffic | None = None) -> None:
        """``on_error`` learns of every exception that the interceptor let out."""
        self.traffic = traffic if traffic is not None else Traffic()
        self.passed = self.traffic.new_passed()
        self._interceptor = interceptor
        self._on_error = on_error
        self._interests: dict[str, Interest] = {}

    def wants(self, method: str) -> Interest:
        """What to do with this method; PASS when the interceptor fails to say."""
        interest = self._interests.get(method)
        if interest is None:
            try:
                interest = self._interceptor.wants(method)
            except Exception as error:  # noqa: BLE001 - the relay's boundary
                self._on_error(error)
                interest = Interest.PASS
            if len(self._interests) < _MAX_METHODS:  # names come from outside: no memory without bound
                self._interests[method] = interest
        if interest is Interest.REFUSE:  # asked for every call, since the relays remember only what passes
            self.traffic.unserved()
        return interest

    async def verdict(self, call: Call) -> Verdict:
        """What to do with this call; Forward when the interceptor fails to say."""
        self.traffic.begun(call)
        verdict: Verdict = Forward()
        try:
            verdict = await self._interceptor.on_request(call)
        except Exception as error:  # noqa: BLE001 - the relay's boundary
            self._on_error(error)
        self.traffic.judged(call, verdict)
        return verdict

    def outcome(self, call: Call, outcome: Outcome) -> None:
        """Tell the interceptor what became of a call."""
        self.traffic.ended(call, outcome)
        try:
            self._interceptor.on_outcome(call, outcome)
        except Exception as error:  # noqa: BLE001 - the relay's boundary
            self._on_error(error)
