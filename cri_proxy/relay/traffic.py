"""Count the relays' calls, connections and bytes for metrics; time the intercepted calls (held, whole duration).

A call costs one dictionary update, a frame none. Pass-through calls count by path; their status is not read. Paths come
from outside, so their number is bounded, and only the methods of CRI become labels.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from cri_proxy.clock import steady_seconds
from cri_proxy.http2.status import Code, Failed
from cri_proxy.metrics import catalog
from cri_proxy.metrics.counters import Counters, Histogram
from cri_proxy.metrics.exposition import Sample
from cri_proxy.metrics.metric import OTHER
from cri_proxy.relay.calls import Aborted, Call, Outcome, Refuse, Replied, Verdict
from cri_proxy.relay.method_types import SERVER_STREAMS, UNARY

_MAX_PATHS: Final = 256
_UNREAD: Final = "unread"
_NAMES: Final = {path: path.rpartition("/")[2] for path in (*UNARY, *SERVER_STREAMS)}
_CODES: Final = {int(code): code.name for code in Code}


Passed = dict[bytes, int]
"""Pass-through calls by path; the empty path counts those beyond the bound."""


@dataclass(frozen=True, slots=True)
class RelayTotals:
    """One relay at a scrape: open client connections, and the bytes received from both sides since its start."""

    connections: int = 0
    kubelet_bytes: int = 0
    runtime_bytes: int = 0


@dataclass(frozen=True, slots=True)
class _Method:
    """The series of an intercepted method, looked up once."""

    name: str
    held: Histogram
    whole: Histogram
    codes: dict[str, int] = field(default_factory=dict)


class Traffic:
    """Counters for the relays of a process."""

    def __init__(self, seconds: Callable[[], float] = steady_seconds) -> None:
        """Measure durations by ``seconds``."""
        self._relays: list[Callable[[], RelayTotals]] = []
        self._passed: list[Passed] = []
        self._counters = Counters(catalog.RELAY_ROWS)
        self._seconds = seconds
        self._begun: dict[int, float] = {}
        self._methods: dict[str, _Method] = {}
        self._unserved = 0

    def add_relay(self, totals: Callable[[], RelayTotals]) -> None:
        """Ask this relay for its totals at each scrape."""
        self._relays.append(totals)

    def new_passed(self) -> Passed:
        """Return the counts of one relay's pass-through calls. Each relay has its own, as each wants other methods."""
        self._passed.append({b"": 0})
        return self._passed[-1]

    def unserved(self) -> None:
        """Count a call that is refused because its interface is older than CRI v1."""
        self._unserved += 1

    def malformed(self, reason: str) -> None:
        """Count a request that is refused, or whose connection is closed, because it was not understood."""
        self._counters.add(catalog.MALFORMED, reason)

    def begun(self, call: Call) -> None:
        """Start the clock of an intercepted call: its request is complete."""
        self._begun[call.id] = self._seconds()

    def judged(self, call: Call, verdict: Verdict) -> None:
        """Measure how long the call was held; a refused call ends here."""
        begun_at = self._begun.get(call.id)
        if begun_at is not None:
            self._method(call).held.measure(self._seconds() - begun_at)
        if isinstance(verdict, Refuse):
            self._end(call, _CODES.get(verdict.code, OTHER))

    def ended(self, call: Call, outcome: Outcome) -> None:
        """Count the end of a call by its status; an unknown outcome counts as ``none``."""
        match outcome:
            case Replied():
                code = Code.OK.name
            case Failed(code=number):
                code = _CODES.get(number, OTHER)
            case Aborted():
                code = "none"
        self._end(call, code)

    def samples(self) -> Iterator[Sample]:
        """Yield the samples of all relays."""
        yield from self._counters.samples()
        calls: Counter[tuple[str, str]] = Counter({(OTHER, Code.UNIMPLEMENTED.name): self._unserved})
        for method in self._methods.values():
            calls.update({(method.name, code): count for code, count in method.codes.items()})
        for passed in self._passed:
            for path, count in passed.items():
                calls[_name(path.decode("utf-8", "replace")), _UNREAD] += count
        yield from (Sample(catalog.CALLS, count, labels) for labels, count in sorted(calls.items()))
        now = [totals() for totals in self._relays]
        yield Sample(catalog.RECEIVED_BYTES, sum(relay.kubelet_bytes for relay in now), ("kubelet",))
        yield Sample(catalog.RECEIVED_BYTES, sum(relay.runtime_bytes for relay in now), ("runtime",))
        yield Sample(catalog.CONNECTIONS, sum(relay.connections for relay in now))
        yield Sample(catalog.CALLS_IN_FLIGHT, len(self._begun))

    def _end(self, call: Call, code: str) -> None:
        method, begun_at = self._method(call), self._begun.pop(call.id, None)
        method.codes[code] = method.codes.get(code, 0) + 1
        if begun_at is not None:
            method.whole.measure(self._seconds() - begun_at)

    def _method(self, call: Call) -> _Method:
        """Return the series of an intercepted method; the interceptor's table bounds their number."""
        found = self._methods.get(call.method)
        if found is None:
            name = _name(call.method)
            held = self._counters.histogram(catalog.HELD_SECONDS, name)
            whole = self._counters.histogram(catalog.CALL_SECONDS, name)
            found = self._methods[call.method] = _Method(name, held, whole)
        return found


def count_passed(passed: Passed, path: bytes) -> None:
    """Count a call under its path while the table has room."""
    key = path if path in passed or len(passed) < _MAX_PATHS else b""
    passed[key] = passed.get(key, 0) + 1


def _name(method: str) -> str:
    """Return the name of a method of CRI v1, 'other' for any other."""
    return _NAMES.get(method, OTHER)
