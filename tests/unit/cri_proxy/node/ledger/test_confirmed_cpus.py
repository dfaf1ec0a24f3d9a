from cri_proxy.node.ledger.confirmed_cpus import ConfirmedCpus
from cri_proxy.node.ledger.ordered_rows import OrderedRows
from cri_proxy.state.rows import Row
from policies.base import Pinning
from sysfs.cpuset import CpuSet
from tests.fakes.grants import row

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
