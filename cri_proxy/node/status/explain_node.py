"""Build the answers of ``explain`` about a node: each record beside what its container holds, lacks and has lost.

Source of what makes a pod Guaranteed: kubernetes.io, "Pod Quality of Service Classes". Memory requests are estimates
from ``oom_score_adj``, in steps of a thousandth of the node's memory.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from cri_proxy.node.ledger.ledger import ACTIVE, Ledger
from cri_proxy.node.status import containers, explain
from cri_proxy.node.status.decision_views import Explanation, PoolHolderView
from cri_proxy.node.status.model import ContainerView, Unmet
from cri_proxy.node.status.remedies import narrower, remedies_of
from cri_proxy.state.decisions import CHOSEN, DecisionRecord, Outcome
from cri_proxy.state.rows import Row
from cri_proxy.steps import Steps
from policies.base import ContainerKey, CpuKind, PoolView, QosClass, Request
from policies.policy import Policy
from sysfs.quantity import bytes_text
from sysfs.text import numbered

MOST_IN_FULL: Final = 25
"""Explanations of one answer that have all of their parts: one has a dozen kilobytes, and a workload 500 pods."""
MOST_HELPED: Final = 2
"""Refused containers of one answer for which what would help is looked for: it takes a score of decisions each."""
HOLDERS_SHOWN: Final = 16
_ROUNDING_MCPU: Final = 2  # of cpu_shares
_ESTIMATE_STEPS: Final = 2
NOT_KNOWN: Final = (
    "none of the containers created so far: one that comes later does, or a memory request is below its limit"
)


@dataclass(frozen=True, slots=True)
class Explained:
    """The state that explanations are made of; ``ledger`` is a copy. ``records`` are those of the containers meant.

    ``admits``: ``onShortage`` is ``admit``.
    """

    ledger: Ledger
    moment: containers.Moment
    pools: Sequence[PoolView]
    records: Sequence[DecisionRecord]
    admits: bool = False


@dataclass(frozen=True, slots=True)
class _Others:
    """All containers that hold something, looked through once for an answer; ``owners`` have CPUs of their own."""

    rows: tuple[Row, ...]
    owners: tuple[Row, ...]
    by_pod: Mapping[str, Sequence[Row]]

    @classmethod
    def of(cls, state: Explained) -> "_Others":
        """Return those of this state."""
        rows = tuple(state.ledger.active())
        by_pod: dict[str, list[Row]] = {}
        for row in rows:
            by_pod.setdefault(row.key.pod_uid, []).append(row)
        return cls(rows, tuple(row for row in rows if row.grant.owned), by_pod)


def explanations(state: Explained) -> Steps[tuple[Explanation, ...]]:
    """Return an explanation of each record, in the same order; those of more than ``MOST_IN_FULL`` are brief."""
    explained = _explanation if len(state.records) <= MOST_IN_FULL else _brief
    found: list[Explanation] = []
    others = _Others.of(state)
    for record in state.records:
        yield
        found.append(explained(record, state, others))
    helped = 0
    for i, each in enumerate(found):
        if helped < MOST_HELPED and (_lacks_a_place(each) or _is_wide(each)):
            helped += 1
            found[i] = replace(each, helps=(yield from _helps(each, state)))
    return tuple(found)


def _helps(each: Explanation, state: Explained) -> Steps[tuple[str, ...]]:
    """Return what would give it a place, or a narrower one."""
    policy, held = state.ledger.policy, state.ledger.allocations
    if not _lacks_a_place(each):
        return (yield from narrower(policy, held, each.decision.key))
    may_admit = not state.admits and each.container is None
    return (yield from remedies_of(policy, held, each.decision, may_admit=may_admit))


def _is_wide(each: Explanation) -> bool:
    """Return whether its own CPUs are on several NUMA nodes, of which one has as many."""
    return each.container is not None and Unmet.CPUS_WIDER in each.container.unmet


def _lacks_a_place(each: Explanation) -> bool:
    """Return whether it was refused, or let in without a reservation."""
    refused = each.decision.outcome is Outcome.REFUSED and each.container is None
    return refused or (each.container is not None and each.container.is_overcommitted)


def _brief(record: DecisionRecord, state: Explained, others: _Others) -> Explanation:
    """Return what became of the container and what keeps it from CPUs of its own, without how it was decided."""
    row = _active(record, state)
    held = containers.container_view(row, state.moment) if row is not None else None
    short = replace(
        record,
        reasons=record.reasons[:1],
        ranking=(),
        displaced=(),
        moves=(),
        defaults=(),
        affinity_reasons=(),
        history=(),
    )
    return _with_conditions(explain.explanation(short, held), row, state.ledger.policy, others)


def _active(record: DecisionRecord, state: Explained) -> Row | None:
    row = state.ledger.get(record.key)
    return row if row is not None and row.state in ACTIVE else None


def _with_conditions(plain: Explanation, row: Row | None, policy: Policy, others: _Others) -> Explanation:
    conditions = policy.not_exclusive(row.grant) if row is not None else ()
    by_qos = any(condition.code == "qos" for condition in conditions)
    by = _of_pod(plain.decision.request, policy, others) if by_qos else ()
    return replace(plain, not_exclusive=conditions, not_guaranteed_by=by)


def _explanation(record: DecisionRecord, state: Explained, others: _Others) -> Explanation:
    row = _active(record, state)
    held = containers.container_view(row, state.moment) if row is not None else None
    plain = _with_conditions(explain.explanation(record, held), row, state.ledger.policy, others)
    wanted = _wanted_pool(record, state.pools)
    return replace(
        plain,
        differences=(*plain.differences, *_lost_to(record, held, others.owners)),
        wanted_pool=wanted.name if wanted is not None else "",
        holders=tuple(_holders(wanted, state.pools, others.rows, record.key)) if wanted is not None else (),
    )


def _of_pod(own: Request, policy: Policy, others: _Others) -> tuple[str, ...]:
    """Return what keeps the pod of this container from being Guaranteed, its own lacks first."""
    rows = others.by_pod.get(own.container.pod_uid, ())
    siblings = [row.grant.request for row in rows if row.key != own.container]
    memory_bytes = sum(node.memory_bytes for node in policy.machine.nodes)
    return not_guaranteed_by((own, *siblings), memory_bytes)


def _wanted_pool(record: DecisionRecord, pools: Sequence[PoolView]) -> PoolView | None:
    """Return the best pool that is large enough and had too little left; None where a better one was had."""
    by_name = {pool.name: pool for pool in pools}
    large = [r for r in record.ranking if r.pool in by_name and _is_large_enough(by_name[r.pool], record.request)]
    if record.outcome is Outcome.REFUSED:
        return by_name[large[0].pool] if large else next(iter(pools), None)
    chosen = next((by_name[r.pool] for r in large if r.outcome == CHOSEN), None)
    short = (by_name[r.pool] for r in large if r.outcome.startswith("too small"))
    return next((pool for pool in short if chosen is not None and pool.depth > chosen.depth), None)


def _is_large_enough(pool: PoolView, request: Request) -> bool:
    return 1000 * len(pool.cpus - pool.reserved) >= request.cpu_request_mcpu


def _holders(
    pool: PoolView, pools: Sequence[PoolView], rows: Sequence[Row], own: ContainerKey
) -> Iterator[PoolHolderView]:
    """Yield others that own CPUs of this pool or have time booked in it, the largest first."""
    inside = {each.name for each in pools if each.cpus <= pool.cpus}
    found = []
    for row in rows:
        grant = row.grant
        owned = grant.owned & pool.cpus
        mcpu = grant.shared_mcpu if grant.pool in inside and grant.kind != CpuKind.RESERVED else 0
        if (owned or mcpu) and row.key != own:
            name = row.name
            found.append(PoolHolderView(name.namespace, name.pod, name.name, owned, mcpu))
    found.sort(key=lambda each: (-1000 * len(each.cpus) - each.shared_mcpu, str(each)))
    yield from found[:HOLDERS_SHOWN]


def _lost_to(record: DecisionRecord, held: ContainerView | None, owners: Sequence[Row]) -> Iterator[str]:
    """Yield who owns the CPUs that it could use when it was placed and cannot now, a sentence each."""
    granted = record.granted
    if granted is None or held is None or granted.pinning.cpus is None or held.cpus is None:
        return
    lost = granted.pinning.cpus - held.cpus
    for row in owners if lost else ():
        taken = row.grant.owned & lost
        if taken and row.key != record.key:
            yield f"{numbered('CPU', taken)}: owned by {row.grant.request.full_name} now"


def not_guaranteed_by(containers: Iterable[Request], node_memory_bytes: int) -> tuple[str, ...]:
    """Return a sentence for each of a pod's containers without equal requests and limits, in this order.

    ``NOT_KNOWN`` alone where none of them lacks any.
    """
    named = ((each.container.name, tuple(_lacks(each, node_memory_bytes))) for each in containers)
    return tuple(f"{name} has {' and '.join(lacks)}" for name, lacks in named if lacks) or (NOT_KNOWN,)


def _lacks(request: Request, node_memory_bytes: int) -> Iterator[str]:
    cpu, memory = request.cpu_limit_mcpu, request.memory_limit_bytes
    if request.pod.qos is QosClass.BEST_EFFORT:
        yield "neither requests nor limits"
        return
    if cpu is None:
        yield "no CPU limit"
    elif cpu - request.cpu_request_mcpu > _ROUNDING_MCPU:
        yield f"a CPU request of {request.cpu_request_mcpu}m and a limit of {cpu}m"
    if memory is None:
        yield "no memory limit"
    elif node_memory_bytes and memory - request.memory_request_bytes > _ESTIMATE_STEPS * node_memory_bytes // 1000:
        yield f"a memory request below its limit of {bytes_text(memory)}"
