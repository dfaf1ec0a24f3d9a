from hypothesis import given
from hypothesis import strategies as st

from policies.base import Allocations, ContainerKey, CpuKind, Grant
from sysfs.cpuset import CpuSet
from tests.unit.policies.build import request

NAMES = st.lists(st.sampled_from(["a/x", "a/y", "b/x", "c/z", "d/d"]), max_size=8)


def grant(name: str, mcpu: int = 0) -> Grant:
    return Grant(request(name), "root", CpuKind.SHARED, shared_mcpu=mcpu)


@given(NAMES)
def test_grants_are_sorted_by_container_and_the_later_one_replaces_the_earlier(names: list[str]) -> None:
    held = Allocations().with_grants(*(grant(n, i) for i, n in enumerate(names)))
    expected = {grant(n).container: i for i, n in enumerate(names)}
    assert {g.container: g.shared_mcpu for g in held.grants} == expected
    assert [g.container for g in held.grants] == sorted(expected)


def test_a_grant_is_found_by_its_container() -> None:
    held = Allocations().with_grants(grant("a/x", 1), grant("b/x", 2))
    assert held.get(ContainerKey("b", "x")) == grant("b/x", 2)
    assert held.get(ContainerKey("b", "a")) is None


def test_going_without_a_container_that_holds_nothing_changes_nothing() -> None:
    held = Allocations().with_grants(grant("a/x"))
    assert held.without(ContainerKey("zz", "x")) is held
    assert held.without(ContainerKey("a", "x")).grants == ()


def test_withheld_cpus_stay_withheld() -> None:
    held = Allocations(withheld=CpuSet.parse("3")).with_grants(grant("a/x"))
    assert held.without(ContainerKey("a", "x")).withheld == CpuSet.parse("3")


def test_a_grant_owns_its_exclusive_and_its_isolated_cpus() -> None:
    both = Grant(request(), "root", CpuKind.MIXED, exclusive=CpuSet.parse("1"), isolated=CpuSet.parse("3"))
    assert str(both.owned) == "1,3"
