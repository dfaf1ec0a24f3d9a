"""What gets installed: every import is declared, every declared package is pinned, the service can start."""

import ast
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from cri_proxy.cli.main import command_parser, load_command
from cri_proxy.config.load import parse_config
from cri_proxy.config.model import Config
from tests.house.tree import PACKAGES, ROOT, parsed, python_files, shown

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
PINS = ROOT / "packaging" / "requirements"
DISTRIBUTIONS = packages_distributions()
# Tools of developers that stand beside what they make; the daemon never loads them.
TOOLS = {"cri_proxy/cri/generate.py": {"grpcio-tools"}}


def normal(name: str) -> str:
    """A distribution's name as registries compare it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[ <>=!~;\[]", name)[0]).lower()


def declared(*extras: str) -> set[str]:
    """The distributions that pyproject.toml asks for."""
    return {normal(d) for d in [*PROJECT["dependencies"], *(d for e in extras for d in EXTRAS[e])]}


def foreign_imports(path: Path) -> set[str]:
    """The distributions behind the imports of a file, without Python's own and ours."""
    names = {a.name for n in ast.walk(parsed(path)) if isinstance(n, ast.Import) for a in n.names}
    names |= {n.module for n in ast.walk(parsed(path)) if isinstance(n, ast.ImportFrom) and n.module and not n.level}
    roots = {n.partition(".")[0] for n in names} - sys.stdlib_module_names - {*PACKAGES, "tests", "benchmarks"}
    return {normal(DISTRIBUTIONS.get(root, [root])[0]) for root in roots if root != "google"} | (
        {"protobuf"} if "google" in roots else set()
    )


def test_every_import_of_the_sources_is_a_declared_dependency() -> None:
    allowed = declared("fast")
    wild = {shown(p): foreign_imports(p) - allowed - TOOLS.get(shown(p), set()) for p in python_files(*PACKAGES)}
    assert {name: missing for name, missing in wild.items() if missing} == {}


def test_every_import_of_the_tests_is_a_declared_dependency() -> None:
    allowed = declared("fast", "dev")
    wild = {shown(p): foreign_imports(p) - allowed for p in python_files("tests", "benchmarks")}
    assert {name: missing for name, missing in wild.items() if missing} == {}


def test_every_declared_dependency_is_used() -> None:
    used = {name for p in python_files(*PACKAGES) for name in foreign_imports(p)}
    assert sorted(declared("fast") - used) == []


@pytest.mark.parametrize(("pins", "extras"), [("run.txt", ["fast"]), ("dev.txt", ["fast", "dev"])])
def test_every_declared_dependency_is_pinned(pins: str, extras: list[str]) -> None:
    pinned = {normal(line) for line in (PINS / pins).read_text().splitlines() if re.match(r"[a-z]", line)}
    assert sorted(declared(*extras) - pinned) == []


def test_both_lists_of_pins_agree() -> None:
    run, dev = (set(re.findall(r"^\S+==\S+", (PINS / n).read_text(), re.MULTILINE)) for n in ("run.txt", "dev.txt"))
    assert run <= dev


def test_the_service_starts_the_program_as_it_wants_to_be_started() -> None:
    unit = (ROOT / "packaging" / "cri-proxy.service").read_text()
    found = re.search(r"^ExecStart=\S+/cri-proxy (\S+) (.*) \$CRI_PROXY_ARGS$", unit, re.MULTILINE)
    assert found
    parser = command_parser(found[1], load_command(found[1]), prints=False)
    assert parser.parse_args(found[2].split()).config == Path("/etc/cri-proxy/cri-proxy.yaml")


def test_the_shipped_configuration_and_environment_are_accepted() -> None:
    parse_config((ROOT / "packaging" / "cri-proxy.yaml").read_text(), "cri-proxy.yaml")
    commented = (ROOT / "packaging" / "cri-proxy.default").read_text().replace("#CRI", "CRI")
    parser = command_parser("run", load_command("run"), prints=False)
    for arguments in re.findall(r'^CRI_PROXY_ARGS="(.*)"$', commented, re.MULTILINE):
        parser.parse_args(arguments.split())


def test_the_environment_file_has_the_last_word_on_the_configuration() -> None:
    parser = command_parser("run", load_command("run"), prints=False)
    assert parser.parse_args(["--config", "/unit", "--config", "/environment"]).config == Path("/environment")


def test_the_socket_unit_opens_the_socket_that_the_proxy_listens_on() -> None:
    unit = (ROOT / "packaging" / "cri-proxy.socket").read_text()
    assert f"\nListenStream={Config().listen.removeprefix('unix://')}\n" in unit


@pytest.mark.parametrize("script", ["build.sh", "postinst", "prerm", "postrm"])
def test_scripts_of_the_package_are_shell(script: str) -> None:
    subprocess.run(["sh", "-n", ROOT / "packaging" / "deb" / script], check=True)


def test_a_page_that_an_installation_names_is_in_the_package() -> None:
    """The package holds what is below docs, and beside it what its build installs there by name."""
    named = {
        name.rstrip(".")
        for path in [*(ROOT / "packaging").rglob("*"), *(ROOT / "docs").glob("*.md")]
        if path.is_file()
        for name in re.findall(r"/usr/share/doc/cri-proxy/([\w./-]+)", path.read_text())
    }
    assert named
    built = (ROOT / "packaging" / "deb" / "build.sh").read_text()
    assert [n for n in sorted(named) if not (ROOT / "docs" / n).exists() and f"/doc/cri-proxy/{n}" not in built] == []
