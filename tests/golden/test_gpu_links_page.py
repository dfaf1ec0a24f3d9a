from pathlib import Path

from tests.golden.costs_page import answered
from tests.golden.gpu_links_page import PAGE


def test_the_page_shows_what_its_commands_answer(tmp_path: Path) -> None:
    """After a change that was meant: ``python -m tests.golden.gpu_links_page`` writes the answers."""
    page = PAGE.read_text()
    assert all(f"$ cri-proxy gpu {action}" in page for action in ("topology", "allocate", "score"))
    assert answered(page, tmp_path) == page
