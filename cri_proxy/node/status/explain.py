"""Records as others may look at them: why a container sits where it sits (pure)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from cri_proxy.cri.annotations.read import without_effect
from cri_proxy.node.decision_log.summary import CHOSEN, outcome_text
from cri_proxy.node.status.model import ContainerView, DecisionView, DisplacedView, FieldView, RankedView, RefusedView
from cri_proxy.state.decisions import DecisionRecord, Displaced, Granted, Named, RankedPool, named
from policies.base import ContainerKey, CpuKind, Request
from policies.topology_aware.score import MEANINGS, WHY_WORSE
from sysfs.cpuset import CpuSet, NodeSet

RESTORED = "restored"
_NOT_TRIED = "not tried"


def decision_view(record: DecisionRecord, held: ContainerView | None) -> DecisionView:
    """A decision, beside what the container holds now."""
    return DecisionView(
        request=record.request,
        outcome=record.outcome.value,
        container=held,
        decided_at_seconds=record.decided_at_seconds if record.outcome.value != RESTORED else None,
        duration_seconds=record.duration_seconds,
        reasons=record.reasons,
        ranking=tuple(_ranked(record.fields, record.ranking)),
        displaced=tuple(map(_displaced, record.displaced)),
        moved=tuple(str(moved.who) for moved in record.moved),
        problems=record.problems,
        fields=tuple(FieldView(name, MEANINGS.get(name, ""), WHY_WORSE.get(name, "")) for name in record.fields),
        pools_considered=record.pools_considered,
        displaced_count=record.displaced_count,
        moves=record.moved,
        defaults=record.defaults,
        company=tuple(reason.text for reason in record.company),
        without_effect=without_effect(record.request.origins),
        granted=record.granted,
        differences=differences(record.granted, held),
        failure=record.failure,
        history=record.history,
    )


def undecided_view(request: Request, held: ContainerView | None) -> DecisionView:
    """A container that holds something and of whose decision there is no record."""
    return DecisionView(request, RESTORED, held, None, 0.0, without_effect=without_effect(request.origins))


def refused_views(records: Iterable[DecisionRecord]) -> tuple[RefusedView, ...]:
    """Those that were refused or not created, in the order given."""
    views = []
    for record in records:
        who = named(record.request)
        views.append(RefusedView(who.namespace, who.pod, who.name, record.decided_at_seconds, outcome_text(record)))
    return tuple(views)


def differences(granted: Granted | None, held: ContainerView | None) -> tuple[str, ...]:
    """What is not as it was decided, a sentence each: the grant itself, then what follows from others' grants."""
    if granted is None or held is None:
        return ()
    return tuple(_differences(granted, held))


def _differences(granted: Granted, held: ContainerView) -> Iterator[str]:
    if granted.pool != held.pool:
        yield f"it is in {held.pool or 'no pool'}; {granted.pool or 'no pool'} was decided"
    for what, now, then in (
        ("exclusive CPUs", held.exclusive, granted.exclusive),
        ("isolated CPUs", held.isolated, granted.isolated),
    ):
        if now != then:
            yield f"its {what} are {_set(now)}; {_set(then)} were decided"
    cpus, mems = granted.pinning.cpus, granted.pinning.mems
    if cpus is not None and held.cpus is not None and _shared(held.cpus, held) != _shared(cpus, granted):
        now, then = _shared(held.cpus, held), _shared(cpus, granted)
        what = "reserved" if held.kind == CpuKind.RESERVED else "shared"
        yield f"the {what} CPUs that it may use are {_set(now)}; they were {_set(then)}"
    if mems is not None and held.mems is not None and held.mems != mems:
        yield f"its memory nodes are {held.mems}; they were {mems}"
    if granted.is_cold and not held.is_cold:
        yield "its cold start is over"


def _shared(cpus: CpuSet, owner: Granted | ContainerView) -> CpuSet:
    return cpus - owner.exclusive - owner.isolated


def _set(ids: CpuSet | NodeSet) -> str:
    return str(ids) or "none"


def _ranked(fields: Sequence[str], ranking: Sequence[RankedPool]) -> Iterator[RankedView]:
    chosen = next((row for row in ranking if row.outcome == CHOSEN), None)
    is_behind = False  # whether the chosen one has come by
    for row in ranking:
        is_behind = is_behind or row is chosen
        why = "" if chosen is None or row is chosen else _why_not(fields, row, chosen, is_behind=is_behind)
        yield RankedView(row.pool, tuple(zip(fields, row.values, strict=False)), row.outcome, why)


def _why_not(fields: Sequence[str], row: RankedPool, chosen: RankedPool, *, is_behind: bool) -> str:
    """Why this pool is not the chosen one, in words: its key is smaller, or it could not be had."""
    if not is_behind:
        return row.outcome if row.outcome != _NOT_TRIED else "ranks higher, but could not give what is asked"
    for field, value, better in zip(fields, row.values, chosen.values, strict=False):
        if value != better:
            return WHY_WORSE.get(field, f"has less {field}")
    return row.outcome


def _displaced(other: Displaced) -> DisplacedView:
    before, after = other.before, other.after
    return DisplacedView(
        other.who.namespace,
        other.who.pod,
        other.who.name,
        after.cpus,
        after.mems,
        cpus_before=before.cpus if before is not None else None,
        mems_before=before.mems if before is not None else None,
    )


def is_meant(key: ContainerKey, who: Named, pod: str, container: str | None) -> bool:
    """Whether these words name this container: the pod by name, NAMESPACE/NAME or uid.

    >>> key, who = ContainerKey("uid-1", "c0"), Named("shop", "web", "c0")
    >>> is_meant(key, who, "shop/web", None), is_meant(key, who, "uid-1", "c0"), is_meant(key, who, "web", "c1")
    (True, True, False)
    """
    return pod in (who.pod, f"{who.namespace}/{who.pod}", key.pod_uid) and container in (None, who.name)


def by_name(names: Mapping[ContainerKey, Named]) -> list[ContainerKey]:
    """By namespace, pod and container name; of one name by the pod's uid."""
    return sorted(names, key=lambda key: (names[key].namespace, names[key].pod, names[key].name, key.pod_uid))
