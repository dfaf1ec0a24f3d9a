import json
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cri_proxy.foreign_text import (
    SENTENCE_BYTES,
    WORDS_BYTES,
    admit,
    is_same_failure,
    shorten,
    visible,
    visible_json,
    visible_lines,
    without_ids,
)

ANY_TEXT = st.text(st.characters(codec=None, categories=None))
HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")


def test_no_character_that_controls_or_formats_stays() -> None:
    hidden = [chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) in HIDDEN]
    assert len(hidden) > 2000
    assert [c for c in hidden if visible(c).isprintable() is False or c in visible(c)] == []


@pytest.mark.parametrize("text", ["", "exit status 1", "café", "容器 not found", "\\x1b is no escape", "👍"])
def test_what_prints_is_left_as_it_is(text: str) -> None:
    assert visible(text) == admit(text) == shorten(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", "\\x1b[2J"),
        ("a\r\nb", "a\\r\\nb"),
        ("\x9b31m\x7f", "\\x9b31m\\x7f"),
        ("\u202etxt\u2066", "\\u202etxt\\u2066"),
        ("\u200f\u061c", "\\u200f\\u061c"),
        ("\u2028\ufeff\u200b", "\\u2028\\ufeff\\u200b"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_what_does_not_print_is_shown_as_python_writes_it(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_lines_stay_lines_where_they_are_ours() -> None:
    assert visible_lines("a\n\x1b[2J\n") == "a\n\\x1b[2J\n"


@given(ANY_TEXT | st.text(max_size=20), st.integers(60, 300))
def test_what_is_admitted_prints_has_its_bytes_and_stays_the_same(text: str, most_bytes: int) -> None:
    once = admit(text * 20, most_bytes)
    assert once.isprintable()
    assert len(once.encode()) <= most_bytes
    assert admit(once, most_bytes) == once


@pytest.mark.parametrize("text", ["x" * 400_000, "é" * 200_000, "\u202e" * 100_000, "👍" * 100_000, "\n" * 10**6])
def test_a_cut_says_how_many_bytes_are_missing(text: str) -> None:
    kept, _, note = admit(text).rpartition("... (")
    missing = int(note.split()[0])
    assert note == f"{missing} more bytes were cut)"
    assert len(admit(text).encode()) <= WORDS_BYTES
    plain = kept.encode().decode("unicode_escape") if "\\" in kept else kept
    assert len(plain.encode()) + missing == len(text.encode())


def test_a_cut_of_its_own_leaves_the_characters() -> None:
    assert shorten("\n") == "\n"
    assert len(shorten("\u202e" * 10_000).encode()) <= SENTENCE_BYTES


def test_words_that_were_cut_fit_into_a_sentence() -> None:
    sentence = f"the runtime refused: {admit('x' * 400_000)}"
    assert admit(sentence, SENTENCE_BYTES) == sentence


@given(
    st.recursive(ANY_TEXT, lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner)), st.sampled_from([0, 2])
)
def test_json_prints_and_means_the_same(value: object, indent: int) -> None:
    text = visible_json(json.dumps(value, ensure_ascii=False, indent=indent or None))
    assert text.replace("\n", "").isprintable()
    assert json.loads(text) == json.loads(json.dumps(value))


def test_ids_and_numbers_are_what_failures_differ_in() -> None:
    one = f"task {'4f6a00d1' * 8}: pod 0a2f4d5e-31aa-4cbb-9a1d-000000000001: exit status 1: open /proc/4711/fd"
    other = f"task {'77aa11bb' * 8}: pod ffffffff-31aa-4cbb-9a1d-00000000000f: exit status 127: open /proc/3/fd"
    assert without_ids(one) == without_ids(other)
    assert without_ids("no space left") != without_ids("no such file")


def test_comparing_takes_steps_in_proportion_to_the_text() -> None:
    assert without_ids("a" * 10**6) == "#"
    assert without_ids("g" * 10**6) == "g" * 10**6


def test_failures_that_were_cut_are_compared_up_to_there() -> None:
    failures = [admit(f"task {'4f6a' * n}: exit status {n}: {'no such level, ' * 9999}") for n in (1, 2, 30)]
    assert all(is_same_failure(failures[0], other) for other in failures)
    assert not is_same_failure(failures[0], admit(f"task 1: exit status 1: {'no such file, ' * 9999}"))
    assert not is_same_failure(failures[0], "task #: exit status #: no such level")
