from pathlib import Path

from tests.golden.costs_page import answered
from tests.golden.hints_page import PAGE


def test_the_page_shows_what_its_commands_answer(tmp_path: Path) -> None:
    """After a change that was meant: ``python -m tests.golden.hints_page`` writes the answers."""
    page = PAGE.read_text()
    assert "$ cri-proxy hints generate" in page
    assert answered(page, tmp_path) == page
