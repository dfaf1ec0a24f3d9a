"""The documentation holds what it says: links lead somewhere, commands exist, decisions have their form."""

import re
from pathlib import Path

from cri_proxy.cli.help.commands import COMMANDS
from cri_proxy.cri.annotations.table import TABLE
from policies.topology_aware.keys.score import Key
from policies.topology_aware.reason_codes import ReasonCode
from tests.house.tree import ROOT, files, shown

PAGES = [p for p in files() if p.suffix == ".md"]
DECISIONS = sorted((ROOT / "docs" / "adr").glob("*.md"))
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
SECTIONS = ["Context", "Decision", "What we gave up", "How we would notice being wrong"]
ONE_PAGE_LINES = 60
# What lies in /etc/cri-proxy: the configuration, files that it or a command may name, directories of such files.
FILES_OF_A_NODE = {
    *("cri-proxy.yaml", "devices.yaml", "links.txt", "gpu-links", "cluster", "costs.d", "exporter.conf"),
    *("tls.crt", "tls.key", "http-tokens"),
}


def slug(heading: str) -> str:
    """The anchor of a heading, as code hosts make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower().replace("`", "")).strip().replace(" ", "-")


def anchors(page: Path) -> set[str]:
    return {slug(h) for h in re.findall(r"^#+ +(.*)$", FENCE.sub("", page.read_text()), re.MULTILINE)}


def broken_links(page: Path) -> list[str]:
    """The links of a page that lead nowhere in this tree. Links to other sites are not followed."""
    broken = []
    for target in LINK.findall(FENCE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        there = (page.parent / name).resolve() if name else page
        if not there.exists() or (anchor and there.suffix == ".md" and anchor not in anchors(there)):
            broken.append(target)
    return broken


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def commands_of(page: Path, program: str) -> set[str]:
    text = page.read_text()
    code = "\n".join([*FENCE.findall(text), *re.findall(r"`[^`\n]+`", FENCE.sub("", text))])
    return set(re.findall(rf"(?:^|[\s`$#]){program} ([a-z][a-z-]*)", code, re.MULTILINE))


def test_every_link_leads_somewhere() -> None:
    broken = {shown(page): broken_links(page) for page in PAGES}
    assert {page: links for page, links in broken.items() if links} == {}


def test_every_make_command_in_the_documentation_exists() -> None:
    unknown = {shown(page): commands_of(page, "make") - make_targets() for page in PAGES}
    assert {page: names for page, names in unknown.items() if names} == {}


def test_every_command_of_ours_in_the_documentation_exists() -> None:
    commands = {*COMMANDS, "help"}
    unknown = {shown(page): commands_of(page, "cri-proxy") - commands for page in PAGES}
    assert {page: names for page, names in unknown.items() if names} == {}


def test_pages_and_help_name_one_place_for_each_file_of_a_node() -> None:
    """A page that wrote config.yaml configured nothing: the daemon's unit reads cri-proxy.yaml."""
    sources = [*PAGES, *(p for p in files() if p.suffix in (".py", ".service", ".yaml") and p.parts[-2] != "tests")]
    named = {
        (shown(path), name)
        for path in sources
        if ROOT / "tests" not in path.parents
        for name in re.findall(r"/etc/cri-proxy/([\w.-]+\w)", path.read_text())
    }
    assert {(page, name) for page, name in named if name not in FILES_OF_A_NODE} == set()
    assert {name for _, name in named} == FILES_OF_A_NODE


def test_decisions_are_numbered_without_gaps() -> None:
    numbers = [int(p.name[:4]) for p in DECISIONS if re.fullmatch(r"\d{4}(-[a-z0-9]+)+\.md", p.name)]
    assert numbers == list(range(1, len(DECISIONS) + 1))


def test_a_decision_has_the_four_parts_and_fits_a_page() -> None:
    bad = {}
    for path in DECISIONS:
        text = path.read_text()
        is_titled = text.startswith(f"# {int(path.name[:4])}. ")
        if re.findall(r"^## (.*)$", text, re.MULTILINE) != SECTIONS or not is_titled:
            bad[path.name] = "parts"
        elif len(text.splitlines()) > ONE_PAGE_LINES:
            bad[path.name] = "length"
    assert bad == {}


def test_every_page_can_be_reached_from_the_readme() -> None:
    seen: set[Path] = set()
    ahead = [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        seen.add(page)
        names = [t.partition("#")[0] for t in LINK.findall(FENCE.sub("", page.read_text())) if ":" not in t]
        linked = {(page.parent / name).resolve() for name in names if name.endswith(".md")}
        ahead += [p for p in linked - seen if p.exists()]
    docs = {p for p in PAGES if p.is_relative_to(ROOT / "docs")}
    assert sorted(shown(p) for p in docs - seen) == []


def test_the_reading_of_a_day_names_files_that_there_are() -> None:
    """After a move only the path in the page changes; a file is read once."""
    hours = (ROOT / "docs" / "reading.md").read_text().split("\n## ")[1:]
    named = [re.findall(r"^\| `([^`]+)` \|", hour, re.MULTILINE) for hour in hours]
    assert [len(files_of_hour) for files_of_hour in named] == [4] * 8
    paths = [path for files_of_hour in named for path in files_of_hour]
    assert [path for path in paths if not (ROOT / path).is_file() or paths.count(path) > 1] == []


def test_every_target_of_the_makefile_says_what_it_does() -> None:
    text = (ROOT / "Makefile").read_text()
    assert [t for t in make_targets() if not re.search(rf"^{t}:.*## .", text, re.MULTILINE)] == []


def test_the_readme_names_only_annotations_that_there_are() -> None:
    """A selection: the generated page has all, so that a new one needs no line in the README."""
    section = (ROOT / "README.md").read_text().partition("## Annotations")[2].partition("\n## ")[0]
    first_cells = [row.split("|")[1] for row in section.splitlines() if row.startswith("| `")]
    listed = {key for cell in first_cells for key in re.findall(r"`([^`]+)`", cell)}
    assert listed
    assert listed <= {row.key for row in TABLE}


def test_the_rules_of_placement_list_the_key_as_it_is() -> None:
    section = (ROOT / "docs" / "placement.md").read_text().partition("## 4.")[2].partition("\n## ")[0]
    rows = [row.split("|")[1] for row in section.splitlines() if row.startswith("| `")]
    assert re.findall(r"`(\w+)`", "".join(rows)) == list(Key._fields)


def test_the_rules_of_placement_name_each_reason_in_one_place_and_no_other() -> None:
    rules, _, names = (ROOT / "docs" / "placement.md").read_text().partition("\n## 10. Names of reasons")
    cells = [row.split("|")[2] for row in names.splitlines() if row.startswith("| ")]
    assert sorted(re.findall(r"`([^`]+)`", "".join(cells))) == sorted(code.value for code in ReasonCode)
    in_sentences = re.findall(r"\*([a-z]+(?:-[a-z]+)+)\*", rules)
    assert len(in_sentences) > 10
    assert set(in_sentences) <= {code.value for code in ReasonCode}
