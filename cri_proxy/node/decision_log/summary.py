"""Build the bounded record of a decision from its grants, and word changes of grants for log and history. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cri_proxy.foreign_text import is_same_failure
from cri_proxy.state.decisions import (
    CHOSEN,
    KEPT_DISPLACED,
    KEPT_POOLS,
    DecisionRecord,
    GrantMove,
    HistoryEntry,
    Outcome,
    PinningChange,
    granted_of,
    memory_code,
    memory_text,
    with_reasons,
)
from cri_proxy.state.rows import Row
from policies.answers import Default
from policies.base import Allocations, ContainerKey, Decision, Grant, Pinning, Placed, Reason, Rejected, Request, Update
from policies.container_name import ContainerName
from policies.device_grants import device_words
from sysfs.text import numbered


@dataclass(frozen=True, slots=True)
class Circumstances:
    """The state in which a container was decided on; none of it can be determined later.

    ``row``: the live container that is re-decided, None for one that is about to be created. ``held``: all
    grants. ``pinnings``: the wanted pinning of every container. ``defaults``: the values of options that the
    request leaves open. ``affinity_reasons``: returns the containers that attracted or repelled it; called after the
    reply.
    """

    row: Row | None = None
    held: Allocations = Allocations()  # noqa: RUF009 - frozen and empty
    pinnings: Mapping[ContainerKey, Pinning] = field(default_factory=dict)
    defaults: tuple[Default, ...] = ()
    affinity_reasons: Callable[[], tuple[Reason, ...]] = tuple


def record_of(
    request: Request,
    decision: Decision,
    circumstances: Circumstances,
    *,
    at_seconds: float,
    problems: tuple[str, ...] = (),
    duration_seconds: float = 0.0,
) -> DecisionRecord:
    """Return the record of a decision that was made at this time, since the epoch, and took so long."""
    placed = decision if isinstance(decision, Placed) else None
    return DecisionRecord(
        request if placed is None else placed.grant.request,
        Outcome.REFUSED if placed is None else Outcome.PLACED,
        at_seconds,
        duration_seconds,
        granted=None if placed is None else granted_of(placed.grant, placed.pinning),
        reasons=(decision.reason,) if isinstance(decision, Rejected) else decision.reasons,
        # The best pools, and the chosen one wherever it stands.
        ranking=with_reasons([r for i, r in enumerate(decision.ranking) if i < KEPT_POOLS or r.outcome == CHOSEN]),
        pools_considered=len(decision.ranking),
        displaced=() if placed is None else tuple(_displaced(placed.updates[:KEPT_DISPLACED], circumstances)),
        displaced_count=0 if placed is None else len(placed.updates),
        moves=() if placed is None else tuple(_moves(placed, circumstances.held)),
        problems=problems,
        defaults=circumstances.defaults,
        is_confirmed=placed is None,
    )


def record_of_grant(grant: Grant, outcome: Outcome, *, at_seconds: float) -> DecisionRecord:
    """Return the record of a container whose grant was not decided on by this process."""
    pinning = Pinning(grant.owned or None, grant.mems | grant.spill or None)
    record = DecisionRecord(grant.request, outcome, at_seconds, granted=granted_of(grant, pinning), is_confirmed=True)
    if outcome is Outcome.RESTORED:  # when it was decided is not known
        return replace(record, decided_at_seconds=None, restored_at_seconds=at_seconds)
    return record


def with_history(record: DecisionRecord, *entries: HistoryEntry) -> DecisionRecord:
    """Return the record with these entries added; one that repeats the last is counted. Of too many the oldest go."""
    history = list(record.history)
    for entry in entries:
        if history and history[-1].repeats(entry):
            history[-1] = history[-1].again(entry)
        else:
            history.append(entry)
    return replace(record, history=tuple(history))


def after_earlier(record: DecisionRecord, earlier: DecisionRecord | None) -> DecisionRecord:
    """Return a new record that continues the history of the container's earlier one, that decision included.

    A refusal that only repeats the earlier one, as the kubelet tries again and again, adds nothing.
    """
    if earlier is None:
        return record
    is_repeated = earlier.outcome is Outcome.REFUSED and _says_same(earlier.reasons, record.reasons)
    was = () if is_repeated else (HistoryEntry(earlier.at_seconds, earlier.outcome.value, outcome_text(earlier)),)
    return with_history(replace(record, history=()), *earlier.history, *was)


def _says_same(ones: Sequence[Reason], others: Sequence[Reason]) -> bool:
    """Return whether two decisions have the same reasons, apart from ids and numbers."""
    pairs = zip(ones, others, strict=False)
    return len(ones) == len(others) and all(a.code == b.code and is_same_failure(a.text, b.text) for a, b in pairs)


def outcome_text(record: DecisionRecord) -> str:
    """Return the result of a decision, as a sentence without subject."""
    if record.outcome is Outcome.REFUSED:
        return f"refused: {record.reasons[0].text}" if record.reasons else "refused"
    if record.outcome is Outcome.NOT_CREATED:
        return f"not created: {record.failure}"
    granted = record.granted
    if granted is None:
        return record.outcome.value
    where = f" in {granted.pool}" if granted.pool else ""
    cpus = granted.pinning.cpus
    on = f" on {numbered('CPU', cpus)}" if cpus else ""
    return f"{record.outcome.value}{where}{on}"


def change_text(before: Grant, after: Grant) -> str:
    """Return the differences between two grants of a container, in words: pool, own CPUs, memory nodes."""
    parts = []
    if before.pool != after.pool:
        parts.append(f"from {before.pool or 'no pool'} to {after.pool or 'no pool'}")
    if before.owned != after.owned:
        parts.append(f"its own CPUs from {before.owned or 'none'} to {after.owned or 'none'}")
    if before.mems != after.mems:
        parts.append(memory_text(before.mems, after.mems))
    elif before.spill != after.spill:
        parts.append(memory_text(before.mems | before.spill, after.mems | after.spill))
    if before.shared_mcpu != after.shared_mcpu:
        parts.append(f"shared CPU from {before.shared_mcpu}m to {after.shared_mcpu}m")
    if before.devices != after.devices:
        had, has = (", ".join(device_words(grant.devices)) or "none" for grant in (before, after))
        parts.append(f"devices from {had} to {has}")
    if before.is_cold and not after.is_cold:
        parts.append("its cold start is over")
    return ", ".join(parts) or "nothing that it holds"


def change_code(before: Grant, after: Grant) -> str:
    """Return the code of a change of a grant that no request asked for."""
    if before.pool != after.pool or before.owned != after.owned:
        return "re-placed"
    if before.is_cold and not after.is_cold:
        return "cold_start_ended"
    if before.mems != after.mems:
        return memory_code(before.mems, after.mems)
    if before.spill != after.spill:
        return memory_code(before.mems | before.spill, after.mems | after.spill)
    return "re-placed"


def asks_same(one: Request, other: Request) -> bool:
    """Return whether two requests ask for the same, wherever the container was before."""
    return replace(one, previous=None) == replace(other, previous=None)


def _displaced(updates: Iterable[Update], circumstances: Circumstances) -> Iterable[PinningChange]:
    for update in updates:
        key, grant = update.container, circumstances.held.get(update.container)
        name = grant.request.full_name if grant is not None else ContainerName("", key.pod_uid, key.name)
        yield PinningChange.of(name, circumstances.pinnings.get(key), update.pinning)


def _moves(decision: Placed, held: Allocations) -> Iterable[GrantMove]:
    for after in decision.moved:
        before = held.get(after.container) or after
        if (before.pool, before.mems) == (after.pool, after.mems) and after.share is not None:
            continue  # what its pod's containers share has changed, not where they are
        is_rebalanced = after.container in decision.rebalanced
        yield GrantMove(after.request.full_name, before.pool, after.pool, before.mems, after.mems, is_rebalanced)
