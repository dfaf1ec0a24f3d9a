"""The page of everyday questions and the pictures of the terminal are what the commands print now."""

from pathlib import Path

from tests.house.tree import shown
from tests.terminal.node import busy_node
from tests.terminal.transcript import PAGE, PROMPT, written

ASKED = ("status --cpu", "fit", "events --since", "explain", "simulate", "check-config")


async def test_the_page_and_the_pictures_are_what_the_commands_print(tmp_path: Path) -> None:
    """Takes two seconds: a daemon places the pods of a node, and a dozen commands ask it."""
    async with busy_node(tmp_path) as node:
        files = await written(node.admin.path)
    stale = [shown(path) for path, text in files.items() if not path.exists() or path.read_text() != text]
    assert stale == [], "run make transcripts"


def test_each_question_on_the_page_has_an_answer() -> None:
    _, *answers = PAGE.read_text().split(PROMPT)
    assert [words for words in ASKED if not any(answer.startswith(words) for answer in answers)] == []
    assert [answer for answer in answers if "\n    " not in answer or "Traceback" in answer] == []
