"""Render a selected set as text: the set by type, what its cost is made of, how far the greedy walk is."""

from dataclasses import dataclass
from fractions import Fraction

from cri_proxy.cli.render.amounts import instances_text
from cri_proxy.cli.render.columns import WIDTH, Cells, column_widths, layout, paragraph
from policies.devices.costs import CostValue, Selection, SelectMethod, type_of
from sysfs.text import plural


@dataclass(frozen=True, slots=True)
class SelectAnswer:
    """The answer of ``cri-proxy select`` to one document."""

    selection: Selection
    warnings: tuple[str, ...]
    budget_ms: int
    elapsed_ms: float


def cost_number(cost: CostValue) -> int | float:
    """Return a cost as JSON has it.

    >>> cost_number(10), cost_number(Fraction(100, 3))
    (10, 33.333333)
    """
    return round(float(cost), 6) if isinstance(cost, Fraction) else cost


def select_text(answer: SelectAnswer) -> str:
    """Return the answer for people."""
    selection = answer.selection
    by_type: dict[str, list[str]] = {}
    for name in selection.names:
        by_type.setdefault(type_of(name), []).append(name)
    members = [
        Cells((kind, str(len(names)), instances_text(kind, names)), lead="  ", rest="  ")
        for kind, names in by_type.items()
    ]
    terms = [
        Cells((_between(*term.types), plural(term.pairs, "pair"), str(cost_number(term.cost))), lead="  ", rest="  ")
        for term in selection.terms
    ]
    lines = [f"cost {cost_number(selection.cost)}, {_proof(answer)}", *_table(members)]
    if terms:
        lines += ["", "costs", *_table(terms)]
    lines += ["", *_found(answer)]
    for warning in answer.warnings:
        lines += ["", *paragraph(warning, "  ", first="warning: ")]
    return "\n".join(lines)


def _table(rows: list[Cells]) -> list[str]:
    return layout(rows, column_widths(rows, (40, 12, 20), flexible=2, total=WIDTH))


def _between(first: str, second: str) -> str:
    return f"among {first}" if first == second else f"{first} and {second}"


def _proof(answer: SelectAnswer) -> str:
    if answer.selection.is_optimal:
        return "proved to be the lowest"
    if answer.selection.method in (SelectMethod.GREEDY, SelectMethod.ANNEAL) and not answer.selection.steps:
        return f"not proved to be the lowest (found by --method {answer.selection.method})"
    return f"not proved to be the lowest in {answer.budget_ms} ms; --budget-ms allows it longer"


def _found(answer: SelectAnswer) -> list[str]:
    """Return how the set was found. Not wrapped, so that times of other lengths break no line elsewhere."""
    selection = answer.selection
    more = selection.greedy_cost - selection.cost
    count = selection.steps
    steps = f"{count} {'step' if count == 1 else 'steps'} of the exact search, " if count else ""
    return [
        f"greedy walk alone: {cost_number(selection.greedy_cost)}" + (f", {cost_number(more)} more" if more else ""),
        f"found by: {selection.method}, {steps}{answer.elapsed_ms:.1f} ms",
    ]
