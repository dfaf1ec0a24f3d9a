from dataclasses import replace

from cri_proxy.http.status_stream import changed_members, container_key
from cri_proxy.node.status.model import StatusView
from cri_proxy.steps import at_once
from sysfs.cpuset import CpuSet
from tests.fakes.views import container, status_view


def changed(before: StatusView, after: StatusView) -> dict[str, object] | None:
    return at_once(changed_members(before, after))


def test_nothing_has_changed_between_equal_statuses() -> None:
    assert changed(status_view(), status_view()) == {}


def test_of_the_containers_only_those_are_told_that_changed_came_or_went() -> None:
    before = status_view()
    first, second, *others = before.containers
    wider = replace(second, cpus=CpuSet.parse("1,4"))
    new = container("new", "shared", "1")
    after = replace(before, containers=(wider, *others, new))
    assert changed(before, after) == {"containers": (wider, new), "gone": (container_key(first),)}


def test_a_pool_is_told_with_the_members_that_differ() -> None:
    before = status_view()
    root, *others = before.pools
    less = replace(root, shared_free_mcpu=100)
    after = replace(before, pools=(less, *others), warnings=("something",), fits=None)
    assert changed(before, after) == {"pools": (less,), "warnings": ("something",), "fits": None}


def test_another_machine_and_other_pools_are_told_whole() -> None:
    before = status_view()
    assert changed(before, replace(before, map=None)) is None
    assert changed(before, replace(before, pools=before.pools[:-1])) is None
