"""One log line per decision, and the last decision of every container for ``explain``."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from cri_proxy import events
from cri_proxy.clock import Clock
from cri_proxy.node.observer import Circumstances
from cri_proxy.node.persistence import Persistence
from cri_proxy.state.rows import Row, Saved
from policies.base import ContainerKey, Decision, Grant, Pinning, Placed, Request

# Decisions kept for explain: several times the containers that a kubelet runs on a node (110 pods by default).
KEPT_DECISIONS = 4096

_WORTH_A_LOOK = frozenset(
    {
        events.CHECK_FAILED,
        events.NOT_ADOPTED,
        events.RUNTIME_AWAY,
        events.STORE_DEGRADED,
        events.UNKNOWN_CONTAINERS,
        events.UNPLACED,
    }
)


class Log(Protocol):
    """A structured logger: an event name and fields (structlog's bound logger fits)."""

    def info(self, event: str, **fields: object) -> object:
        """What an operator would tell a colleague."""

    def warning(self, event: str, **fields: object) -> object:
        """What an operator should look at."""

    def error(self, event: str, **fields: object) -> object:
        """What an operator must look at."""


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """What was decided for a container, from what, when and how long it took."""

    request: Request
    decision: Decision
    problems: tuple[str, ...]
    seconds: float
    decided_at_seconds: float  # since the epoch


class Journal:
    """Implements ``node.observer.Observer``."""

    def __init__(self, log: Log, clock: Clock) -> None:
        """Logs to ``log``."""
        self._log = log
        self._clock = clock
        self._records: OrderedDict[ContainerKey, DecisionRecord] = OrderedDict()
        self.faults = 0

    def record_of(self, key: ContainerKey) -> DecisionRecord | None:
        """The last decision about this container, a refusal too; None when there was none in this process."""
        return self._records.get(key)

    def records(self) -> tuple[DecisionRecord, ...]:
        """All kept decisions, oldest first."""
        return tuple(self._records.values())

    def recall(self, saved: Saved, persistence: Persistence) -> None:
        """Nothing is kept yet."""

    def carried_out(self, row: Row) -> None:
        """Not told yet."""

    def not_resized(self, row: Row, why: str) -> None:
        """Not told yet."""

    def changed(self, before: Grant | None, after: Grant, why: str) -> None:
        """A container holds something else from now on."""
        self._log.info(events.REPLACED, **_who(after.request), reason=why)

    def forgotten(self, keys: Sequence[ContainerKey]) -> None:
        """Not told yet."""

    def decided(
        self,
        request: Request,
        decision: Decision,
        *,
        problems: tuple[str, ...],
        seconds: float,
        circumstances: Circumstances | None = None,
    ) -> None:
        """Keep the record and log what was chosen, why, and what it displaced."""
        self._records[request.container] = DecisionRecord(
            request, decision, problems, seconds, self._clock.now_seconds()
        )
        self._records.move_to_end(request.container)
        while len(self._records) > KEPT_DECISIONS:
            self._records.popitem(last=False)
        for problem in problems:
            self._log.warning(events.ANNOTATION_IGNORED, **_who(request), reason=problem)
        if not isinstance(decision, Placed):
            self._log.warning(events.REFUSED, **_who(request), reason=decision.reason.text, code=decision.reason.code)
            return
        grant = decision.grant
        self._log.info(
            events.PLACED,
            **_who(request),
            kind=grant.kind.value,
            pool=grant.pool,
            cpus=_text(decision.pinning.cpus),
            mems=_text(decision.pinning.mems),
            exclusive=str(grant.owned) or None,
            reason=decision.reasons[0].text if decision.reasons else "",
            displaced=[self._name(u.container) for u in decision.updates] or None,
            duration_seconds=round(seconds, 6),
        )

    def not_created(self, row: Row, why: str) -> None:
        """The runtime did not create a container that had a place: nothing is held, and ``explain`` says so."""
        self._log.warning(events.ROLLED_BACK, **_who(row.grant.request), reason=why)
        record = self._records.get(row.key)
        if record is not None:
            self._records[row.key] = replace(record, problems=(*record.problems, f"not created: {why}"))

    def failed_open(self, what: str, error: BaseException) -> None:
        """A fault of ours: loud, with where it happened."""
        self.faults += 1
        self._log.error(events.FAULT, what=what, reason=repr(error), where=_where(error))

    def updated(self, row: Row, pinning: Pinning) -> None:
        """An update of a container was confirmed."""
        self._log.info(events.UPDATED, **_who(row.grant.request), cpus=_text(pinning.cpus), mems=_text(pinning.mems))

    def update_failed(self, row: Row, problem: str) -> None:
        """An update was refused for good."""
        self._log.error(events.UPDATE_FAILED, **_who(row.grant.request), reason=problem)

    def released(self, row: Row, why: str) -> None:
        """A grant is free again."""
        self._log.info(events.RELEASED, **_who(row.grant.request), exclusive=str(row.grant.owned) or None, reason=why)

    def noted(self, event: str, **fields: object) -> None:
        """Anything else, as loud as it is serious."""
        if event == events.VIOLATION:
            self._log.error(event, **fields)
        elif event in _WORTH_A_LOOK:
            self._log.warning(event, **fields)
        else:
            self._log.info(event, **fields)

    def _name(self, key: ContainerKey) -> str:
        """POD/CONTAINER where the pod's name is known, else by its uid."""
        record = self._records.get(key)
        return f"{record.request.pod.name if record is not None else key.pod_uid}/{key.name}"


def _who(request: Request) -> dict[str, object]:
    return {"namespace": request.pod.namespace, "pod": request.pod.name, "container": request.container.name}


def _text(ids: object) -> str | None:
    return None if ids is None else str(ids)


def _where(error: BaseException) -> str:
    trace = error.__traceback__
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_qualname}:{trace.tb_lineno}"
