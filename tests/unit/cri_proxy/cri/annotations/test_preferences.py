import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cri_proxy.cri.annotations.preferences import (
    choice,
    cold_start_seconds,
    command,
    cpu_priority,
    hidden_threads,
    memory_kinds,
)
from policies.preferences import BurstLevel, CpuPriority, Threads
from sysfs.model import MemoryKind


@pytest.mark.parametrize(
    ("value", "kinds"),
    [
        ("dram", "dram"),
        ("PMEM", "pmem"),
        ("hbm,dram", "dram hbm"),
        ("mixed", "dram pmem"),
        (["mixed", "hbm", "dram"], "dram hbm pmem"),
        ("dram,dram", "dram"),
    ],
)
def test_kinds_of_memory_are_sorted_and_named_once(value: object, kinds: str) -> None:
    assert memory_kinds(value) == tuple(MemoryKind(k) for k in kinds.split())


@pytest.mark.parametrize("value", ["ram", "", "dram,", ["dram", 1], [], True, 1, None])
def test_other_kinds_of_memory_are_refused(value: object) -> None:
    with pytest.raises(ValueError, match="expected dram, pmem, hbm or mixed, or a list of them"):
        memory_kinds(value)


@pytest.mark.parametrize(
    ("value", "meant"), [("hide", Threads.HIDE), ("Own-Core", Threads.OWN_CORE), ("any", Threads.ANY)]
)
def test_threads_are_a_choice(value: object, meant: Threads) -> None:
    assert choice(Threads)(value) is meant


def test_hiding_threads_is_said_by_true_or_false() -> None:
    assert (hidden_threads(True), hidden_threads("false")) == (Threads.HIDE, Threads.ANY)


@pytest.mark.parametrize("level", BurstLevel)
def test_every_level_has_its_word(level: BurstLevel) -> None:
    assert choice(BurstLevel)(level.value) is level


def test_the_default_priority_is_left_to_the_options() -> None:
    assert [cpu_priority(p) for p in ("high", "NONE", "default")] == [CpuPriority.HIGH, CpuPriority.NONE, None]


@pytest.mark.parametrize("value", [True, 1, None, "", "socket", ["numa"]])
def test_a_word_that_is_no_choice_is_refused_with_the_choices(value: object) -> None:
    with pytest.raises(ValueError, match="expected system, package, die, numa or l3cache"):
        choice(BurstLevel)(value)
    with pytest.raises(ValueError, match="expected high, normal, low, none or default"):
        cpu_priority(value)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("60s", 60),
        ({"duration": "60s"}, 60),
        ("1m30s", 90),
        ("1h", 3600),
        ("0h59m60s", 3600),
        ("1.5m", 90),
        (".5s", 1),
        ("500ms", 1),
        ("1µs", 1),
        (0, 0),
        ("0", 0),
        ({"duration": 20}, 20),
        (1.2, 2),
        ("90", 90),
    ],
)
def test_a_cold_start_lasts_whole_seconds(value: object, seconds: int) -> None:
    assert cold_start_seconds(value) == seconds


@pytest.mark.parametrize(
    "value",
    [
        "1h1s", 3601, -1, "-1s", "1d", "s", "", "1 m", "1s1", True, None, [], {}, math.nan, math.inf, 10**400,
        {"duration": "1s", "more": 1}, {"duration": {}}, {"duration": True}, "1s" * 100,
    ],
)  # fmt: skip
def test_what_is_no_duration_up_to_an_hour_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="expected a"):
        cold_start_seconds(value)


@given(st.integers(0, 3600))
def test_any_way_to_write_a_duration_means_the_same(seconds: int) -> None:
    written = [seconds, str(seconds), f"{seconds}s", f"{seconds // 60}m{seconds % 60}s", {"duration": seconds}]
    assert {cold_start_seconds(value) for value in written} == {seconds}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("kill -HUP 1", ("kill", "-HUP", "1")),
        (["kill", "-HUP", 1], ("kill", "-HUP", "1")),
        ("sh -c 'a b; $c'", ("sh", "-c", "a b; $c")),
        ([True, ""], ("true", "")),
    ],
)
def test_a_command_is_its_words_and_nothing_is_expanded(value: object, words: tuple[str, ...]) -> None:
    assert command(value) == words


@pytest.mark.parametrize(
    "value", ["", "  ", [], [""], "'", [["a"]], [1.5], 1, True, None, {"a": 1}, ["a"] * 65, "a" * 4097, ["a", None]]
)
def test_what_is_no_command_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"command|more than 64 words"):
        command(value)
