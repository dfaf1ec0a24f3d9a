"""Decisions as records: what is worth keeping of them, in bounded size (pure)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from cri_proxy.node.observer import Circumstances
from cri_proxy.state.decisions import (
    KEPT_CHANGES,
    KEPT_DISPLACED,
    KEPT_POOLS,
    Change,
    DecisionRecord,
    Displaced,
    Moved,
    Named,
    Outcome,
    RankedPool,
    granted_of,
    named,
)
from policies.base import Allocations, ContainerKey, Decision, Grant, Pinning, Placed, Ranked, Request, Update
from sysfs.cpuset import CpuSet, NodeSet

CHOSEN = "chosen"


def record_of(
    request: Request, decision: Decision, circumstances: Circumstances, *, at_seconds: float
) -> DecisionRecord:
    """The record of a decision that was made at this time, since the epoch."""
    kept = _kept(decision.ranking)
    record = DecisionRecord(
        request,
        Outcome.REFUSED,
        at_seconds,
        fields=tuple(name for name, _ in kept[0].key) if kept else (),
        ranking=tuple(RankedPool(r.pool, tuple(value for _, value in r.key), r.outcome) for r in kept),
        pools_considered=len(decision.ranking),
        defaults=circumstances.defaults,
    )
    if not isinstance(decision, Placed):
        return replace(record, reasons=(decision.reason,), is_confirmed=True)
    return replace(
        record,
        request=decision.grant.request,
        outcome=Outcome.PLACED,
        granted=granted_of(decision.grant, decision.pinning),
        reasons=decision.reasons,
        displaced=tuple(_displaced(decision.updates[:KEPT_DISPLACED], circumstances)),
        displaced_count=len(decision.updates),
        moved=tuple(_moved(decision.moved, circumstances.held)),
    )


def record_of_grant(grant: Grant, outcome: Outcome, *, at_seconds: float, confirmed: bool = True) -> DecisionRecord:
    """The record of a container whose grant was not decided on by this process."""
    pinning = Pinning(grant.owned or None, grant.mems or None)
    return DecisionRecord(
        grant.request, outcome, at_seconds, granted=granted_of(grant, pinning), is_confirmed=confirmed
    )


def with_change(record: DecisionRecord, *changes: Change) -> DecisionRecord:
    """The record with these later changes; of too many the oldest go."""
    return replace(record, history=(*record.history, *changes)[-KEPT_CHANGES:])


def after_earlier(record: DecisionRecord, earlier: DecisionRecord | None) -> DecisionRecord:
    """A new record that goes on with the history of the container's earlier one, that decision included.

    A refusal that is only repeated, as the kubelet tries again and again, is no news.
    """
    if earlier is None:
        return record
    is_repeated = earlier.outcome is Outcome.REFUSED and earlier.reasons == record.reasons
    was = () if is_repeated else (Change(earlier.decided_at_seconds, earlier.outcome.value, outcome_text(earlier)),)
    return with_change(replace(record, history=()), *earlier.history, *was)


def outcome_text(record: DecisionRecord) -> str:
    """What came of a decision, in a sentence without subject."""
    if record.outcome is Outcome.REFUSED:
        return f"refused: {record.reasons[0].text}" if record.reasons else "refused"
    if record.outcome is Outcome.NOT_CREATED:
        return f"not created: {record.failure}"
    granted = record.granted
    if granted is None:
        return record.outcome.value
    where = f" in {granted.pool}" if granted.pool else ""
    return f"{record.outcome.value}{where}{_on(granted.pinning.cpus)}"


def change_text(before: Grant, after: Grant) -> str:
    """What is different between two grants of a container, as words: pool, own CPUs, memory nodes."""
    parts = []
    if before.pool != after.pool:
        parts.append(f"from {before.pool or 'no pool'} to {after.pool or 'no pool'}")
    if before.owned != after.owned:
        parts.append(f"its own CPUs from {_set(before.owned)} to {_set(after.owned)}")
    if before.mems != after.mems:
        parts.append(f"memory nodes from {_set(before.mems)} to {_set(after.mems)}")
    if before.shared_mcpu != after.shared_mcpu:
        parts.append(f"shared CPU from {before.shared_mcpu}m to {after.shared_mcpu}m")
    if before.is_cold and not after.is_cold:
        parts.append("its cold start is over")
    return ", ".join(parts) or "nothing that it holds"


def change_code(before: Grant, after: Grant) -> str:
    """What kind of change it is when a grant becomes another one that nobody asked for."""
    if before.pool != after.pool or before.owned != after.owned:
        return "re-placed"
    if before.is_cold and not after.is_cold:
        return "warmed"
    if before.mems != after.mems:
        return memory_code(before.mems, after.mems)
    return "re-placed"


def memory_code(before: NodeSet, after: NodeSet) -> str:
    """What became of a zone."""
    if before <= after:
        return "widened"
    return "narrowed" if after <= before else "memory-moved"


def is_same_wish(one: Request, other: Request) -> bool:
    """Whether two requests ask for the same, wherever the container was before."""
    return replace(one, previous=None) == replace(other, previous=None)


def moved_code(moved: Moved) -> str:
    """What kind of change it was for the one who moved."""
    if moved.pool_before != moved.pool:
        return "lifted"
    return memory_code(moved.mems_before, moved.mems)


def moved_text(moved: Moved) -> str:
    """Where a container was moved, in words."""
    parts = []
    if moved.pool_before != moved.pool:
        parts.append(f"from {moved.pool_before} to {moved.pool}")
    if moved.mems_before != moved.mems:
        parts.append(f"memory nodes from {_set(moved.mems_before)} to {_set(moved.mems)}")
    return ", ".join(parts)


def named_in(held: Allocations, key: ContainerKey) -> Named:
    """The names of a container that holds something; its pod's uid where it does not."""
    grant = held.get(key)
    return named(grant.request) if grant is not None else Named("", key.pod_uid, key.name)


def _kept(ranking: Sequence[Ranked]) -> tuple[Ranked, ...]:
    """The best pools, and the chosen one wherever it stands."""
    return tuple(r for i, r in enumerate(ranking) if i < KEPT_POOLS or r.outcome == CHOSEN)


def _displaced(updates: Iterable[Update], circumstances: Circumstances) -> Iterable[Displaced]:
    for update in updates:
        before = circumstances.pinnings.get(update.container)
        yield Displaced(named_in(circumstances.held, update.container), before, update.pinning)


def _moved(grants: Iterable[Grant], held: Allocations) -> Iterable[Moved]:
    for after in grants:
        before = held.get(after.container) or after
        yield Moved(named(after.request), before.pool, after.pool, before.mems, after.mems)


def _set(ids: CpuSet | NodeSet) -> str:
    return str(ids) or "none"


def _on(cpus: CpuSet | None) -> str:
    return f" on CPU{'s' if len(cpus) != 1 else ''} {cpus}" if cpus else ""
