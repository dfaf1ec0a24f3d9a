"""Build ``explain`` answers and ``status`` refusals from records of decisions. Pure."""

from collections.abc import Iterable, Iterator

from cri_proxy.cri.annotations.read import without_effect
from cri_proxy.node.decision_log.summary import outcome_text
from cri_proxy.node.status.decision_views import Explanation, FieldView
from cri_proxy.node.status.model import ContainerView, RefusedView
from cri_proxy.node.status.workload import workload_of
from cri_proxy.state.decisions import DecisionRecord, Granted
from policies.base import CpuKind
from policies.topology_aware import MEANINGS, WHY_WORSE


def explanation(record: DecisionRecord, held: ContainerView | None) -> Explanation:
    """Return a decision beside what the container holds now."""
    names = [name for name, _ in record.ranking[0].key] if record.ranking else []
    workload = workload_of(record.request.pod.name, record.request.pod.labels)
    return Explanation(
        record,
        held,
        tuple(differences(record.granted, held)),
        without_effect(record.request.origins),
        tuple(FieldView(name, MEANINGS.get(name, ""), WHY_WORSE.get(name, "")) for name in names),
        tuple(str(move.who) for move in record.moves),
        workload=workload.name,
        workload_kind=workload.kind,
    )


def refused_views(records: Iterable[DecisionRecord]) -> tuple[RefusedView, ...]:
    """Return the views of containers that were refused or not created, in the order given."""
    return tuple(map(_refused_view, records))


def _refused_view(record: DecisionRecord) -> RefusedView:
    name, pod = record.request.full_name, record.request.pod
    workload = workload_of(pod.name, pod.labels).name
    return RefusedView(name.namespace, name.pod, name.name, record.at_seconds, outcome_text(record), workload)


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
    if held.shares_pod_cpus:
        yield "its CPUs are its pod's, shared by its containers"
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
