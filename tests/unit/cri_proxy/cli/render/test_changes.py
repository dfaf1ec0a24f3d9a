from dataclasses import replace

from cri_proxy.cli.render.changes import render_displaced, render_history
from cri_proxy.state.decisions import ContainerName, GrantMove, HistoryEntry, PinningChange
from sysfs.cpuset import CpuSet, NodeSet
from tests.fakes.views import decision_record

EMPTY = replace(decision_record(), displaced=(), displaced_count=0)


def other(name: str, before: str | None, after: str, mems: str = "0") -> PinningChange:
    nodes = NodeSet.of([0])
    return PinningChange(
        "default",
        "web",
        name,
        CpuSet.parse(after),
        NodeSet.parse(mems),
        None if before is None else CpuSet.parse(before),
        None if before is None else nodes,
    )


def test_those_with_the_same_change_share_a_line() -> None:
    displaced = (other("a", "1-3", "1"), other("b", "1-3", "1"), other("c", "4-7", "4-5"))
    assert render_displaced(replace(EMPTY, displaced=displaced, displaced_count=40), width=80) == [
        "  - default/web/a, default/web/b: from CPUs 1-3 to CPU 1",
        "  - default/web/c: from CPUs 4-7 to CPUs 4-5",
        "  - and 37 more containers",
    ]


def test_only_what_changed_is_said() -> None:
    displaced = (other("a", "1-3", "1-3", mems="0-1"),)
    assert render_displaced(replace(EMPTY, displaced=displaced), width=80) == [
        "  - default/web/a: from memory node 0 to memory nodes 0-1"
    ]


def test_what_was_before_may_not_be_known() -> None:
    displaced = (other("a", None, "1"),)
    assert render_displaced(replace(EMPTY, displaced=displaced), width=80) == [
        "  - default/web/a: now CPU 1, memory node 0"
    ]


def test_whoever_made_room_is_named_with_both_places() -> None:
    moved = GrantMove(ContainerName("default", "log", "l"), "socket #0", "root", NodeSet.of([0]), NodeSet.parse("0-1"))
    assert render_displaced(replace(EMPTY, moves=(moved,)), width=120) == [
        "  - default/log/l: lifted from socket #0 to root, memory nodes from 0 to 0-1, to make room"
    ]


def test_history_is_dated_and_says_nothing_twice() -> None:
    history = (
        HistoryEntry(1_700_000_000.0, "placed", "placed in root"),
        HistoryEntry(1_700_000_001.0, "lifted", "from a to b"),
    )
    assert render_history(history, width=80) == [
        "  2023-11-14 22:13:20  placed in root",
        "  2023-11-14 22:13:21  lifted: from a to b",
    ]
