from pathlib import Path

from cri_proxy.config.docs import options_page
from cri_proxy.config.model import known_options

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "options.md"


def test_the_page_in_the_repository_is_the_generated_one() -> None:
    assert PAGE.read_text() == options_page(), "run: python -m cri_proxy.config.docs > docs/reference/options.md"


def test_every_option_has_its_row() -> None:
    rows = [line for line in options_page().splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == [known.key for known in known_options()]


def test_every_row_has_as_many_cells_as_the_head() -> None:
    rows = [line for line in options_page().splitlines() if line.startswith("|")]
    assert {row.replace("\\|", "").count("|") for row in rows} == {8}
