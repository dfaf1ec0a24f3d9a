import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cri_proxy.cli.render.columns import Cells, column_widths, layout, paint, paragraph, wrap


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("0-3,8,12,14", 6, ["0-3,8,", "12,14"]),
        ("shared, 3 free", 8, ["shared,", "3 free"]),
        ("ns/pod/c", 4, ["ns/", "pod/", "c"]),
        ("abcdef", 4, ["abcd", "ef"]),
        ("", 4, [""]),
    ],
)
def test_lines_break_where_a_reader_expects_it(text: str, width: int, lines: list[str]) -> None:
    assert wrap(text, width) == lines


@given(st.text(alphabet="ab0-9,/ ", max_size=40), st.integers(1, 20))
@settings(deadline=None)
def test_wrapping_loses_nothing_and_keeps_to_the_width(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert all(len(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_a_cell_wraps_inside_its_column() -> None:
    rows = [Cells(("name", "0-3,8", "x"), lead="* ", rest="| ")]
    assert layout(rows, (8, 4, 1)) == ["* name    0-3,  x", "|         8"]


def test_colours_take_no_width() -> None:
    plain = layout([Cells(("a", "b"), ("bold", "green"))], (3, 1))
    painted = layout([Cells(("a", "b"), ("bold", "green"))], (3, 1), colours=True)
    assert painted == ["\x1b[1ma\x1b[0m    \x1b[32mb\x1b[0m"]
    assert plain == ["a    b"]


def test_the_flexible_column_takes_what_the_others_leave() -> None:
    rows = [Cells(("n" * 60, "0-3", "x" * 30))]
    assert column_widths(rows, (10, 10, 10), flexible=0, total=40) == [23, 3, 10]


def test_a_column_takes_no_more_than_it_needs() -> None:
    assert column_widths([Cells(("ab", "c"))], (10, 10), flexible=0, total=40) == [2, 1]


def test_a_paragraph_keeps_its_indent_and_its_words() -> None:
    assert paragraph("one two-three", "  ", first="- ", width=7) == ["- one", "  two-three"]


def test_nothing_is_painted_without_colours() -> None:
    assert paint("x", "bold", colours=False) == "x"
