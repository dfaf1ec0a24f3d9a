"""The base of both relays; call the interceptor for them: if it raises, report that and forward the call.

A bug of the proxy must not stop a container from starting.
"""

import asyncio
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cri_proxy.http2.headers import VALUE_BYTES
from cri_proxy.relay.calls import Aborted, Call, Forward, Interceptor, Interest, Outcome, Verdict
from cri_proxy.relay.traffic import Traffic
from cri_proxy.tasks import Tasks
from cri_proxy.unix_socket import Published, socket_path

OnError = Callable[[BaseException], None]

_MAX_METHODS: Final = 1024
_ids: Final = itertools.count(1)


class contained:  # noqa: N801 - used as a statement, like ``contextlib.suppress``
    """Report an exception of the block instead of raising it. The only place that stops every kind of exception.

    The fallback is what the caller had before the block. Cancellation passes: it is no Exception. May be used again.

    >>> faults: list[BaseException] = []
    >>> with contained(faults.append):
    ...     raise ValueError("a bug")
    >>> faults
    [ValueError('a bug')]
    """

    __slots__ = ("_on_error",)

    def __init__(self, on_error: OnError) -> None:
        self._on_error = on_error

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Exception):
            return False
        self._on_error(error)
        return True


def new_call(method: str, message: bytes, timeout_seconds: float | None = None) -> Call:
    """Return a call with a number that is unique in this process."""
    return Call(next(_ids), method, message, timeout_seconds)


def _is_method(path: str) -> bool:
    """Whether this is a path that gRPC can have (PROTOCOL-HTTP2.md, "Path"), and not one that was cut."""
    # Some runtimes overlook a missing slash; the interceptor's methods have it, so such a call would pass unseen.
    # FieldReader cuts a value at VALUE_BYTES: one of that length may be the beginning of a longer path.
    return path.startswith("/") and path.isascii() and len(path) < VALUE_BYTES


class Boundary:
    """An interceptor that cannot raise and is asked once per method name; ``traffic`` counts its calls."""

    def __init__(self, interceptor: Interceptor, on_error: OnError, traffic: Traffic | None = None) -> None:
        """``on_error`` gets every exception that the interceptor raises despite its contract."""
        self.traffic = traffic if traffic is not None else Traffic()
        self.passed = self.traffic.new_passed()
        self._interceptor = interceptor
        self._on_error = on_error
        self._interests: dict[str, Interest] = {}

    def wants(self, method: str) -> Interest:
        """Return the treatment of this method; PASS when the interceptor fails, REFUSE for other paths."""
        if not _is_method(method):
            self.traffic.malformed("path")
            return Interest.REFUSE
        interest = self._interests.get(method)
        if interest is None:
            interest = Interest.PASS
            with contained(self._on_error):
                interest = self._interceptor.wants(method)
            if len(self._interests) < _MAX_METHODS:  # names come from outside: no memory without bound
                self._interests[method] = interest
        if interest is Interest.REFUSE:  # asked for every call, since the relays remember only what passes
            self.traffic.unserved()
        return interest

    async def verdict(self, call: Call) -> Verdict:
        """Return the verdict on this call; Forward when the interceptor fails. Cancelling it reports ``Aborted``."""
        self.traffic.begun(call)
        verdict: Verdict = Forward()
        try:
            with contained(self._on_error):
                verdict = await self._interceptor.on_request(call)
        except asyncio.CancelledError:
            self.outcome(call, Aborted(sent=False))
            raise
        self.traffic.judged(call, verdict)
        return verdict

    async def stand_in(self, method: str) -> bytes | None:
        """Return the interceptor's reply in the runtime's place; None when it has none, or fails."""
        reply: bytes | None = None
        with contained(self._on_error):
            reply = await self._interceptor.stand_in(method)
        return reply

    def outcome(self, call: Call, outcome: Outcome) -> None:
        """Report the outcome of a call to the interceptor."""
        self.traffic.ended(call, outcome)
        with contained(self._on_error):
            self._interceptor.on_outcome(call, outcome)


@dataclass(eq=False, kw_only=True)
class Relay(ABC):
    """Relays every call of one listening socket to one runtime socket.

    ``listen`` and ``runtime`` are 'unix:///path' or a path. ``on_error`` is called with errors that do not stop the
    relay: an interceptor that raised, a client that broke HTTP/2. ``take_over`` takes the socket's name although
    another process still answers there.
    """

    listen: str
    runtime: str
    interceptor: Interceptor
    on_error: OnError = lambda error: None
    take_over: bool = False
    traffic: Traffic | None = None

    def __post_init__(self) -> None:
        """Open nothing yet."""
        self.boundary = Boundary(self.interceptor, self.on_error, self.traffic)
        self.tasks = Tasks(self.on_error)
        self.runtime_path, self._listen = socket_path(self.runtime), socket_path(self.listen)
        self._published: Published | None = None

    @abstractmethod
    async def start(self) -> None:
        """Open the socket. Raises ConfigError when it cannot be opened."""

    @abstractmethod
    async def leave(self) -> None:
        """Accept no new clients and ask the present ones to leave; calls go on."""

    @abstractmethod
    async def stop(self, grace_seconds: float, *, for_streams: bool = False) -> None:
        """Stop accepting; give calls ``grace_seconds`` to end, endless streams only with ``for_streams``."""

    def socket_problem(self) -> str:
        """Return why new clients cannot connect; '' while the socket is in place."""
        return self._published.problem if self._published is not None else ""

    def _withdraw(self) -> None:
        if self._published is not None:
            self._published.withdraw()
