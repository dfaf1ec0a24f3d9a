"""Log, count and record each event of the node after it happened, a method per event; ``explain`` gets the records."""

from collections.abc import Sequence
from typing import Final

from cri_proxy import events
from cri_proxy.clock import Clock
from cri_proxy.foreign_text import admit
from cri_proxy.logs import Log
from cri_proxy.metrics import catalog
from cri_proxy.metrics.counters import Counters
from cri_proxy.metrics.metric import OTHER, Metric
from cri_proxy.node.decision_log import summary
from cri_proxy.node.decision_log.incidents import IncidentKind, Incidents
from cri_proxy.node.decision_log.records import OpenDecision, Records
from cri_proxy.state.decisions import REBALANCED
from cri_proxy.state.rows import Row
from policies.base import Decision, Grant, Pinning, Placed, Reason, Rejected, Request
from policies.device_grants import cost_names, device_words
from policies.topology_aware import ReasonCode

# Names of displaced containers in one log line; their number stands beside them.
NAMED_DISPLACED = 8

# Events that ``noted`` logs as information; all others are warnings.
_ROUTINE: Final = frozenset(
    {
        events.CONFIG_RELOADED,
        events.COST_FILES_RELOADED,
        events.DEVICES_LEARNED,
        events.ESCAPED,
        events.INVENTORY_RELOADED,
        events.MACHINE_CHANGED,
        events.NOTIFIED,
        events.POD_RESOURCES_AWAY,
        events.RECOVERED,
        events.RUNTIME_CDI,
        events.RUNTIME_CONFIG,
        events.STEPPED_ASIDE,
    }
)
# Events that are counted: the metric and its label values.
_COUNTED: Final[dict[str, tuple[Metric, *tuple[str, ...]]]] = {
    events.CHECK_FAILED: (catalog.CHECKS_FAILED,),
    events.HINT_MISSING: (catalog.HINTS_MISSING,),
    events.DRIFTED: (catalog.DRIFTS, "put_back", "other"),
    events.LEFT_TO_ANOTHER: (catalog.DRIFTS, "left_alone", "other"),
    events.UNPLACED: (catalog.DECISIONS, "passthrough", "fault"),
    events.VIOLATION: (catalog.VIOLATIONS,),
}
# Reasons that most placements have, the last one with ``DeviceCPUs: keep``.
_USUAL: Final = frozenset(
    {ReasonCode.POOL, ReasonCode.CPUS_PICKED, ReasonCode.DISPLACED, ReasonCode.MEMORY_SPILLS, ReasonCode.MEMORY_STAYS}
    | {ReasonCode.TOPOLOGY_HINTS, ReasonCode.TOPOLOGY_MERGED, ReasonCode.TOPOLOGY_KEPT, ReasonCode.DEVICE_CPUS_KEPT}
)
# The label of a fault by what failed; for a call that is its method.
_FAULTS: Final = {
    "background": "background",
    "background task": "background",
    "fallback": "call",
    "notify-exec": "resource_files",
    "relay": "relay",
    "resource files": "resource_files",
    "update": "update",
}


FAULTS_LOGGED: Final = 5
"""Lines in FAULT_PERIOD_SECONDS about faults at one place: a client that breaks HTTP/2 makes one at each attempt."""
FAULT_PERIOD_SECONDS: Final = 60.0
_FAULT_PLACES: Final = 256  # remembered
_FILES_SHOWN: Final = 4


class Journal:
    """The events of a node, each reported once and after the fact. ``records`` are the decisions' for ``explain``."""

    def __init__(self, log: Log, clock: Clock, records: type[Records] = Records) -> None:
        """Log to ``log``, keep ``records``; nothing is saved before ``recall``."""
        self._log = log
        self._clock = clock
        # Records are parsed when they are asked for, so the line comes late; the record is gone then.
        self.records = records(clock, lambda problem: log.warning(events.RECORD_IGNORED, reason=problem))
        self.counters = Counters(catalog.JOURNAL_ROWS)
        self.incidents, self.ended = Incidents(clock), Incidents(clock)  # no record may be left of those that ended
        self._faults: dict[str, tuple[float, int]] = {}  # by place: when the first was logged, and how many there were

    def decided(
        self,
        request: Request,
        decision: Decision,
        *,
        problems: tuple[str, ...],
        seconds: float,
        circumstances: summary.Circumstances,
    ) -> None:
        """Keep the record. Log a refusal, which is final; a placement is logged once it is carried out."""
        self.counters.measure(catalog.DECISION_SECONDS, seconds)
        self.counters.add(catalog.ANNOTATIONS_IGNORED, by=len(problems))
        record = summary.record_of(
            request,
            decision,
            circumstances,
            at_seconds=self._clock.now_seconds(),
            problems=problems,
            duration_seconds=seconds,
        )
        for problem in record.problems:
            self._log.warning(events.ANNOTATION_IGNORED, **_names(request), reason=problem)
            self.incidents.add(IncidentKind.IGNORED, request, problem)
        self._log.debug(events.DECIDED, **_names(request), decision=record)
        if isinstance(decision, Placed):
            self.records.open(record, decision, circumstances)
            return
        self.counters.add(catalog.DECISIONS, "refused", decision.reason.code)
        self.incidents.add(IncidentKind.REFUSED, request, decision.reason.text)
        self.records.refused(record, circumstances)
        self._log.warning(
            events.REFUSED,
            **_names(request),
            reason=decision.reason.text,
            code=decision.reason.code,
            duration_seconds=round(seconds, 6),
        )

    def pod_refused(self, request: Request, rejected: Rejected) -> None:
        """Log and count the refusal of a pod that has no container yet."""
        code, reason = rejected.reason.code, rejected.reason.text
        self.counters.add(catalog.DECISIONS, "refused", code)
        self.incidents.add(IncidentKind.REFUSED, request, reason)
        self._log.warning(
            events.REFUSED, namespace=request.pod.namespace, pod=request.pod.name, reason=reason, code=code
        )

    def carried_out(self, row: Row) -> None:
        """Log what was chosen, why, and what it displaced."""
        opened = self.records.confirmed(row)
        if opened is not None:
            event = events.PLACED
            if opened.row is not None:  # a live container: for a new size, or because it cannot keep its CPUs
                is_same = summary.asks_same(opened.row.grant.request, opened.record.request)
                event = events.REPLACED if is_same else events.RESIZED
            self.counters.add(catalog.DECISIONS, event, notable_code(opened.record.reasons))
            self.counters.add(catalog.GRANT_CHANGES, REBALANCED, by=sum(m.is_rebalanced for m in opened.record.moves))
            self._log.info(event, **_placement(opened))
            for reason in opened.record.reasons:
                if reason.code == ReasonCode.OVERCOMMITTED:
                    self.incidents.add(IncidentKind.OVERCOMMITTED, row.grant.request, reason.text)

    def not_created(self, row: Row, why: str, *, code: str) -> None:
        """Log and keep why a container with a place was not created."""
        if code in catalog.ROLLED_BACK_CODES:
            self.counters.add(catalog.DECISIONS, "rolled_back", code)
        record = self.records.given_up(row, why)
        self._log.warning(
            events.ROLLED_BACK,
            **_names(record.request),
            pool=row.grant.pool,
            exclusive=str(row.grant.owned) or None,
            reason=why,
            duration_seconds=round(record.duration_seconds, 6),
        )

    def not_resized(self, row: Row, why: str) -> None:
        """Log and keep why a live container keeps its size."""
        self.records.kept(row, why)
        self._log.warning(events.ROLLED_BACK, **_names(row.grant.request), pool=row.grant.pool, reason=why)

    def changed(self, before: Grant | None, after: Grant, why: str, *, came_home: bool = False) -> None:
        """Log, count and keep a change of a grant that no request asked for."""
        self.records.changed(before, after, why, came_home=came_home)
        change = "placed" if before is None else REBALANCED if came_home else summary.change_code(before, after)
        self.counters.add(catalog.GRANT_CHANGES, change)
        is_move = change in ("placed", "re-placed", REBALANCED)
        self._log.info(
            events.REPLACED if is_move else events.MEMORY_MOVED,
            **_names(after.request),
            pool=after.pool,
            exclusive=str(after.owned) or None,
            change=summary.change_text(before, after) if before is not None else "placed at last",
            reason=why,
        )

    def failed_open(self, what: str, error: BaseException) -> None:
        """Count an internal error, and log it with the place in the code, FAULTS_LOGGED of one place in a while."""
        self.counters.add(catalog.FAULTS, _FAULTS.get(what, "call" if what.startswith("/") else OTHER))
        where = _where(error)
        unlogged = self._unlogged(f"{type(error).__name__} in {where}")
        if unlogged is None:
            return
        # The error may quote all of a message that cannot be read.
        self._log.error(
            events.FAULT, what=what, reason=admit(repr(error)), where=where, earlier_not_logged=unlogged or None
        )

    def _unlogged(self, place: str) -> int | None:
        """Count a fault at this place; return how many were not logged since the last line, None to log none now."""
        now_seconds = self._clock.monotonic_seconds()
        began_seconds, count = self._faults.get(place, (-FAULT_PERIOD_SECONDS, 0))
        if now_seconds - began_seconds < FAULT_PERIOD_SECONDS:
            self._faults[place] = began_seconds, count + 1
            return 0 if count < FAULTS_LOGGED else None
        if len(self._faults) >= _FAULT_PLACES:
            self._faults.clear()
        self._faults[place] = now_seconds, 1
        return max(0, count - FAULTS_LOGGED)

    def updated(self, row: Row, pinning: Pinning) -> None:
        """Log and count a confirmed update."""
        self.counters.add(catalog.UPDATES, "confirmed")
        if takes_memory(row, pinning):
            self.counters.add(catalog.MEMORY_MOVES)
        self._log.info(events.UPDATED, **_names(row.grant.request), cpus=_text(pinning.cpus), mems=_text(pinning.mems))

    def update_failed(self, row: Row, problem: str) -> None:
        """Log, count and keep an update that the runtime refused after every attempt."""
        self.counters.add(catalog.UPDATES, "refused")
        self._log.error(events.UPDATE_FAILED, **_names(row.grant.request), reason=problem)
        self.records.happened(row, "update-refused", problem)

    def hint_missing(self, row: Row, problem: str) -> None:
        """Log, count and keep that a container was placed without the hints of some of its devices and mounts."""
        self.noted_of(row, events.HINT_MISSING, reason=problem)
        self.records.happened(row, "hint-missing", problem)

    def variables_set(self, row: Row, variables: Sequence[tuple[str, str]]) -> None:
        """Keep which thread counts a container's environment begins with: no later change of its CPUs changes them."""
        named = ", ".join(f"{name}={value}" for name, value in variables)
        self.records.happened(row, "environment", f"{named} set; a resize does not change them")

    def devices_given(
        self,
        row: Row,
        count: int,
        names: Sequence[str] = (),
        *,
        is_resolved: bool = False,
        problem: str = "",
        notes: Sequence[str] = (),
    ) -> None:
        """Keep how a container gets ``count`` devices: those of ``names`` by CDI, resolved here or by the runtime.

        Log and keep ``problem``, why it gets none so; '' = no specification declares the others. ``notes`` are what it
        lacks.
        """
        if problem:
            self.noted_of(row, events.DEVICES_MISSING, devices=",".join(cost_names(row.grant.devices)), reason=problem)
        others = count - len(names)
        how = "resolved from CDI by cri-proxy" if is_resolved else "added by CDI"
        parts = [f"{how}: {', '.join(names)}"] if names else []
        parts += [f"{others} in no CDI specification: named in its environment alone"] if others and not problem else []
        parts += [f"not added by CDI: {problem}"] if problem else []
        parts += notes
        self.records.happened(row, "devices", "; ".join(parts))

    def allocation_unnamed(
        self, row: Row, unnamed: Sequence[str], problem: str, unreadable: Sequence[str] = ()
    ) -> None:
        """Keep which of a container's devices of the inventory have no CDI name; log why none can have one.

        ``unreadable`` are files that should be specifications: one of them may be that of these devices.
        """
        garbage = f"cannot be read as a specification: {', '.join(unreadable[:_FILES_SHOWN])}" if unreadable else ""
        if problem or garbage:
            self.noted_of(row, events.DEVICES_MISSING, devices=", ".join(unnamed), reason=problem or garbage)
        said = f"not named to CDI: {problem}" if problem else f"in no CDI specification: {', '.join(unnamed)}"
        self.records.happened(row, "devices", f"{said}; {garbage}" if garbage else said)

    def gpus_hidden(self, row: Row, named: str) -> None:
        """Keep that a container without a GPU does not see those that its pod names."""
        self.records.happened(row, "devices", f"NVIDIA_VISIBLE_DEVICES is void instead of {named}: it has no GPU")

    def cdi_ignored(self, row: Row, names: str, why: str) -> None:
        """Log and keep that the runtime adds none of the CDI devices that the kubelet asks for."""
        self.noted_of(row, events.CDI_IGNORED, devices=names, reason=why)
        self.records.happened(row, "devices", f"{names} of the kubelet not added: {why}")

    def misread(self, row: Row, text: str) -> None:
        """Count and keep that systemd wrote a cpuset with reversed bytes: the log gets one line about all of them."""
        self.counters.add(catalog.DRIFTS, "put_back", "runc_masks")
        self.records.happened(row, "drifted", text)

    def released(self, row: Row, why: str) -> None:
        """Log, count and note a released grant."""
        self.counters.add(catalog.RELEASED)
        self.ended.add(IncidentKind.ENDED, row.grant.request, why)
        self._log.info(
            events.RELEASED,
            **_names(row.grant.request),
            exclusive=str(row.grant.owned) or None,
            devices=",".join(device_words(row.grant.devices)) or None,
            reason=why,
        )

    def saved(self, seconds: float) -> None:
        """Measure how long a save took."""
        self.counters.measure(catalog.SAVE_SECONDS, seconds)

    def noted(self, event: str, **fields: object) -> None:
        """Log any other event at its level, and count it."""
        if event in _COUNTED:
            row, *labels = _COUNTED[event]
            self.counters.add(row, *labels)
        if event == events.VIOLATION:
            self._log.error(event, **fields)
        elif event in _ROUTINE:
            self._log.info(event, **fields)
        else:
            self._log.warning(event, **fields)

    def noted_of(self, row: Row, event: str, **fields: object) -> None:
        """Log any other event of this container."""
        if event == events.ANNOTATION_IGNORED:
            self.incidents.add(IncidentKind.IGNORED, row.grant.request, str(fields["reason"]))
        self.noted(event, **_names(row.grant.request), **fields)


def takes_memory(row: Row, pinning: Pinning) -> bool:
    """Return whether this update takes memory nodes from a running container; unacknowledged, it may use all nodes."""
    if pinning.mems is None or row.state != "running":
        return False
    return row.known.mems is None or not row.known.mems <= pinning.mems


def notable_code(reasons: Sequence[Reason]) -> str:
    """Return the code that a placement is counted under: its first reason that most do not have, else 'pool'."""
    return next((reason.code for reason in reasons if reason.code not in _USUAL), ReasonCode.POOL)


def _placement(opened: OpenDecision) -> dict[str, object]:
    """Return the fields of the line for a placement."""
    record, granted = opened.record, opened.record.granted
    if granted is None:
        return _names(record.request)
    displaced = [f"{other.pod}/{other.name}" for other in record.displaced[:NAMED_DISPLACED]]
    return {
        **_names(record.request),
        "kind": granted.kind.value,
        "pool": granted.pool,
        "cpus": _text(granted.pinning.cpus),
        "mems": _text(granted.pinning.mems),
        "exclusive": str(granted.exclusive | granted.isolated) or None,
        "devices": ",".join(granted.devices) or None,
        "reason": record.reasons[0].text if record.reasons else "",
        "displaced": displaced or None,
        "displaced_count": record.displaced_count or None,
        "moved": [f"{move.who.pod}/{move.who.name}" for move in record.moves] or None,
        "duration_seconds": round(record.duration_seconds, 6),
    }


def _names(request: Request) -> dict[str, object]:
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
