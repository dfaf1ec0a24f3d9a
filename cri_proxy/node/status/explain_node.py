"""Build the answers of ``explain`` about a node: each record beside what its container holds, lacks and has lost.

Source of what makes a pod Guaranteed: kubernetes.io, "Pod Quality of Service Classes". Memory requests are estimates
from ``oom_score_adj``, in steps of a thousandth of the node's memory.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from cri_proxy.node.ledger.ledger import ACTIVE, Ledger
from cri_proxy.node.status import containers, explain, model
from cri_proxy.node.status.remedies import remedies
from cri_proxy.state.decisions import CHOSEN, DecisionRecord, Granted, Outcome
from cri_proxy.state.rows import Row
from cri_proxy.steps import Steps
from policies.base import CpuKind, PoolView, QosClass, Request
from sysfs.cpuset import CpuSet
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
    """The state that explanations are made of; ``ledger`` is a copy. ``records`` are those of the containers meant."""

    ledger: Ledger
    moment: containers.Moment
    pools: Sequence[PoolView]
    records: Sequence[DecisionRecord]


def explanations(state: Explained) -> Steps[tuple[model.Explanation, ...]]:
    """Return an explanation of each record, in the same order; those of more than ``MOST_IN_FULL`` are brief."""
    explained = _explanation if len(state.records) <= MOST_IN_FULL else _brief
    found: list[model.Explanation] = []
    for record in state.records:
        yield
        found.append(explained(record, state))
    helped = 0
    for i, each in enumerate(found):
        if helped < MOST_HELPED and _lacks_a_place(each):
            helped += 1
            policy, held = state.ledger.policy, state.ledger.allocations
            helps = yield from remedies(policy, held, each.decision.request)
            found[i] = replace(each, helps=helps)
    return tuple(found)


def _lacks_a_place(each: model.Explanation) -> bool:
    """Return whether it was refused, or let in without a reservation."""
    refused = each.decision.outcome is Outcome.REFUSED and each.container is None
    return refused or (each.container is not None and each.container.is_overcommitted)


def _brief(record: DecisionRecord, state: Explained) -> model.Explanation:
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
    return _with_conditions(explain.explanation(short, held), row, state)


def _active(record: DecisionRecord, state: Explained) -> Row | None:
    row = state.ledger.get(record.key)
    return row if row is not None and row.state in ACTIVE else None


def _with_conditions(plain: model.Explanation, row: Row | None, state: Explained) -> model.Explanation:
    conditions = state.ledger.policy.not_exclusive(row.grant) if row is not None else ()
    by_qos = any(condition.code == "qos" for condition in conditions)
    by = _of_pod(plain.decision.request, state) if by_qos else ()
    return replace(plain, not_exclusive=conditions, not_guaranteed_by=by)


def _explanation(record: DecisionRecord, state: Explained) -> model.Explanation:
    row = _active(record, state)
    held = containers.container_view(row, state.moment) if row is not None else None
    plain = _with_conditions(explain.explanation(record, held), row, state)
    grants = [other.grant for other in state.ledger.active() if row is None or other.key != row.key]
    owners = {str(grant.request.full_name): grant.owned for grant in grants if grant.owned}
    wanted = _wanted_pool(record, state.pools)
    return replace(
        plain,
        differences=(*plain.differences, *_lost_to(record.granted, held, owners)),
        wanted_pool=wanted.name if wanted is not None else "",
        holders=tuple(_holders(wanted, state, row)) if wanted is not None else (),
    )


def _of_pod(own: Request, state: Explained) -> tuple[str, ...]:
    """Return what keeps the pod of this container from being Guaranteed, its own lacks first."""
    rows = state.ledger.of_pod(own.container.pod_uid)
    others = [row.grant.request for row in rows if row.key != own.container]
    memory_bytes = sum(node.memory_bytes for node in state.ledger.policy.machine.nodes)
    return not_guaranteed_by((own, *others), memory_bytes)


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


def _holders(pool: PoolView, state: Explained, own: Row | None) -> Iterator[model.PoolHolderView]:
    """Yield others that own CPUs of this pool or have time booked in it, the largest first."""
    inside = {each.name for each in state.pools if each.cpus <= pool.cpus}
    found = []
    for row in state.ledger.active():
        grant = row.grant
        owned = grant.owned & pool.cpus
        mcpu = grant.shared_mcpu if grant.pool in inside and grant.kind != CpuKind.RESERVED else 0
        if (owned or mcpu) and (own is None or row.key != own.key):
            name = row.name
            found.append(model.PoolHolderView(name.namespace, name.pod, name.name, owned, mcpu))
    found.sort(key=lambda each: (-1000 * len(each.cpus) - each.shared_mcpu, str(each)))
    yield from found[:HOLDERS_SHOWN]


def _lost_to(granted: Granted | None, held: model.ContainerView | None, owners: Mapping[str, CpuSet]) -> Iterator[str]:
    """Yield who owns the CPUs that it could use when it was placed and cannot now, a sentence each."""
    if granted is None or held is None or granted.pinning.cpus is None or held.cpus is None:
        return
    lost = granted.pinning.cpus - held.cpus
    for name, owned in owners.items():
        if taken := owned & lost:
            yield f"{numbered('CPU', taken)}: owned by {name} now"


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
