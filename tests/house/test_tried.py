"""The table of versions: filled by stages that have passed, and kept when other versions come."""

import importlib.util
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from tests.house.tree import ROOT
from tests.tried import has_passed_whole, here, note, of_image

HEAD = "# Versions\n\n| part | version | played | last |\n|---|---|---|---|\n"
PAGE = f"{HEAD}| kernel | 6.1 | pods | 2026-01-02 |\n\nEnd.\n"


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "packaging" / "reference.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_note_becomes_a_row_or_the_last_day_of_one(reference: ModuleType, tmp_path: Path) -> None:
    notes = tmp_path / "a" / "tried.jsonl"
    note("pods", [("kernel", "6.1"), ("runc", "1.1.4")], notes, "2026-03-04")
    note("pods", [("kernel", "6.1")], notes, "2026-02-03")
    written = reference.with_notes(PAGE, notes)
    assert "| kernel | 6.1 | pods | 2026-03-04 |\n| runc | 1.1.4 | pods | 2026-03-04 |\n\nEnd." in written
    assert reference.with_notes(written, notes) == written
    assert reference.with_notes(PAGE, tmp_path / "none") == PAGE


def test_only_a_whole_stage_that_passed_is_noted() -> None:
    def session(report: str | None) -> pytest.Session:
        return SimpleNamespace(config=SimpleNamespace(option=SimpleNamespace(xmlpath=report)))  # type: ignore[return-value]

    assert has_passed_whole(session("e2e.xml"), 0)
    assert not has_passed_whole(session("e2e.xml"), 1)
    assert not has_passed_whole(session(None), 0)


def test_an_emulated_machine_is_known_by_the_packages_of_its_disk() -> None:
    info = {
        "kernel": "6.1.0",
        "packages": ["runc_1.1.5+ds1-1_amd64.deb", "bash_5_amd64.deb", "systemd_1%3a252_all.deb"],
    }
    assert [*of_image(info)] == [("kernel", "6.1.0"), ("runc", "1.1.5+ds1-1"), ("systemd", "1:252")]


def test_the_page_has_every_part_once_for_what_was_played(reference: ModuleType) -> None:
    rows = [line.split(" | ")[:3] for line in reference.VERSIONS.read_text().splitlines() if line.startswith("| ")][1:]
    assert rows
    assert len({tuple(row) for row in rows}) == len(rows)


def test_the_parts_of_this_machine_have_versions() -> None:
    try:
        parts = dict(here())
    except FileNotFoundError:  # no runtime is installed: the stage that notes it does not pass either
        return
    assert parts["kernel"][0].isdigit() and parts["containerd"][0].isdigit() and parts["runc"][0].isdigit()
