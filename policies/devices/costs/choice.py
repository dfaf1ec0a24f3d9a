"""Select the cheapest set of a request: greedy walk, annealing, exact search, and what the set's cost is made of."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction

from policies.devices.costs.anneal import WALK_STEPS, anneal
from policies.devices.costs.exact import SEARCH_STEPS, Clock, ExactSearch, Found
from policies.devices.costs.graph import CostGraph, Missing, build_graph, known_groups
from policies.devices.costs.model import CostValue, name_order, type_of
from policies.devices.costs.request import CannotSelect, SetRequest
from policies.devices.costs.table import CostTable, Group

# Most requests of a node are proved within these steps, before annealing takes its constant time.
SHORT_STEPS = 4_000


class SelectMethod(StrEnum):
    """How a set is found. AUTO: the exact search within its budget, from the best of the other two."""

    AUTO = "auto"
    GREEDY = "greedy"
    ANNEAL = "anneal"
    EXACT = "exact"


@dataclass(frozen=True, slots=True)
class SelectOptions:
    """How to select. ``steps`` is the budget of the exact search, None = no end; ``seed`` is that of the annealing.

    ``walk_steps`` is how long the annealing is.
    """

    method: SelectMethod = SelectMethod.AUTO
    missing: Missing = Missing.ZERO
    seed: int = 0
    steps: int | None = SEARCH_STEPS
    walk_steps: int = WALK_STEPS


@dataclass(frozen=True, slots=True)
class CostTerm:
    """The cost of the pairs of a set between two types, or within one, together."""

    types: tuple[str, str]
    pairs: int
    cost: CostValue


@dataclass(frozen=True, slots=True)
class Selection:
    """A set in ascending order and its cost. ``is_optimal``: no cheaper set exists, which is proved.

    ``method`` is the one that found the set. ``silent`` are members that say nothing about costs while other free
    instances of their type do, and may have been chosen for that.
    """

    names: tuple[str, ...]
    cost: CostValue
    method: SelectMethod
    is_optimal: bool
    greedy_cost: CostValue
    terms: tuple[CostTerm, ...] = ()
    silent: tuple[str, ...] = ()
    steps: int = 0


def select(
    table: CostTable, wanted: SetRequest, options: SelectOptions | None = None, is_over: Clock | None = None
) -> Selection | CannotSelect:
    """Return the set that the method finds, or why there is none.

    The same arguments give the same set, unless ``is_over``, which the exact search asks now and then, ends it early.
    """
    options = options or SelectOptions()
    graph = build_graph(table, wanted, options.missing)
    if isinstance(graph, CannotSelect):
        return graph
    found = select_in(graph, options, is_over)
    return replace(found, silent=_silent(table, wanted, found.names, options.missing))


def select_in(graph: CostGraph, options: SelectOptions, is_over: Clock | None = None) -> Selection:
    """Return the set that the method finds in this graph, of which ``missing`` is a part already; no ``silent``."""
    first = _greedy(graph)
    method, found = _search(graph, first, options, is_over)
    cost, greedy_cost = (_value(each, graph) for each in (found.cost, graph.cost(first)))
    names, terms = graph.members(found.counts), tuple(_terms(graph, found.counts))
    # Costs are never negative: no set is cheaper than one that costs nothing.
    return Selection(names, cost, method, found.is_proved or not found.cost, greedy_cost, terms, steps=found.steps)


def cheapest_of(table: CostTable, kind: str, names: Sequence[str], must: frozenset[str], size: int) -> tuple[str, ...]:
    """Return the cheapest set of instances of a type, of those with these names; empty where there is none.

    One that the table lacks costs nothing, as one that reports nothing.
    """
    known = {name for group in table.groups for name in group.members}
    lacking = tuple(sorted({*names} - known, key=name_order))
    if lacking:
        table = CostTable((*table.groups, Group(kind, lacking)), (*table.costs, {}), table.scale)
    # Instances that are not among the names are as good as taken.
    answer = select(table, SetRequest({kind: size}, frozenset(known.difference(names)), must))
    return () if isinstance(answer, CannotSelect) else answer.names


def _search(
    graph: CostGraph, first: list[int], options: SelectOptions, is_over: Clock | None
) -> tuple[SelectMethod, Found]:
    """Return the set of the method, and which one found it; the greedy set, ``first``, is where the others begin."""
    if options.method is SelectMethod.GREEDY:
        return options.method, Found(tuple(first), graph.cost(first))
    if options.method is SelectMethod.ANNEAL:
        walked = anneal(graph, first, options.seed, options.walk_steps)
        return options.method, Found(tuple(walked), graph.cost(walked))
    search = ExactSearch(graph, first)
    found = search.run(SHORT_STEPS if options.steps is None else min(SHORT_STEPS, options.steps), is_over)
    if found.is_proved:
        return SelectMethod.EXACT, found
    walked = anneal(graph, first, options.seed, options.walk_steps)
    search.offer(walked)
    found = search.run(options.steps, is_over)
    if options.method is SelectMethod.EXACT or found.is_proved:
        return SelectMethod.EXACT, found
    if graph.cost(first) == found.cost:
        return SelectMethod.GREEDY, found
    return SelectMethod.ANNEAL if graph.cost(walked) == found.cost else SelectMethod.EXACT, found


def _greedy(graph: CostGraph) -> list[int]:
    """Return the first set: from the most constrained layer on, each step adds what costs least to all that is chosen.

    Ties go to the first vertex. Instances that must be in the set are chosen before the walk.
    """
    counts = [vertex.must for vertex in graph.vertices]
    links = graph.links_to(counts)
    for layer in graph.layers:
        for _ in range(layer.count - sum(counts[v] for v in layer.vertices)):
            open_vertices = (v for v in layer.vertices if counts[v] < len(graph.vertices[v].members))
            chosen = min(open_vertices, key=links.__getitem__)
            counts[chosen] += 1
            links = [link + cost for link, cost in zip(links, graph.pair[chosen], strict=True)]
    return counts


def _terms(graph: CostGraph, counts: Sequence[int]) -> Iterator[CostTerm]:
    """Yield the terms of a set, those of the first layer first."""
    for k, layer in enumerate(graph.layers):
        for other in graph.layers[k:]:
            is_same = other is layer  # where each pair is met from both sides
            pairs = layer.count * (other.count - is_same) // (1 + is_same)
            taken = [v for v in layer.vertices if counts[v]]
            cost = sum(counts[v] * (counts[w] - (v == w)) * graph.pair[v][w] for v in taken for w in other.vertices)
            if pairs:
                yield CostTerm((layer.kind, other.kind), pairs, _value(cost // (1 + is_same), graph))


def _silent(table: CostTable, wanted: SetRequest, names: Sequence[str], missing: Missing) -> tuple[str, ...]:
    """Return the members of a set without any known cost, of types of which another free instance has one."""
    known = known_groups(table, missing)
    reporting = {table.groups[i].kind for i in known if any(m not in wanted.busy for m in table.groups[i].members)}
    silent = {name for i, group in enumerate(table.groups) if i not in known for name in group.members}
    return tuple(name for name in names if name in silent and type_of(name) in reporting)


def _value(cost: int, graph: CostGraph) -> CostValue:
    value = Fraction(cost, graph.scale)
    return value.numerator if value.denominator == 1 else value
