from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.glob import is_like


@given(st.text("ab]-/", max_size=8), st.text("ab*?[]!-/", max_size=8))
def test_a_glob_means_what_the_standard_library_takes_it_for(text: str, pattern: str) -> None:
    assert is_like(text, pattern) == fnmatchcase(text, pattern)


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
