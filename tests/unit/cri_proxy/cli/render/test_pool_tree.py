from dataclasses import replace

import pytest

from cri_proxy.cli.render.pool_tree import WHOLE, TreeShape, owner_of, pool_use_text, tree_lines, use_text
from cri_proxy.node.status.model import ContainerView
from sysfs.cpuset import CpuSet
from tests.fakes.views import container, pool, status_view


@pytest.mark.parametrize(
    ("kind", "exclusive", "isolated", "shared_mcpu", "text"),
    [
        ("exclusive", "2-3", "", 0, "2 exclusive"),
        ("isolated", "", "7", 0, "1 isolated"),
        ("mixed", "2", "", 500, "1 exclusive + 500m shared"),
        ("mixed", "", "7", 0, "1 isolated + shared"),
        ("shared", "", "", 0, "shared"),
        ("reserved", "", "", 0, "reserved"),
        ("preserve", "", "", 0, "left alone"),
    ],
)
def test_what_cpus_are_to_a_container(kind: str, exclusive: str, isolated: str, shared_mcpu: int, text: str) -> None:
    view = container("c", kind, "1", exclusive=CpuSet.parse(exclusive), isolated=CpuSet.parse(isolated))
    assert use_text(replace(view, shared_mcpu=shared_mcpu)) == text


def test_a_container_with_no_cpu_time_booked_is_marked() -> None:
    assert use_text(replace(container("c", "shared", "1"), is_overcommitted=True)) == "shared, overcommitted"


def test_a_pool_without_shared_cpus_says_so() -> None:
    assert pool_use_text(pool("x", "", "", free_mcpu=0, mems="0", isolated="4-5")) == "nothing shared; isolated 4-5"


def member(end: str, cpus: str = "2-3", **more: object) -> ContainerView:
    owned = {"pool": "socket #0", "exclusive": CpuSet.parse(cpus), "workload": "web", "workload_kind": "Deployment"}
    return container("app", "exclusive", cpus, **{**owned, "pod": f"web-{end}", **more})


def lines(*containers: ContainerView, shape: TreeShape = WHOLE) -> list[str]:
    view = replace(status_view(), containers=containers)
    return [line.text for line in tree_lines(view, shape, colours=False, width=100)]


def test_pods_of_a_workload_that_are_alike_fold_into_a_row() -> None:
    folded = [line for line in lines(member("a"), member("b", "4-5"), member("c", "6-7")) if "web" in line]
    assert [line.split() for line in folded] == [
        ["│", "└─", "default/web/app", "in", "3", "pods", "2-7", "3", "x", "2", "exclusive", "0"]
    ]


def test_the_same_note_is_told_once() -> None:
    assert sum("! look" in line for line in lines(member("a", notes=("look",)), member("b", notes=("look",)))) == 1


def test_what_differs_stands_alone() -> None:
    text = lines(member("a"), member("b", "4-6"), member("c", notes=("look",)), member("d", state="created"))
    assert sum("/app" in line for line in text) == 4
    assert sum("/app" in line for line in lines(member("a"), member("b"), shape=TreeShape(is_folded=False))) == 2


def test_the_containers_of_a_pool_are_sorted_as_asked() -> None:
    few, many = member("a", "2", workload_kind="Pod"), member("b", "4-7", workload_kind="Pod")
    by_cpus = [line for line in lines(few, many, shape=TreeShape(sort="cpus")) if "/app" in line]
    assert "web-b" in by_cpus[0]
    assert "web-a" in next(line for line in lines(few, many) if "/app" in line)


def test_owners_have_their_letters_of_the_map() -> None:
    shape = TreeShape(letters={"default/web-a/app": "A", "default/web-b/app": "B"})
    assert any("AB default/web/app in 2 pods" in line for line in lines(member("a"), member("b", "4-5"), shape=shape))


def test_a_line_names_its_container() -> None:
    view = replace(status_view(), containers=(member("a", notes=("look",)),))
    found = tree_lines(view, TreeShape(), colours=False, width=80)
    assert [line.container for line in found if line.container] == ["default/web-a/app"] * 2


def test_containers_on_their_pods_cpus_have_one_owner() -> None:
    assert owner_of(member("a", shares_pod_cpus=True)) == "default/web-a"


def test_a_narrow_terminal_has_narrow_columns() -> None:
    view = replace(status_view(), containers=(member("a"),))
    assert max(len(line.text) for line in tree_lines(view, TreeShape(), colours=False, width=50)) <= 50


def test_what_has_changed_is_coloured() -> None:
    view = replace(status_view(), containers=(member("a", workload_kind="Pod"),))
    shape = TreeShape(changed=frozenset({"default/web-a/app"}))
    assert any("\x1b[36m" in line.text for line in tree_lines(view, shape, colours=True, width=80))
