"""Compare two plans: what differs, the figures first, then refusals, then the places of owners of CPUs. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cri_proxy.codec import encode
from cri_proxy.simulate.plan.result import PlanResult


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between two plans: a figure, or a container with its place, '' where it has none."""

    what: str
    first: str
    second: str


def differences(first: PlanResult, second: PlanResult) -> tuple[Difference, ...]:
    """Return what differs: figures, then refusals, then containers with CPUs of their own, in the first one's order."""
    pairs = zip(_figures(first), _figures(second), strict=True)
    found = [Difference(what, str(one), str(two)) for (what, one), (_, two) in pairs if one != two]
    for one, two in ((_refusals(first), _refusals(second)), (_owners(first), _owners(second))):
        named = ((name, one.get(name, ""), two.get(name, "")) for name in dict.fromkeys((*one, *two)))
        found += [Difference(*each) for each in named if each[1] != each[2]]
    return tuple(found)


def comparison(first: PlanResult, second: PlanResult) -> dict[str, object]:
    """Return the value of ``simulate -o json`` of two plans (docs/reference/planning.md, Answers)."""
    plans = [first.json_value(), second.json_value()]
    return {"differs": [encode(each) for each in differences(first, second)], "plans": plans}


def _figures(plan: PlanResult) -> Iterator[tuple[str, int]]:
    yield "pods refused", plan.refused_pods
    yield "containers that own CPUs of several packages", plan.spans["packages"]
    yield "containers that own CPUs of several NUMA nodes", plan.spans["nodes"]
    yield "containers that own CPUs and have far memory", plan.far_memory
    yield "containers moved", plan.moves
    yield "CPUs of the largest container that still fits", plan.largest_fit


def _refusals(plan: PlanResult) -> Mapping[str, str]:
    return {refusal.name: f"refused: {refusal.reason}" for refusal in plan.refused}


def _owners(plan: PlanResult) -> Mapping[str, str]:
    return {c.name: f"{node.name}: {c.place}" for node, c in plan.containers() if c.owns_cpus}
