"""Changelog fragments, one small file per change, and the program that joins them into docs/changelog.md."""

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.house.tree import ROOT, files, folder_of, shown

PROGRAM = ROOT / "packaging" / "changelog.py"
KINDS = ("added", "changed", "deprecated", "removed", "fixed", "security")
FRAGMENTS = [p for p in files() if folder_of(p) == "changes" and p.name not in ("README.md", ".gitkeep")]
RELEASED = "## 0.1.0\n\n### Fixed\n\n- Older.\n"
CHANGELOG = f"# Changelog\n\nWhat changed.\n\n## Unreleased\n\n### Added\n\n- Old.\n\n{RELEASED}"


def release(root: Path, fragments: Mapping[str, str], version: str = "", changelog: str = CHANGELOG) -> tuple[str, str]:
    """The changelog after these fragments were joined, and what the program said."""
    (root / "packaging").mkdir()
    (root / "docs").mkdir()
    (root / "changes").mkdir()
    program = root / "packaging" / PROGRAM.name
    program.write_text(PROGRAM.read_text())
    (root / "docs" / "changelog.md").write_text(changelog)
    (root / "changes" / "README.md").write_text("")
    for name, text in fragments.items():
        (root / "changes" / name).write_text(text)
    command = [sys.executable, str(program), *([version] if version else [])]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == bool(done.stderr)
    return (root / "docs" / "changelog.md").read_text(), done.stderr


def test_a_fragment_is_named_by_topic_and_kind() -> None:
    assert [shown(p) for p in FRAGMENTS if not re.fullmatch(rf"[a-z0-9-]+\.(?:{'|'.join(KINDS)})\.md", p.name)] == []


def test_a_fragment_is_one_sentence_or_two() -> None:
    long = {shown(p): p.read_text().strip() for p in FRAGMENTS}
    assert [name for name, text in long.items() if not 10 <= len(text) <= 500 or len(text.splitlines()) > 4] == []


def test_a_fragment_has_no_heading_and_ends_its_sentence() -> None:
    texts = {shown(p): p.read_text().strip() for p in FRAGMENTS}
    assert [name for name, text in texts.items() if text.startswith(("#", "-", "*")) or text[-1] not in ".`)"] == []


def test_fragments_are_added_by_kind_to_what_is_unreleased_and_removed(tmp_path: Path) -> None:
    text, _ = release(tmp_path, {"b.fixed.md": "Fixed\nthis.\n", "a.added.md": "New.\n"})
    new = "## Unreleased\n\n### Added\n\n- Old.\n- New.\n\n### Fixed\n\n- Fixed this.\n\n## 0.1.0\n"
    assert text == CHANGELOG.replace("## Unreleased\n\n### Added\n\n- Old.\n\n## 0.1.0\n", new)
    assert [path.name for path in (tmp_path / "changes").iterdir()] == ["README.md"]


def test_a_release_names_the_section_after_the_version(tmp_path: Path) -> None:
    text, _ = release(tmp_path, {}, "0.2.0")
    assert text == CHANGELOG.replace("Unreleased", "0.2.0")


def test_a_changelog_without_unreleased_changes_gets_the_section(tmp_path: Path) -> None:
    text, _ = release(tmp_path, {"a.security.md": "Closed."}, changelog=f"# Changelog\n\n{RELEASED}")
    assert text == f"# Changelog\n\n## Unreleased\n\n### Security\n\n- Closed.\n\n{RELEASED}"


@pytest.mark.parametrize(
    ("fragments", "version", "problem"),
    [
        ({}, "", "no fragments"),
        ({"a.fixes.md": "x"}, "", "a.fixes.md: expected TOPIC.KIND.md"),
        ({"a.fixed.md": "x"}, "0.1.0", "a section 0.1.0 already"),
        ({"a.fixed.md": "x"}, "next", "next: expected a version like 0.2.0"),
    ],
)
def test_what_cannot_be_joined_changes_nothing(
    tmp_path: Path, fragments: Mapping[str, str], version: str, problem: str
) -> None:
    text, error = release(tmp_path, fragments, version)
    assert (text, problem in error) == (CHANGELOG, True)
    assert len(list((tmp_path / "changes").iterdir())) == 1 + len(fragments)


def test_the_changelog_is_one_that_the_program_can_join(tmp_path: Path) -> None:
    changelog = (ROOT / "docs" / "changelog.md").read_text()
    text, error = release(tmp_path, {"zz.security.md": "The last one."}, changelog=changelog)
    assert (error, "- The last one.\n" in text) == ("", True)
    assert text.replace("- The last one.\n", "", 1) == changelog
