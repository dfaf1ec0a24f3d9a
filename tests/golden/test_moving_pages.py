"""The tables of docs/moving are true: what they call read is read as the key beside it, and all else is reported."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cri_proxy.cli.help.parser import command_parser, load_command
from cri_proxy.config.load import load_config
from cri_proxy.config.model import known_options
from cri_proxy.cri.annotations.resource_managers import OF_OTHERS, OF_PEERS
from cri_proxy.cri.annotations.rules import DOMAINS
from cri_proxy.cri.annotations.table import TABLE
from tests.golden.costs_page import ROOT

PAGES = {path.stem: path.read_text() for path in sorted((ROOT / "docs" / "moving").glob("*.md"))}
OPTIONS = {known.key for known in known_options()}
ANNOTATIONS = {name for row in TABLE for name in row.keys}
NOT_HERE = ("without effect", "without counterpart", "always")
VALUES = {
    "cpu": "cpuset:0",
    "reservedpoolnamespaces": "[monitoring]",
    "unlimitedburstable": "numa",
    "defaultcpupriority": "high",
}
_ROW = re.compile(r"^\| `([^`]+)`[^|]* \| ([^|]+) \| (?:[^|]+) \|$", re.MULTILINE)


def rows(page: str, heading: str = "") -> Iterator[tuple[str, str]]:
    """Yield (theirs, ours) of the tables with a difference, below this heading."""
    text = PAGES[page].partition(f"\n## {heading}")[2].partition("\n## ")[0] if heading else PAGES[page]
    for found in _ROW.finditer(text):
        yield found[1], found[2].strip()


def value_of(key: str) -> str:
    """A value that this key of a peer takes."""
    return VALUES.get(key.rpartition(".")[2].lower(), "true")


def nested(path: list[str], value: str) -> str:
    return f"{{{path[0]}: {nested(path[1:], value) if path[1:] else value}}}"


def configuration(page: str, theirs: str) -> str:
    """A configuration of theirs with this key alone."""
    key, _, value = theirs.partition(": ")
    text = nested(key.split("."), value or value_of(key))
    if page == "cri-resource-manager":
        return text if key.startswith("policy.Active") else f"{text[:-1]}{'' if 'policy' in text else ', policy: {}'}}}"
    return f"{{apiVersion: config.nri/v1alpha1, kind: TopologyAwarePolicy, {text[1:]}"


@pytest.mark.parametrize(
    ("page", "theirs", "ours"),
    [(page, *row) for page in ("cri-resource-manager", "nri-plugins") for row in rows(page, "Configuration")],
)
def test_a_key_of_a_peer_is_read_as_the_one_beside_it(page: str, theirs: str, ours: str, tmp_path: Path) -> None:
    file = tmp_path / "peer.yaml"
    file.write_text(configuration(page, theirs))
    loaded = load_config(file)
    if ours == "without effect":
        assert [warning for warning in loaded.warnings if warning.startswith(f"{theirs}: a section of {page}")]
        assert loaded.given == frozenset()
    else:
        assert loaded.given == {ours.strip("`")}
        assert loaded.warnings == ()


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [row for page in ("cri-resource-manager", "nri-plugins") for row in rows(page, "Annotations")],
)
def test_an_annotation_of_a_peer_is_a_key_of_ours_or_known(theirs: str, ours: str) -> None:
    if ours == "without effect":
        assert theirs in OF_PEERS
    else:
        assert ours == f"`{theirs}`"
        assert theirs in ANNOTATIONS


def test_the_domains_of_the_peers_are_read() -> None:
    assert "cri-resource-manager.intel.com" in PAGES["cri-resource-manager"]
    assert "resource-policy.nri.io" in PAGES["nri-plugins"]
    assert {"cri-resource-manager.intel.com", "resource-policy.nri.io"} < set(DOMAINS)


@pytest.mark.parametrize("page", PAGES)
def test_what_stands_under_ours_exists(page: str) -> None:
    for theirs, ours in rows(page):
        named = re.findall(r"`([^`]+)`", ours)
        assert named or ours in NOT_HERE, theirs
        assert [key for key in named if key not in OPTIONS | ANNOTATIONS] == [], theirs


def test_the_annotations_of_cri_o_are_known() -> None:
    named = [theirs for theirs, _ in rows("openshift") if theirs.endswith(".crio.io")]
    assert len(named) == 5
    assert set(named) <= OF_OTHERS


def test_the_flags_of_ours_are_those_of_run() -> None:
    table = PAGES["cri-resource-manager"].partition("## Command line")[2].partition("\n## ")[0]
    named = {
        flag
        for row in re.findall(r"^\| `--.*", table, re.MULTILINE)
        for flag in re.findall(r"`(--\S+)`", row.split("|")[2])
    }
    help_of_run = command_parser("run", load_command("run")).format_help()
    assert len(named) == 7
    assert [flag for flag in named if f"{flag} " not in help_of_run] == []


def test_a_policy_that_we_lack_is_without_effect(tmp_path: Path) -> None:
    assert "`balloons`, `podpools`, `static-pools`" in PAGES["cri-resource-manager"]
    for name in ("balloons", "podpools", "static-pools"):
        (tmp_path / "peer.yaml").write_text(f"policy: {{Active: {name}}}")
        loaded = load_config(tmp_path / "peer.yaml")
        assert loaded.config.policy == "topology-aware"
        assert [w for w in loaded.warnings if w.startswith("policy.Active: a policy of cri-resource-manager")]
