"""Build ``explain`` answers (a decision, and what differs now) and ``status`` refusals; match pods by name. Pure."""

from collections.abc import Iterable, Iterator, Mapping

from cri_proxy.cri.annotations.read import without_effect
from cri_proxy.node.decision_log.summary import outcome_text
from cri_proxy.node.status.model import ContainerView, Explanation, FieldView, RefusedView
from cri_proxy.state.decisions import ContainerName, DecisionRecord, Granted, name_of
from policies.base import ContainerKey, CpuKind
from policies.topology_aware.score import MEANINGS, WHY_WORSE


def explanation(record: DecisionRecord, held: ContainerView | None) -> Explanation:
    """Return a decision beside what the container holds now."""
    names = [name for name, _ in record.ranking[0].key] if record.ranking else []
    return Explanation(
        record,
        held,
        tuple(differences(record.granted, held)),
        without_effect(record.request.origins),
        tuple(FieldView(name, MEANINGS.get(name, ""), WHY_WORSE.get(name, "")) for name in names),
        tuple(str(move.who) for move in record.moves),
    )


def refused_views(records: Iterable[DecisionRecord]) -> tuple[RefusedView, ...]:
    """Return what status shows of containers that were refused or not created, in the order given."""
    named = ((name_of(record.request), record) for record in records)
    return tuple(RefusedView(n.namespace, n.pod, n.name, r.at_seconds, outcome_text(r)) for n, r in named)


def differences(granted: Granted | None, held: ContainerView | None) -> Iterator[str]:
    """Yield what is not as it was decided, a sentence each: the grant itself, then what follows from other grants."""
    if granted is None or held is None:
        return
    if granted.pool != held.pool:
        yield f"it is in {held.pool or 'no pool'}; {granted.pool or 'no pool'} was decided"
    for what, now, then in (
        ("exclusive CPUs", held.exclusive, granted.exclusive),
        ("isolated CPUs", held.isolated, granted.isolated),
    ):
        if now != then:
            yield f"its {what} are {now or 'none'}; {then or 'none'} were decided"
    cpus, mems = granted.pinning.cpus, granted.pinning.mems
    if cpus is not None and held.cpus is not None:
        now, then = (c - owner.exclusive - owner.isolated for c, owner in ((held.cpus, held), (cpus, granted)))
        if now != then:
            what = "reserved" if held.kind == CpuKind.RESERVED else "shared"
            yield f"the {what} CPUs that it may use are {now or 'none'}; they were {then or 'none'}"
    if mems is not None and held.mems is not None and held.mems != mems:
        yield f"its memory nodes are {held.mems}; they were {mems}"
    if granted.is_cold and not held.is_cold:
        yield "its cold start is over"


def is_meant(key: ContainerKey, name: ContainerName, pod: str, container: str | None) -> bool:
    """Return whether these words mean this container: the pod by name, NAMESPACE/NAME or uid.

    >>> key, name = ContainerKey("uid-1", "c0"), ContainerName("shop", "web", "c0")
    >>> is_meant(key, name, "shop/web", None), is_meant(key, name, "uid-1", "c0"), is_meant(key, name, "web", "c1")
    (True, True, False)
    """
    return pod in (name.pod, f"{name.namespace}/{name.pod}", key.pod_uid) and container in (None, name.name)


def by_name(names: Mapping[ContainerKey, ContainerName]) -> list[ContainerKey]:
    """Return the keys by namespace, pod and container name; of one name by the pod's uid."""
    return sorted(names, key=lambda key: (names[key].namespace, names[key].pod, names[key].name, key.pod_uid))
