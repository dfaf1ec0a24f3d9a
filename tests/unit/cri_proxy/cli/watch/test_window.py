from functools import reduce

import pytest

from cri_proxy.cli.render.pool_tree import TreeLine
from cri_proxy.cli.render.status_filter import StatusFilter
from cri_proxy.cli.watch.window import HELP, MARKED_SECONDS, Screen, drawn_lines, names_in, pressed

NAMES = [f"shop/web/c{i}" for i in range(30)]
LINES = [TreeLine("title"), *(TreeLine(f"row {name}", name) for name in NAMES)]
HEIGHT = 12


def after(*keys: str, screen: Screen = Screen()) -> Screen:  # noqa: B008 - frozen
    return reduce(lambda now, key: pressed(now, key, NAMES, HEIGHT), keys, screen)


def window(screen: Screen) -> list[str]:
    return drawn_lines(screen, LINES, HEIGHT, colours=False)[0]


def test_the_cursor_goes_through_the_containers_and_stays_among_them() -> None:
    assert after("down", "down").cursor == 1
    assert after("up").cursor == -1
    assert after(*["page down"] * 9).cursor == len(NAMES) - 1


def test_the_window_follows_the_cursor_and_has_a_line_about_keys() -> None:
    shown = window(after("page down", "page down"))
    assert len(shown) == HEIGHT
    assert shown[-2] == "row shop/web/c19"
    assert shown[-1].startswith("11-21 of 31")
    assert window(Screen())[0] == "title"


def test_the_line_under_the_cursor_stands_out() -> None:
    texts, _ = drawn_lines(after("down"), LINES, HEIGHT, colours=True)
    assert texts[1] == "\x1b[7mrow shop/web/c0\x1b[0m"


def test_scrolled_up_again_the_window_is_where_the_cursor_is() -> None:
    _, screen = drawn_lines(after(*["page down"] * 3), LINES, HEIGHT, colours=False)
    shown, _ = drawn_lines(after("page up", "page up", "page up", screen=screen), LINES, HEIGHT, colours=False)
    assert "row shop/web/c0" in shown


@pytest.mark.parametrize(
    ("key", "changed"),
    [
        ("q", Screen(is_over=True)),
        ("f", Screen(is_folded=False)),
        ("s", Screen(sort="cpus")),
        ("p", Screen(wanted=StatusFilter(problems=True))),
        ("e", Screen()),
        ("?", Screen()),
    ],
)
def test_a_key_does_what_the_last_line_says(key: str, changed: Screen) -> None:
    assert after(key) == changed
    assert key in HELP or key == "?"


def test_the_sorts_come_round() -> None:
    assert after("s", "s", "s", "s").sort == "name"


def test_a_filter_is_typed_and_taken_with_enter() -> None:
    typing = after("/", "w", "x", "delete", "b")
    assert window(typing)[-1] == "filter by pod or workload: wb_"
    assert after("enter", screen=typing).wanted == StatusFilter(pod="*wb*")
    assert after("escape", screen=typing) == Screen()
    assert after("/", screen=after("enter", screen=typing)).typed == "wb"
    assert after("escape", screen=after("enter", screen=typing)).wanted == StatusFilter()


def test_keys_that_move_are_letters_of_a_filter() -> None:
    assert after("/", "j", "k", " ").typed == "jk "
    assert after("j", "j", "k").cursor == 0


def test_explain_asks_about_the_container_under_the_cursor() -> None:
    assert after("down", "down", "e").asks_about == "shop/web/c1"
    assert after("down", "enter").asks_about == "shop/web/c0"
    assert after("e").asks_about == ""


def test_a_page_scrolls_and_any_other_key_closes_it() -> None:
    page = Screen(page=tuple(f"line {i}" for i in range(40)))
    assert window(page)[0] == "line 0"
    assert window(after("page down", screen=page))[0] == "line 10"
    assert window(after(*["page down"] * 9, screen=page))[-2] == "line 39"
    assert after("x", screen=page) == Screen()


def test_what_has_changed_is_marked_for_a_minute() -> None:
    screen = Screen().with_changed(["a", ""], 100.0).with_changed(["b"], 130.0)
    assert screen.marked(130.0) == {"a", "b"}
    assert screen.marked(101.0 + MARKED_SECONDS) == {"b"}


def test_a_container_with_several_lines_is_one() -> None:
    assert names_in([TreeLine("a", "x"), TreeLine("note", "x"), TreeLine("b")]) == ["x"]
