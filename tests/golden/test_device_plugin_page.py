from pathlib import Path

from tests.golden.device_plugin_page import PAGE, answered


async def test_the_page_shows_what_containers_get(tmp_path: Path) -> None:
    """After a change that was meant: ``python -m tests.golden.device_plugin_page`` writes the answers."""
    page = PAGE.read_text()
    assert await answered(page, tmp_path) == page
