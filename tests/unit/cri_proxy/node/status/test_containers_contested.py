from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from cri_proxy.node.status.containers import ANYWHERE, Other, Others, late, unpinned
from cri_proxy.node.sync.adoption import LeftAlone
from policies.base import ContainerKey, CpuKind
from policies.pod_share import PodShare
from sysfs.cpuset import CpuSet
from tests.fakes.grants import ledger_with, row

OWNER = row("a", owned="2-3", acknowledged="2-3")
MATE = row("b", owned="2-3", acknowledged="2-3")


def test_whoever_runs_anywhere_or_on_such_a_cpu_is_named() -> None:
    others = [
        LeftAlone("anywhere", None),
        LeftAlone("near", CpuSet.parse("3-5")),
        LeftAlone("far", CpuSet.parse("4-5")),
    ]
    assert Others.of_left(others).on(OWNER) == ("anywhere", "near")


def test_a_container_that_owns_nothing_has_nothing_to_fear() -> None:
    assert Others.of_left([LeftAlone("anywhere", None)]).on(row("s", acknowledged="4-7")) == ()


def test_nobody_reaches_itself() -> None:
    assert Others.of_left([LeftAlone("default/pod-1/a", None)]).on(OWNER) == ()


def test_a_preserved_container_counts_with_the_cpus_that_it_brought() -> None:
    preserved = row("p", acknowledged="1-3")
    preserved = replace(preserved, grant=replace(preserved.grant, kind=CpuKind.PRESERVE))
    left = LeftAlone("default/old/c", None)
    found = unpinned(ledger_with(OWNER, preserved), [left])
    assert [(each.name, each.mask) for each in found.members] == [("default/pod-1/p", 0b1110), (left.name, ANYWHERE)]
    assert [(each.key, each.grant) for each in found.members] == [(preserved.key, preserved.grant), (None, None)]
    assert found.on(OWNER) == ("default/pod-1/p", "default/old/c")


def test_containers_that_share_their_pods_cpus_have_nothing_to_fear_from_each_other() -> None:
    owner, mate = (replace(each, grant=replace(each.grant, share=PodShare(cpu_mcpu=2000))) for each in (OWNER, MATE))
    others = Others.of((Other(str(mate.name), ANYWHERE, mate.key, mate.grant), Other("default/old/c", ANYWHERE)))
    assert others.on(owner) == ("default/old/c",)
    assert others.on(OWNER) == ("default/pod-1/b", "default/old/c")  # whose CPUs are its own


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(-1, 255))), st.integers(0, 255))
def test_whether_anybody_is_there_agrees_with_who_is(members: list[tuple[str, int]], owned: int) -> None:
    others = Others.of(Other(name, mask, ContainerKey("pod-1", name)) for name, mask in members)
    owner = row("a", owned=str(CpuSet(owned)))
    assert others.on(owner) == tuple(name for name, mask in members if name != "a" and mask & owned)
    assert others.is_on(owner) == bool(others.on(owner))


def test_who_is_late_may_be_where_the_runtime_has_it_and_anywhere_if_that_is_not_known() -> None:
    sits, unknown = row("s", acknowledged="1-7"), row("t")
    ledger = ledger_with(OWNER, sits, unknown)
    found = [(other.name, other.mask) for other in late(ledger, ledger.unmet())]
    assert found == [("default/pod-1/s", 0b11111110), ("default/pod-1/t", ANYWHERE)]
