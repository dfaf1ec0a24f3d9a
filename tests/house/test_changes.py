"""Changelog fragments: one small file per change, so that two changes never meet in one line."""

import re

from tests.house.tree import files, folder_of, shown

KINDS = ("added", "changed", "deprecated", "removed", "fixed", "security")
FRAGMENTS = [p for p in files() if folder_of(p) == "changes" and p.name not in ("README.md", ".gitkeep")]


def test_a_fragment_is_named_by_topic_and_kind() -> None:
    form = re.compile(rf"[a-z0-9]+(?:-[a-z0-9]+)*\.(?:{'|'.join(KINDS)})\.md")
    assert [shown(p) for p in FRAGMENTS if not form.fullmatch(p.name)] == []


def test_a_fragment_is_one_sentence_or_two() -> None:
    long = {shown(p): p.read_text().strip() for p in FRAGMENTS}
    assert [name for name, text in long.items() if not 10 <= len(text) <= 500 or len(text.splitlines()) > 4] == []


def test_a_fragment_has_no_heading_and_ends_its_sentence() -> None:
    texts = {shown(p): p.read_text().strip() for p in FRAGMENTS}
    assert [name for name, text in texts.items() if text.startswith(("#", "-", "*")) or text[-1] not in ".`)"] == []
