"""Select the CRI methods to intercept, and hold their calls until this process decides; refuse them after a handover.

Which CRI methods these are is known by name alone, before anything that decides is loaded.
"""

import asyncio
from contextlib import suppress
from typing import Final

from cri_proxy.http2.status import Code
from cri_proxy.relay.calls import Call, Interceptor, Interest, Outcome, Refuse, Verdict

RUNTIME: Final = "/runtime.v1.RuntimeService/"
OLD_RUNTIME: Final = "/runtime.v1alpha2.RuntimeService/"
CREATE: Final = RUNTIME + "CreateContainer"
START: Final = RUNTIME + "StartContainer"
UPDATE: Final = RUNTIME + "UpdateContainerResources"
RUNTIME_CONFIG: Final = RUNTIME + "RuntimeConfig"

_HELD: Final = frozenset(
    RUNTIME + name
    for name in (
        *("RunPodSandbox", "UpdatePodSandboxResources", "StopPodSandbox", "RemovePodSandbox", "RestorePod"),
        *("CreateContainer", "StartContainer", "UpdateContainerResources", "StopContainer", "RemoveContainer"),
    )
)
# A handover waits for the outcome of these calls: it says what a container holds. What other calls end (a stop takes
# up to its grace period) the new process learns from the runtime.
_AWAITED: Final = frozenset({CREATE, START, UPDATE})
_WAIT_SECONDS: Final = 10.0  # for a decider; then a call is refused, and its caller tries again

# Not as unseen: gRPC would send it again at once, to a daemon that still does not decide.
_NOT_YET = Refuse(Code.UNAVAILABLE, "cri-proxy is starting and does not decide yet; try again")
# As REFUSED_STREAM (RFC 9113, 8.7): gRPC for Go, and so the kubelet, sends the call again by itself.
_TURNED_AWAY = Refuse(Code.UNAVAILABLE, "cri-proxy has handed over to another process; try again", was_unseen=True)


def interest_of(method: str) -> Interest:
    """Return HOLD for methods that change what a container holds, STAND_IN for RuntimeConfig, PASS for all others.

    v1alpha2 is refused: old runtimes would serve it, and its containers would stay unpinned.
    """
    if method in _HELD:
        return Interest.HOLD
    if method == RUNTIME_CONFIG:
        return Interest.STAND_IN
    return Interest.REFUSE if method.startswith(OLD_RUNTIME) else Interest.PASS


class DecisionGate:
    """An ``Interceptor`` in front of the one that decides; shut at first."""

    def __init__(self, *, wait_seconds: float = _WAIT_SECONDS) -> None:
        """``wait_seconds`` is how long a call waits for ``open``."""
        self._wait_seconds = wait_seconds
        self._inner: Interceptor | None = None
        self._opened = asyncio.Event()
        self._is_closing = False
        self._limits: dict[int, asyncio.Timeout] = {}  # of calls that are being decided
        self._sent: set[int] = set()  # calls of ``_AWAITED`` without an outcome yet
        self._ended = asyncio.Event()

    def open(self, inner: Interceptor) -> None:
        """Let calls through to this interceptor."""
        self._inner = inner
        self._opened.set()

    async def close(self, seconds: float) -> bool:
        """Let no more calls through; wait this long for those under way and return whether all have ended.

        A call that is still being decided then is turned away. The outcome of one that the runtime has not answered is
        not reported.
        """
        self._is_closing = True
        # Wakes the calls that wait for ``open``: they are turned away now, not after their whole bound.
        self._opened.set()
        all_ended = False
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._limits or self._sent:
                    self._ended.clear()
                    await self._ended.wait()
            all_ended = True
        loop = asyncio.get_running_loop()
        for limit in self._limits.values():
            # Through the timeout of the decision: what it has begun is rolled back, and its caller gets an answer.
            limit.reschedule(loop.time())
        while self._limits:
            self._ended.clear()
            await self._ended.wait()
        self._inner = None
        return all_ended

    def wants(self, method: str) -> Interest:
        """See ``interest_of``."""
        return interest_of(method)

    async def on_request(self, call: Call) -> Verdict:
        """Return the inner interceptor's verdict as soon as there is one."""
        if not await self._is_open():
            return _NOT_YET
        if self._is_closing or self._inner is None:
            return _TURNED_AWAY
        try:
            async with asyncio.timeout(None) as limit:
                self._limits[call.id] = limit
                verdict = await self._inner.on_request(call)
        except TimeoutError:
            if not self._limits[call.id].expired():
                raise
            return _TURNED_AWAY  # by ``close``: what it had begun is rolled back
        finally:
            del self._limits[call.id]
            self._ended.set()
        if call.method in _AWAITED and not isinstance(verdict, Refuse):
            self._sent.add(call.id)
        return verdict

    async def stand_in(self, method: str) -> bytes | None:
        """Return the inner interceptor's reply as soon as there is one; None without."""
        await self._is_open()
        return None if self._inner is None else await self._inner.stand_in(method)

    async def _is_open(self) -> bool:
        """Wait for ``open`` or ``close``; False when neither came in time."""
        if not self._opened.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self._wait_seconds):
                    await self._opened.wait()
        return self._opened.is_set()

    def on_outcome(self, call: Call, outcome: Outcome) -> None:
        """Report the outcome to the inner interceptor, unless it has gone."""
        self._sent.discard(call.id)
        if self._inner is not None:
            self._inner.on_outcome(call, outcome)
        self._ended.set()
