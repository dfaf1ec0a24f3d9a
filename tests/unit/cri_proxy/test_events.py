import ast
import re
from pathlib import Path

from cri_proxy import events

ROOT = Path(__file__).parents[3]
NAMES = [value for name, value in vars(events).items() if name.isupper()]


def test_every_event_has_a_name_of_its_own() -> None:
    assert len(NAMES) == len(set(NAMES))


def test_names_are_words_that_can_be_searched_for() -> None:
    assert [name for name in NAMES if not re.fullmatch(r"[a-z]+(_[a-z]+)*", name)] == []


def test_no_event_is_logged_under_a_name_that_is_not_listed() -> None:
    calls = (
        (path.name, node.args[0])
        for path in (ROOT / "cri_proxy").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("noted", "info", "warning", "error")
        if node.args
    )
    literal = [(name, arg.value) for name, arg in calls if isinstance(arg, ast.Constant)]
    assert [where for where in literal if where[1] not in NAMES] == []
