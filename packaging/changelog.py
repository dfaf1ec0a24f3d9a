#!/usr/bin/python3
"""Join the changelog fragments of changes/ into docs/changelog.md, and remove them.

    packaging/changelog.py             add them to the section "Unreleased"
    packaging/changelog.py 0.2.0       that, and name the section after the version

Exit status: 0 joined, 1 nothing to join or not a fragment. Standard library only.
"""

import argparse
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

KINDS = ("added", "changed", "deprecated", "removed", "fixed", "security")
UNRELEASED = "Unreleased"
WIDTH = 120
FRAGMENT_NAME = re.compile(rf"[a-z0-9]+(?:-[a-z0-9]+)*\.({'|'.join(KINDS)})\.md")
VERSION = re.compile(r"\d+\.\d+\.\d+")
ROOT = Path(__file__).resolve().parent.parent


class ChangelogError(Exception):
    """The fragments, the changelog or the version cannot be used; the text says why."""


def fragments(directory: Path) -> list[Path]:
    """Return the fragments of a directory by name. Raises ChangelogError for a file that is none."""
    found = sorted(path for path in directory.iterdir() if path.name not in {"README.md", ".gitkeep"})
    for path in found:
        if not FRAGMENT_NAME.fullmatch(path.name):
            raise ChangelogError(f"{path.name}: expected TOPIC.KIND.md with a KIND of {', '.join(KINDS)}")
    return found


def joined(changelog: str, entries: Mapping[str, Sequence[str]], version: str = "") -> str:
    """Return the changelog with entries, by kind, added to "Unreleased", and that section named after the version.

    Raises ChangelogError when there is nothing to release, or the version has a section already.
    """
    head, *sections = re.split(r"^(?=## )", changelog, flags=re.MULTILINE)
    names = [section.partition("\n")[0].removeprefix("## ").strip() for section in sections]
    if version in names:
        raise ChangelogError(f"the changelog has a section {version} already")
    latest = sections.pop(0) if names[:1] == [UNRELEASED] else f"## {UNRELEASED}\n"
    blocks = _blocks(latest)
    for kind, texts in entries.items():
        blocks.setdefault(kind, []).extend(_item(text) for text in texts)
    if not any(blocks.values()):
        raise ChangelogError("nothing has changed since the last version")
    parts = [f"### {kind.capitalize()}\n\n" + "\n".join(blocks[kind]) + "\n" for kind in KINDS if blocks.get(kind)]
    section = f"## {version or UNRELEASED}\n\n" + "\n".join(parts)
    return "\n".join([head.rstrip("\n") + "\n", section, *sections])


def _blocks(section: str) -> dict[str, list[str]]:
    """Return the entries of a section, as they stand, by kind."""
    blocks: dict[str, list[str]] = {}
    for part in re.split(r"^### ", section, flags=re.MULTILINE)[1:]:
        title, _, text = part.partition("\n")
        if title.strip().lower() not in KINDS:
            raise ChangelogError(f"the changelog has a heading {title.strip()!r}, which is no kind of change")
        blocks[title.strip().lower()] = [text.strip("\n")] if text.strip() else []
    return blocks


def _item(text: str) -> str:
    """Return a fragment as a list item, wrapped."""
    return textwrap.fill(
        " ".join(text.split()), WIDTH, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False
    )


def join(root: Path, version: str = "") -> int:
    """Join the fragments below ``root``, write the changelog and remove them; return how many there were."""
    if version and not VERSION.fullmatch(version):
        raise ChangelogError(f"{version}: expected a version like 0.2.0")
    changelog, paths = root / "docs" / "changelog.md", fragments(root / "changes")
    if not paths and not version:
        raise ChangelogError("there are no fragments in changes/")
    entries: dict[str, list[str]] = {}
    for path in paths:
        entries.setdefault(path.name.split(".")[-2], []).append(path.read_text())
    changelog.write_text(joined(changelog.read_text(), entries, version))
    for path in paths:
        path.unlink()
    return len(paths)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("version", nargs="?", default="", help="the version to release, like 0.2.0")
    options = parser.parse_args()
    try:
        count = join(ROOT, options.version)
    except ChangelogError as error:
        print(f"changelog: {error}", file=sys.stderr)
        return 1
    print(f"joined {count} fragments into docs/changelog.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
