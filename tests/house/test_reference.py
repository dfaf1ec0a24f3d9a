"""The reference pages, whose tables packaging/reference.py writes from the code."""

import subprocess
import sys

import pytest

from cri_proxy.config.model import known_options
from cri_proxy.cri.annotations.exact_resources import KEYS
from cri_proxy.cri.annotations.foreign_rows import EVERY_ROW as ANNOTATIONS
from cri_proxy.cri.annotations.resource_managers import OF_OTHERS, OF_PEERS
from cri_proxy.cri.annotations.rules import DOMAINS
from cri_proxy.doctor.catalog import FindingCode
from cri_proxy.metrics.catalog import TABLE as METRICS
from tests.house.tree import ROOT

PAGES = ROOT / "docs" / "reference"


def test_the_tables_are_what_the_code_says() -> None:
    done = subprocess.run([sys.executable, ROOT / "packaging" / "reference.py", "--check"], check=False, stderr=-1)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("options.md", [known.key for known in known_options()]),
        ("annotations.md", [row.key for row in ANNOTATIONS]),
        ("metrics.md", [metric.name for metric in METRICS]),
        ("findings.md", [str(code) for code in FindingCode]),
    ],
)
def test_everything_has_its_row_of_as_many_cells_as_the_head(page: str, names: list[str]) -> None:
    head, _, table = (PAGES / page).read_text().rpartition("\n|---")
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    assert [row.split("`")[1] for row in rows] == names
    assert {row.replace("\\|", "").count(" | ") for row in rows} == {head.splitlines()[-1].count(" | ")}


def test_every_key_of_a_document_has_a_meaning() -> None:
    table = (PAGES / "documents.md").read_text().rpartition("\n|---")[2]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| `")]
    assert len(rows) > 100
    assert [row for row in rows if len(row) != 4 or not row[3].strip(" |")] == []


def test_the_page_of_annotations_names_domains_and_keys_without_a_row() -> None:
    page = (PAGES / "annotations.md").read_text()
    assert [word for word in (*DOMAINS, *KEYS, *OF_PEERS, *OF_OTHERS) if f"`{word}`" not in page] == []
