"""The examples of the pages about ``explain`` and devices are what the commands print."""

from tests.golden.explained import COSTS_PAGE, COSTS_SCENARIO, PAGE, filled


def test_the_page_shows_what_the_command_prints() -> None:
    """After a change that was meant: ``python -m tests.golden.explained`` writes the page anew."""
    page = PAGE.read_text()
    assert page == filled(page)
    assert page.count("$ cri-proxy explain") == 5
    assert "pools, best first" in page


def test_the_page_about_costs_shows_what_the_commands_print_of_devices() -> None:
    """The scenario is one that users can play, and that checks itself."""
    page = COSTS_PAGE.read_text()
    assert page == filled(page, COSTS_SCENARIO)
    assert page.count("$ cri-proxy explain") == page.count("$ cri-proxy status") == 1
    assert f"]({COSTS_SCENARIO.relative_to(COSTS_PAGE.parents[1])})" in page.replace("../", "")
    assert "choice of devices" in page
    assert "DEVICES" in page
