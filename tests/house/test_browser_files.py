"""The files of the page: small, ours alone, and never a way for text to become markup or script."""

import re

from tests.house.tree import ROOT

PAGE = ROOT / "cri_proxy" / "http" / "page"
SCRIPT_LINES, ALL_BYTES = 250, 80 << 10
# Where a browser takes text for markup, script or style, or loads what is not the daemon's.
FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|\bFunction\(|srcdoc|DOMParser|createContextualFragment"
    r"|setTimeout\(\s*[\"'`]|https?://(?!www\.w3\.org/2000/svg)|@import|url\(|\bon[a-z]+=|\sstyle="
)


def texts() -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(PAGE.iterdir())}


def test_no_file_has_a_way_from_text_to_markup_or_to_elsewhere() -> None:
    found = {name: FORBIDDEN.findall(text) for name, text in texts().items()}
    assert {name: hits for name, hits in found.items() if hits} == {}


def test_each_way_is_seen() -> None:
    ways = (
        "e.innerHTML = x",
        "setTimeout('x')",
        "<p onclick=x>",
        "<p style=x>",
        "https://cdn.example/x.js",
        "new Function('x')",
    )
    assert [way for way in ways if not FORBIDDEN.search(way)] == []


def test_scripts_are_small_and_say_what_they_are_for() -> None:
    scripts = {name: text.splitlines() for name, text in texts().items() if name.endswith(".js")}
    assert {name: len(lines) for name, lines in scripts.items() if len(lines) > SCRIPT_LINES} == {}
    assert [name for name, lines in scripts.items() if not lines[0].startswith("// ")] == []
    assert sum(len(text.encode()) for text in texts().values()) <= ALL_BYTES
