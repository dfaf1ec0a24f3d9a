"""Stories of attacks: each says in its first line what happens, and stands in the table of tests/hostile/README.md."""

import ast
import re

from tests.house.tree import ROOT

HOSTILE = ROOT / "tests" / "hostile"
FRAME = HOSTILE / "test_frame.py"
STORIES = [
    function
    for path in sorted(HOSTILE.glob("test_*.py"))
    if path != FRAME
    for function in ast.parse(path.read_text()).body
    if isinstance(function, ast.AsyncFunctionDef | ast.FunctionDef) and function.name.startswith("test_")
]


def test_a_story_says_what_happens_and_what_must_hold() -> None:
    assert [story.name for story in STORIES if not ast.get_docstring(story)] == []


def test_the_table_has_every_story_and_no_other() -> None:
    named = re.findall(r"^\|.*`(test_\w+)`.*\|$", (HOSTILE / "README.md").read_text(), re.MULTILINE)
    assert sorted(named) == sorted(story.name for story in STORIES)
