from pathlib import Path

from cri_proxy.cri.annotations.docs import annotations_page
from cri_proxy.cri.annotations.table import OF_PEERS, TABLE

PAGE = Path(__file__).parents[5] / "docs" / "reference" / "annotations.md"


def test_the_page_in_the_repository_is_the_generated_one() -> None:
    remedy = "run: python -m cri_proxy.cri.annotations.docs > docs/reference/annotations.md"
    assert PAGE.read_text() == annotations_page(), remedy


def test_every_annotation_has_its_row() -> None:
    table = annotations_page().partition("| key |")[2]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == [row.key for row in TABLE]
    assert {row.count(" | ") for row in rows} == {2}


def test_keys_without_effect_are_named() -> None:
    assert all(f"`{key}`" in annotations_page() for key in OF_PEERS)
