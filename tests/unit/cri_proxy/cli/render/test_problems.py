from dataclasses import replace

from cri_proxy.cli.render.problems import NotAsAsked, problems_of, render_problems
from cri_proxy.node.status.model import RefusedView, Unmet
from tests.fakes.views import container, status_view

WIDE = {"unmet": (Unmet.CPUS_WIDER.value,), "workload": "web"}


def test_a_status_has_the_containers_with_something_amiss_and_the_refused() -> None:
    view = replace(
        status_view(),
        containers=(container("c0", "shared", "1"), container("c1", "exclusive", "2-3", **WIDE)),
        refused=(RefusedView("shop", "big", "c", 1.0, "refused: too large"),),
    )
    wide = NotAsAsked("default", "web", "c1", "web", ("its own CPUs are on several NUMA nodes",))
    assert problems_of(view) == [wide, NotAsAsked("shop", "big", "c", "big", ("refused: too large",), is_refused=True)]
    assert problems_of(view, "default") == [wide]


def test_a_note_stands_for_its_code() -> None:
    short = container("c1", "shared", "1", unmet=(Unmet.OVERCOMMITTED.value,), notes=("overcommitted: no 2000m",))
    (found,) = problems_of(replace(status_view(), containers=(short,)))
    assert found.problems == ("overcommitted: no 2000m",)


def test_the_same_of_a_workload_is_told_once() -> None:
    problems = [NotAsAsked("shop", f"web-{i}", "c", "web", ("it is wide",)) for i in range(6)]
    assert render_problems(problems, colours=False, width=80).splitlines() == [
        "shop/web/c in 6 pods",
        "  ! it is wide",
        "    pods: web-0, web-1, web-2, web-3 and 2 more",
    ]
    assert render_problems(problems[:1], colours=False, width=80) == "shop/web-0/c\n  ! it is wide"


def test_refused_replicas_are_one_group_and_those_that_are_not_listed_are_counted() -> None:
    refused = [RefusedView("shop", f"web-{i}", "c", float(i), f"refused: {i} CPUs are left", "web") for i in (2, 1)]
    problems = problems_of(replace(status_view(), containers=(), refused=tuple(refused)))
    assert render_problems(problems, more_refused=4, colours=False, width=80).splitlines() == [
        "shop/web/c in 2 pods",
        "  ! refused: 2 CPUs are left",
        "    pods: web-2, web-1",
        "and 4 more refused in the last hour, in any namespace",
    ]


def test_a_node_without_problems_is_told_so() -> None:
    assert render_problems([], colours=False, width=80) == "every container is as it asks"
