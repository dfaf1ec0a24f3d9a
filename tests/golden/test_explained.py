"""The examples of the page about ``explain`` are what it prints."""

from tests.golden.explained import PAGE, filled


def test_the_page_shows_what_the_command_prints() -> None:
    """After a change that was meant: ``python -m tests.golden.explained`` writes the page anew."""
    page = PAGE.read_text()
    assert page == filled(page)
    assert page.count("$ cri-proxy explain") == 3
    assert "pools, best first" in page
