from fnmatch import fnmatchcase
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.glob import Texts, is_like


@given(st.text("ab]-/", max_size=8), st.text("ab*?[]!-/", max_size=8))
def test_a_glob_means_what_the_standard_library_takes_it_for(text: str, pattern: str) -> None:
    assert is_like(text, pattern) == fnmatchcase(text, pattern)


TEXTS = ["".join(chars) for length in range(5) for chars in product("abc", repeat=length)]


@pytest.mark.parametrize(
    "pattern",
    [
        *("", "a", "*", "**", "a*", "*a", "a*b", "ab*ba", "a*a", "*b*", "a*b*c", "*b*b*", "*ab*", "*a*b*", "ab*b*ba"),
        *("?", "?b", "a?", "a?c", "*?", "?*", "*?b", "a?*c", "??", "?a*"),
        *("[a-b]", "[b-c]*", "[!a-b]", "[!b]c", "[ab]", "[a-bc]", "[ba-c]", "[b-a]", "[!b-a]", "[a-]", "[!]", "[]a]"),
        *("*[b]", "a[bc]*[!a]", "[!ab]?", "[a-a]b", "[", "a[", "[!", "[b-bc-c]"),
    ],
)
def test_every_short_text_is_like_what_the_standard_library_takes_it_for(pattern: str) -> None:
    expected = [fnmatchcase(text, pattern) for text in TEXTS]
    assert [is_like(text, pattern) for text in TEXTS] == expected
    assert like_together(TEXTS, pattern) == expected


def like_together(texts: list[str], pattern: str) -> list[bool]:
    found = Texts(texts).matching(pattern)
    assert found >> len(texts) == 0
    return [bool(found >> i & 1) for i in range(len(texts))]


@given(st.lists(st.text("ab]-\0", max_size=6), max_size=6), st.text("ab*?[]!-\0", max_size=8))
def test_several_texts_are_like_a_pattern_when_each_of_them_is(texts: list[str], pattern: str) -> None:
    assert like_together(texts, pattern) == [is_like(text, pattern) for text in texts]


@pytest.mark.parametrize(
    ("text", "pattern", "found"),
    [
        ("/dev/nvme0", "/dev/*", True),
        ("/dev/dri/card0", "/dev/*", False),
        ("/dev/dri/card0", "/dev/**", True),
        ("/dev/dri/card0", "/dev/***/card?", True),
        ("/dev/dri/card0", "/*/*/card0", True),
        ("/dev", "/dev?", False),
        ("/dev/x", "/dev?x", False),
        ("/dev/x", "/dev[!a]x", False),
        ("/dev/x", "/dev[/]x", False),
        ("aa/", "*a*", False),
        ("/", "*", False),
        ("", "*", True),
        ("/", "**", True),
    ],
)
def test_with_a_separator_one_star_stays_between_two_of_them(text: str, pattern: str, found: bool) -> None:
    assert is_like(text, pattern, "/") is found


@pytest.mark.parametrize(("text", "pattern"), [("a", "[^b]"), ("^", "[b^]"), ("^", "[^]"), ("*", "[*]")])
def test_a_caret_negates_like_an_exclamation_mark(text: str, pattern: str) -> None:
    assert is_like(text, pattern) is (pattern != "[^]")


def test_a_pattern_made_to_backtrack_costs_no_more_than_another() -> None:
    assert not is_like("a" * 253, "a*" * 126 + "b")
    assert not is_like("a" * 20_000, "*a" * 10_000 + "b")
