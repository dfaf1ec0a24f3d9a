"""Find what would give a container a place, or a narrower one: dry decisions with other wishes, or without others.

Every sentence is the outcome of a decision by the node's policy on the present grants; nothing is changed.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from cri_proxy.cri.annotations.table import TABLE
from cri_proxy.state.decisions import DecisionRecord, Outcome
from cri_proxy.steps import Steps
from policies.alignment import TopologyPolicy
from policies.base import Allocations, ContainerKey, Decision, Grant, Placed, QosClass, Request
from policies.policy import Policy
from policies.preferences import Preferences
from sysfs.cpuset import CpuSet
from sysfs.text import numbered, plural

_CPU_STEP_MCPU: Final = 100
_RELAXED: Final[tuple[tuple[str, str, Callable[[Preferences], Preferences]], ...]] = (
    ("require_isolated", "false", lambda asked: replace(asked, require_isolated=False)),
    ("strict_threads", "false", lambda asked: replace(asked, strict_threads=False)),
    ("single_node", "false", lambda asked: replace(asked, single_node=False)),
    ("strict_locality", "false", lambda asked: replace(asked, strict_locality=False)),
    ("strict_memory", "false", lambda asked: replace(asked, strict_memory=False)),
    ("strict_huge_pages", "false", lambda asked: replace(asked, strict_huge_pages=False)),
    ("topology_policy", "none", lambda asked: replace(asked, topology_policy=TopologyPolicy.NONE)),
)
"""Strict wishes: the field, and how its annotation gives it up; an option may have set it."""


NOT_BY_POLICY: Final = frozenset({"annotation", "cdi", "store", "update", "not-ready"})
"""Kinds of ``coordinator.Refusal`` that come before or after the policy: no other place would help."""


def remedies_of(
    policy: Policy, held: Allocations, record: DecisionRecord, *, may_admit: bool
) -> Steps[tuple[str, ...]]:
    """Return sentences: what would give the container of this record a place; ``may_admit`` as for ``remedies``.

    Of a refusal that was not the policy's only an annotation that could not be read can be mended here.
    """
    reason = record.reasons[0] if record.outcome is Outcome.REFUSED and record.reasons else None
    if reason is None or reason.code not in NOT_BY_POLICY:
        return (yield from remedies(policy, held, record.request, may_admit=may_admit))
    if reason.code != "annotation":
        return ()
    decision = policy.decide(held.without(record.key), record.request)
    yield
    placed = f"it would be placed{_where(decision)}" if isinstance(decision, Placed) else "there would be no place yet"
    return (f"without the annotation that cannot be read {placed}: {reason.text}",)


def remedies(policy: Policy, held: Allocations, request: Request, *, may_admit: bool = True) -> Steps[tuple[str, ...]]:
    """Return sentences: changes that would place this container as it asks; a decision a step.

    Only that it would be placed where it would be now. ``held`` may have its grant. ``may_admit``: the option
    ``onShortage`` can be changed in its favour.
    """
    others = held.without(request.container)
    refused = policy.decide(others, request)
    yield
    if isinstance(refused, Placed):
        return (f"created now, it would be placed{_where(refused)}",)
    found: list[str] = []
    for field, written, relaxed in _RELAXED:
        changed = replace(request, preferences=relaxed(request.preferences))
        if changed == request:
            continue
        decision = policy.decide(others, changed)
        yield
        if isinstance(decision, Placed):
            found.append(f"with {_key_of(field)}: {written} it would be placed{_where(decision)}")
    found += yield from _smaller(policy, others, request)
    found += yield from _without_another(policy, others, request)
    if not may_admit:
        return tuple(found)
    let_in = policy.overcommitted(others, request, refused)
    if isinstance(let_in, Placed):
        found.append(f"with onShortage: admit it would share{_where(let_in)} without a reservation")
    return tuple(found)


def narrower(policy: Policy, held: Allocations, container: ContainerKey) -> Steps[tuple[str, ...]]:
    """Return sentences: what would bring a container's own CPUs onto fewer NUMA nodes; a decision a step.

    Being created again, as CPUs that are owned stay; else a smaller request, or the absence of another container.
    """
    grant, others = held.get(container), held.without(container)
    if grant is None:
        return ()
    request, now = replace(grant.request, previous=None), _nodes(policy, grant.owned)

    def is_narrower(decision: Decision) -> bool:
        return isinstance(decision, Placed) and 0 < _nodes(policy, decision.grant.owned) < now

    again = policy.decide(others, request)
    yield
    if isinstance(again, Placed) and is_narrower(again):
        return (f"created again now, its own CPUs would be {again.grant.owned}{_where(again)}",)
    smaller = yield from _smaller(policy, others, request, is_narrower)
    without = yield from _without_another(policy, others, request, is_narrower)
    return (*smaller, *without)


def _nodes(policy: Policy, cpus: CpuSet) -> int:
    return sum(not node.cpus.isdisjoint(cpus) for node in policy.machine.nodes)


def _is_placed(decision: Decision) -> bool:
    return isinstance(decision, Placed)


def _smaller(
    policy: Policy, held: Allocations, request: Request, is_good: Callable[[Decision], bool] = _is_placed
) -> Steps[list[str]]:
    """Find the largest smaller CPU request that has a good place, by halves."""
    step = 1000 if request.pod.qos is QosClass.GUARANTEED and request.cpu_request_mcpu >= 1000 else _CPU_STEP_MCPU
    low, high, best = 0, -(-request.cpu_request_mcpu // step), None
    while high - low > 1:
        middle = (low + high) // 2
        decision = policy.decide(held, _asking(request, middle * step))
        yield
        if is_good(decision):
            low, best = middle, decision
        else:
            high = middle
    if best is None:
        return []
    amount = plural(low, "CPU") if step == 1000 else f"{low * step}m"
    return [f"with a request of {amount} it would be placed{_where(best)}"]


def _asking(request: Request, mcpu: int) -> Request:
    limit = mcpu if request.pod.qos is QosClass.GUARANTEED else request.cpu_limit_mcpu
    return replace(request, cpu_request_mcpu=mcpu, cpu_limit_mcpu=limit, pod_totals=None)


def _without_another(
    policy: Policy, held: Allocations, request: Request, is_good: Callable[[Decision], bool] = _is_placed
) -> Steps[list[str]]:
    """Find a container without which there is a good place, as small a one as halving finds among those by size."""
    others = _by_size(held.grants)
    low, high, best = -1, len(others), None
    tried = high - 1  # the largest first: where it leaves too little, so do the others
    while high - low > 1:
        decision = policy.decide(held.without(others[tried].container), request)
        yield
        if is_good(decision):
            high, best = tried, decision
        elif best is None:
            return []
        else:
            low = tried
        tried = (low + high) // 2
    if best is None:
        return []
    return [f"without {others[high].request.full_name} ({_amounts(others[high])}) it would be placed{_where(best)}"]


def _by_size(grants: Sequence[Grant]) -> list[Grant]:
    """Return those that hold CPUs, the smallest first."""
    having = [grant for grant in grants if grant.owned or grant.shared_mcpu]
    return sorted(having, key=lambda grant: (1000 * len(grant.owned) + grant.shared_mcpu, grant.container))


def _amounts(grant: Grant) -> str:
    owned = [f"{numbered('CPU', grant.owned)}"] if grant.owned else []
    shared = [f"{grant.shared_mcpu}m shared"] if grant.shared_mcpu else []
    return " and ".join(owned + shared)


def _where(decision: Decision) -> str:
    grant = decision.grant if isinstance(decision, Placed) else None
    return f" in {grant.pool}" if grant is not None and grant.pool else ""


def _key_of(field: str) -> str:
    """Return the annotation of this field of the preferences, without its domain."""
    return next((row.key for row in TABLE if field in row.fields), field)
