from fractions import Fraction

import pytest

from cri_proxy.cli.render.select import SelectAnswer, cost_number, select_text
from policies.devices.costs import CostTerm, Selection, SelectMethod


def answer(method: SelectMethod = SelectMethod.EXACT, *, optimal: bool = True, steps: int = 9) -> SelectAnswer:
    terms = (CostTerm(("cpu", "cpu"), 1, 0), CostTerm(("cpu", "a/b"), 2, 30))
    names = ("a/b/x", "cpu/cpu0", "cpu/cpu1")
    selection = Selection(names, 30, method, optimal, 35, terms, (), steps)
    return SelectAnswer(selection, ("mind the gap",), 50, 1.25)


def test_the_set_by_type_its_terms_and_the_greedy_walk_are_shown() -> None:
    assert select_text(answer()).splitlines() == [
        "cost 30, proved to be the lowest",
        "  a/b  1  x",
        "  cpu  2  cpu0-1",
        "",
        "costs",
        "  among cpu    1 pair   0",
        "  cpu and a/b  2 pairs  30",
        "",
        "greedy walk alone: 35, 5 more",
        "found by: exact, 9 steps of the exact search, 1.2 ms",
        "",
        "warning: mind the gap",
    ]


def test_a_single_step_is_a_step() -> None:
    assert "found by: exact, 1 step of the exact search, 1.2 ms" in select_text(answer(steps=1)).splitlines()


@pytest.mark.parametrize(
    ("shown", "proof"),
    [
        (
            answer(SelectMethod.ANNEAL, optimal=False),
            "not proved to be the lowest in 50 ms; --budget-ms allows it longer",
        ),
        (answer(SelectMethod.GREEDY, optimal=False, steps=0), "not proved to be the lowest (found by --method greedy)"),
    ],
)
def test_what_is_not_proved_is_said(shown: SelectAnswer, proof: str) -> None:
    assert select_text(shown).splitlines()[0] == f"cost 30, {proof}"


def test_a_whole_cost_is_a_whole_number() -> None:
    assert (cost_number(10), cost_number(Fraction(1, 3))) == (10, 0.333333)
