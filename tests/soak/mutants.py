"""``python -m tests.soak.mutants LEAKS run …``: the daemon with deliberate leaks, for the proof that a soak sees them.

LEAKS are names joined by commas: ``request`` (a few objects and kilobytes are kept of each container created),
``descriptor``, ``task`` (one for each), ``grant`` (every twentieth that should become free never does).
"""

import asyncio
import os
import sys
from collections.abc import Callable
from itertools import count

from cri_proxy.cli.main import main as cri_proxy
from cri_proxy.intercept.interceptor import CriInterceptor
from cri_proxy.node.coordinator import Coordinator
from cri_proxy.relay.calls import Call, Outcome
from cri_proxy.state.rows import Row
from tests.soak.daemon import collect_when_told

EVERY = 20
_kept: list[object] = []


def _request(call: Call) -> None:
    """What a forgotten request comes to: its message, and a few dozen small objects that were made of it."""
    _kept.append([bytes(call.message), [str(number) * 3 for number in range(1000, 1060)]])


def _descriptor(call: Call) -> None:
    _kept.append(os.open("/dev/null", os.O_RDONLY))


def _task(call: Call) -> None:
    _kept.append(asyncio.get_running_loop().create_task(asyncio.Event().wait()))


LEAKS: dict[str, Callable[[Call], None]] = {"request": _request, "descriptor": _descriptor, "task": _task}


def leak_at_each_create(leak: Callable[[Call], None]) -> None:
    """Leak when the runtime has answered a create."""
    honest = CriInterceptor.on_outcome

    def on_outcome(self: CriInterceptor, call: Call, outcome: Outcome) -> None:
        if call.method.endswith("/CreateContainer"):
            leak(call)
        honest(self, call, outcome)

    CriInterceptor.on_outcome = on_outcome  # type: ignore[method-assign]  # that is what a mutant is


def lose_grants() -> None:
    """Some releases never happen, however often they are tried, nor does what the end of the pod would free."""
    release, forget = Coordinator.release, Coordinator.forget_sandbox
    releases, lost = count(1), set[str]()

    def releases_most(self: Coordinator, row: Row, why: str) -> None:
        if row.sandbox_id in lost or next(releases) % EVERY == 0:
            lost.add(row.sandbox_id)
        else:
            release(self, row, why)

    def forgets_most(self: Coordinator, sandbox_id: str, why: str) -> None:
        if sandbox_id not in lost:
            forget(self, sandbox_id, why)

    Coordinator.release = releases_most  # type: ignore[method-assign]
    Coordinator.forget_sandbox = forgets_most  # type: ignore[method-assign]


def main() -> None:
    """Be ``cri-proxy`` with these leaks."""
    for kind in sys.argv.pop(1).split(","):
        if kind == "grant":
            lose_grants()
        else:
            leak_at_each_create(LEAKS[kind])
    collect_when_told()
    cri_proxy()


if __name__ == "__main__":
    main()
