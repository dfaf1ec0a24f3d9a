from pathlib import Path

from tests.golden.costs_page import PAGE, answered


def test_the_page_shows_what_its_commands_answer(tmp_path: Path) -> None:
    """After a change that was meant: ``python -m tests.golden.costs_page`` writes the answers."""
    page = PAGE.read_text()
    assert answered(page, tmp_path) == page
    assert page.count("\n    cost ") == page.count(", proved to be the lowest\n") == page.count("$ cri-proxy select")
    assert (tmp_path / "gpus.dot").exists()
