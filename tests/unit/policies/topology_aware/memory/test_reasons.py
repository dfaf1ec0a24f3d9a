from policies.topology_aware.memory import reasons as say
from tests.unit.policies.memory.build import DRAM, GIB, PMEM, at, mask, wanting


def test_refusals_of_a_strict_wish_say_so_in_their_code() -> None:
    reason = say.strict_memory((PMEM,), say.no_room(mask("2-3"), 3 * GIB))
    assert reason.code.startswith("strict")
    assert reason.text == (
        "wanted memory of kind PMEM and no other; "
        "memory nodes 2-3 do not have 3 GiB left that is not promised to others"
    )


def test_amounts_are_told_in_the_unit_that_people_use() -> None:
    amounts = (5, 3 << 10, 64 << 20, 3 << 29, 2 << 40, (1 << 30) - 1)
    assert [say.amount_text(n) for n in amounts] == ["5 bytes", "3 KiB", "64 MiB", "1.5 GiB", "2 TiB", "1024 MiB"]


def test_who_is_widened_is_named() -> None:
    others = (at("root", wanting("a", 1), "0-1"), at("root", wanting("b", 1), "2-3"))
    assert say.others_widened(others).text == (
        "2 containers get more memory nodes to make room: a/c now 0-1, b/c now 2-3"
    )


def test_what_is_absent_is_told_with_what_comes_instead() -> None:
    assert say.kinds_absent((DRAM, PMEM), mask("1")).text == "this machine has no DRAM and PMEM: it gets memory node 1"


def test_one_node_and_several_are_told_apart() -> None:
    assert say.starts_cold(mask("3"), mask("0-1"), 9).text.endswith("memory nodes 0-1 come after 9 s")
    assert say.normal_added(mask("1")).text.endswith("memory node 1 comes with it")
    assert say.rezoned(mask("0"), gone=mask("2-3")).text.startswith("memory nodes 2-3 are gone")
