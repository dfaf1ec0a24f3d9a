from dataclasses import replace

from cri_proxy.node.ledger.confirmed_cpus import ConfirmedCpus
from cri_proxy.node.ledger.ordered_rows import OrderedRows
from cri_proxy.state.rows import Row
from policies.base import ContainerKey, Pinning
from policies.claims import CpuClaim
from policies.pod_share import PodShare
from sysfs.cpuset import CpuSet
from tests.fakes.grants import NODES, row

ON_2_3 = Pinning(CpuSet.parse("2-3"), None)


def claims(one: Row, *others: Row, known: Pinning | None = None) -> ConfirmedCpus:
    made = ConfirmedCpus()
    made.note_confirmed(one, known, (one, *others))
    return made


def test_a_container_has_alone_what_it_owns_and_is_on() -> None:
    made = claims(row("a", owned="1-2", acknowledged="2-3"))
    assert str(made.of(row("a").key)) == "2"
    assert (str(made.of_others(row("b").key)), str(made.of_others(row("a").key))) == ("2", "")
    assert made.holders_of(CpuSet.parse("2-7")) == {row("a").key}


def test_who_has_nothing_confirmed_has_nothing_alone() -> None:
    assert not claims(row("a", owned="1-2")).of(row("a").key)


def test_what_was_shared_before_is_its_alone_when_the_others_have_left() -> None:
    one, other = row("a", owned="2-3", acknowledged="2-3"), row("b", acknowledged="3-7")
    made = claims(one, other, known=ON_2_3)
    assert str(made.of(one.key)) == "2"
    made.settle((one, row("b", acknowledged="4-7")))
    assert str(made.of(one.key)) == "2-3"


def test_what_it_does_not_own_any_more_does_not_become_its_alone() -> None:
    one, other = row("a", owned="2-3", acknowledged="2-3"), row("b", acknowledged="3-7")
    made = claims(one, other, known=ON_2_3)
    made.note_grant(row("a", owned="2", acknowledged="2-3"))
    made.settle((one, row("b", acknowledged="4-7")))
    assert str(made.of(one.key)) == "2"


def test_who_is_forgotten_has_nothing_alone() -> None:
    made = claims(row("a", owned="1", acknowledged="1"))
    made.forget(row("a").key)
    assert (str(made.of(row("a").key)), str(made.of_others(row("b").key))) == ("", "")


def test_who_is_forgotten_has_nothing_alone_when_others_leave_what_it_shared() -> None:
    one = row("a", owned="2-3", acknowledged="2-3")
    made = claims(one, row("b", acknowledged="3-7"), known=ON_2_3)
    made.forget(one.key)
    made.settle((row("b", acknowledged="4-7"),))
    assert str(made.of(one.key)) == ""


def test_who_has_not_run_yet_has_shared_no_cpu_with_others() -> None:
    one = row("a", owned="2-3", acknowledged="2-3", state="created")
    assert str(claims(one, row("b", acknowledged="3-7"), known=ON_2_3).of(one.key)) == "2-3"


def test_who_has_more_alone_than_its_grant_says_is_known() -> None:
    made = claims(row("a", owned="1-2", acknowledged="1-2"))
    rows = OrderedRows()
    rows.put(row("a", owned="1", acknowledged="1-2"))
    assert made.beyond(rows) == {row("a").key}
    rows.put(row("a", owned="1-2", acknowledged="1-2"))
    assert made.beyond(rows) == set()


def test_a_copy_goes_its_own_way() -> None:
    made = claims(row("a", owned="1-2", acknowledged="1-2"))
    other = made.copy()
    other.forget(row("a").key)
    assert (str(made.of(row("a").key)), str(other.of(row("a").key))) == ("1-2", "")


def test_what_was_its_alone_before_is_not_contested_by_others_on_it() -> None:
    """A sharer that is late on CPU 2, which the runtime had confirmed for this container alone, takes nothing back."""
    one, late = row("a", owned="1-2", acknowledged="1-2"), row("b", acknowledged="2-7")
    made = claims(one)
    made.note_confirmed(one, Pinning(CpuSet.parse("1-2"), None), (one, late))
    assert str(made.of(one.key)) == "1-2"


def test_only_cpus_that_it_was_on_before_can_be_contested() -> None:
    one, other = row("a", owned="2-4", acknowledged="2-4"), row("b", acknowledged="4-7")
    made = claims(one, other, known=ON_2_3)
    assert str(made.of(one.key)) == "2-4"


def test_contested_cpus_that_it_has_left_do_not_become_its_alone() -> None:
    one, other = row("a", owned="2-3", acknowledged="2"), row("b", acknowledged="2-7")
    made = claims(one, other, known=ON_2_3)
    made.settle((one, row("b", acknowledged="4-7")))
    assert str(made.of(one.key)) == "2"


def test_while_one_of_several_is_still_there_the_rest_is_contested() -> None:
    one = row("a", owned="2-3", acknowledged="2-3")
    made = claims(one, row("b", acknowledged="2-7"), row("c"), known=ON_2_3)
    assert str(made.of_others(row("b").key)) == ""
    made.settle((one, row("b", acknowledged="3-7"), row("c")))
    assert (str(made.of(one.key)), str(made.of_others(row("b").key))) == ("2", "2")
    made.settle((one, row("b", acknowledged="4-7")))
    assert (str(made.of(one.key)), str(made.of_others(row("b").key))) == ("2-3", "2-3")
    made.settle((one, row("b", acknowledged="2-7")))  # it is settled for good
    assert str(made.of(one.key)) == "2-3"


def test_who_is_not_pinned_to_cpus_contests_none() -> None:
    one, memory_only = row("a", owned="2-3", acknowledged="2-3"), row("b")
    others = (replace(memory_only, acknowledged=Pinning(None, NODES)), row("c"))
    assert str(claims(one, *others, known=ON_2_3).of(one.key)) == "2-3"


def sharing(name: str, acknowledged: str) -> Row:
    """A container of pod p that shares the pod's CPUs 2-3."""
    one = row("a", owned="2-3", acknowledged=acknowledged)
    request = replace(one.grant.request, container=ContainerKey("p", name))
    return replace(one, grant=replace(one.grant, request=request, share=PodShare(2000)))


def test_containers_that_share_their_pods_cpus_have_them_alone_together() -> None:
    one, sharer = sharing("a", "2-3"), sharing("b", "2-3")
    made = ConfirmedCpus()
    made.note_grant(one)
    made.note_grant(sharer)
    for each in (one, sharer):
        made.note_confirmed(each, ON_2_3, (one, sharer))
    assert (str(made.of(one.key)), str(made.of(sharer.key))) == ("2-3", "2-3")
    assert (str(made.of_others(one.key)), str(made.of_others(row("x").key))) == ("", "2-3")
    made.forget(one.key)
    assert str(made.of_others(row("x").key)) == "2-3"
    made.forget(sharer.key)
    assert str(made.of_others(row("x").key)) == ""


def test_containers_of_another_claim_of_the_pod_are_others() -> None:
    one, other = sharing("a", "2-3"), sharing("b", "4-5")
    request = replace(other.grant.request, claim=CpuClaim(CpuSet.parse("4-5"), "x"))
    other = replace(other, grant=replace(other.grant, request=request, exclusive=CpuSet.parse("4-5")))
    made = ConfirmedCpus()
    for each in (one, other):
        made.note_grant(each)
        made.note_confirmed(each, None, (one, other))
    assert (str(made.of_others(one.key)), str(made.of_others(other.key))) == ("4-5", "2-3")
