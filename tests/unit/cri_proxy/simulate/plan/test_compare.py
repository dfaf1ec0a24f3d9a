from dataclasses import replace

from cri_proxy.simulate.plan.compare import Difference, comparison, differences
from cri_proxy.simulate.plan.result import PlanRefusal, PlanResult
from tests.unit.cri_proxy.simulate.plan.test_result import node, placed, result

ONE = result(node(placed("a/c", "0"), placed("b/c", "1")))


def test_equal_plans_do_not_differ() -> None:
    assert differences(ONE, replace(ONE, title="other")) == ()


def test_figures_come_first_then_refusals_then_places() -> None:
    refusal = PlanRefusal("Pod b", "d/b", "c", "node-1", "full")
    other: PlanResult = result(node(placed("a/c", "2", "1"), fit=2), refused=(refusal,))
    assert differences(ONE, other) == (
        Difference("pods refused", "0", "1"),
        Difference("CPUs of the largest container that still fits", "1", "2"),
        Difference("d/b/c", "", "refused: full"),
        Difference("a/c", "node-1: CPUs 0, node 0, package 0", "node-1: CPUs 2, node 1, package 1"),
        Difference("b/c", "node-1: CPUs 1, node 0, package 0", ""),
    )


def test_the_json_has_what_differs_and_both_plans() -> None:
    value = comparison(ONE, ONE)
    assert (value["differs"], value["plans"]) == ([], [ONE.json_value(), ONE.json_value()])
