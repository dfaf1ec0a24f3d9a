from dataclasses import replace

import pytest

from cri_proxy.cli.render.plan import MOST_REFUSALS, plan_text
from cri_proxy.simulate.plan.result import PlanRefusal
from tests.unit.cri_proxy.simulate.plan.test_result import node, placed, result

PLAN = result(
    node(placed("web/c", "0")),
    refused=(
        PlanRefusal("Deployment big", "d/big-0", "", "", "no room"),
        PlanRefusal("Deployment big", "d/big-1", "", "", "no room"),
        PlanRefusal("Pod odd", "d/odd", "c", "node-1", "wanted 2 CPUs"),
    ),
)


def test_the_answer_comes_first_and_equal_refusals_are_one_line() -> None:
    text = plan_text([PLAN])
    assert "0 of 3 pods placed, 3 refused" in text
    assert "refused 2 pods of Deployment big: no room" in text
    assert "refused d/odd/c on node-1: wanted 2 CPUs" in text


def refused(count: int, node: str) -> tuple[PlanRefusal, ...]:
    return tuple(PlanRefusal(f"Pod d/{node}p{n}", f"d/{node}p{n}", "", node, "no room") for n in range(count))


@pytest.mark.parametrize(("on_nodes", "by_scheduler"), [(22, 0), (0, 22), (11, 11)])
def test_of_many_refusals_the_first_are_shown_and_the_others_counted(on_nodes: int, by_scheduler: int) -> None:
    refusals = refused(on_nodes, "node-1") + refused(by_scheduler, "")
    lines = plan_text([result(node(), refused=refusals)]).splitlines()
    assert sum(line.startswith("  refused ") for line in lines) == MOST_REFUSALS
    assert "  and 2 more; -o json has them all" in lines
    just = plan_text([result(node(), refused=refusals[:MOST_REFUSALS])])
    assert " more;" not in just


def test_the_map_has_a_letter_for_each_owner() -> None:
    lines = plan_text([PLAN]).splitlines()
    assert "A web/c" in lines
    assert any(line.startswith("package 0") and " A" in line for line in lines)


def test_of_two_plans_the_differences_come_first() -> None:
    other = replace(result(node(placed("web/c", "1"))), title="second")
    first, *rest = plan_text([replace(PLAN, title="first"), other]).splitlines()
    assert first.split() == ["differs", "first", "second"]
    assert rest[0].split()[:2] == ["pods", "refused"]
    assert plan_text([other, other]).startswith("no difference between second and second")


def test_the_orders_that_were_tried_are_told() -> None:
    assert "the worst of 3 orders; 0 to 3 pods are refused" in plan_text([replace(PLAN, worst_of=(0, 3, 1))])


def test_a_workload_has_its_containers_by_kind_and_how_many_cpus_they_own() -> None:
    lines = plan_text([result(node(placed("web/c", "0-1"), placed("web/d", "2"), placed("web/e", "")))]).splitlines()
    (row,) = [line for line in lines if line.startswith("Pod web ")]
    assert row.split(maxsplit=5)[2:] == ["3", "0", "1", "3 shared: 3 own CPUs"]
