"""Where things stand: every source file has its test file, and no folder or module is a place for leftovers."""

import ast
import os
import re
from pathlib import Path

from tests.house.test_doors import ROOMS
from tests.house.tree import PACKAGES, ROOT, files, folder_of, functions, python_files, shown

# Source files without behaviour, each with the reason.
WITHOUT_A_TEST_FILE = {
    "cri_proxy/relay/calls.py": "values and a Protocol only; tests/relay holds both relays to it",
    "cri_proxy/node/status/daemon_view.py": "a Protocol only; what HTTP serves is held to it by the types",
    "cri_proxy/node/status/decision_views.py": "values only; test_model.py has them beside those of the status",
    "policies/answers.py": "values only",
}
# Rooms that are tested through their doors: what is inside may move.
ROOMS_WITH_DOORS = {room.replace(".", "/") for room in ROOMS}
LEFTOVER_NAMES = {"utils", "util", "helpers", "helper", "common", "misc"}
FOLDERS = {*PACKAGES, "configs", "tests", "packaging", "docs", "changes", "benchmarks"}


def has_test_file(source: Path) -> bool:
    inside = source.relative_to(ROOT)
    return (ROOT / "tests" / "unit" / inside.parent / f"test_{source.stem}.py").is_file()


def modules() -> list[Path]:
    return [p for p in python_files(*PACKAGES) if p.stem != "__init__"]


def inner_walls() -> set[Path]:
    """The modules of rooms with doors."""
    return {p for p in modules() if shown(p.parent) in ROOMS_WITH_DOORS}


def subjects(test: Path) -> list[Path]:
    """The source files that a test file, given from tests/unit, may be about."""
    words = test.stem.removeprefix("test_")
    return [s for s in (ROOT / test.parent).glob("*.py") if words == s.stem or words.startswith(f"{s.stem}_")]


def test_every_source_file_has_its_test_file() -> None:
    missing = {shown(p) for p in {*modules()} - inner_walls() if not has_test_file(p)}
    assert sorted(missing - WITHOUT_A_TEST_FILE.keys()) == []


def test_an_excuse_is_dropped_once_it_is_not_needed() -> None:
    needed = {shown(p) for p in modules() if not has_test_file(p)}
    assert sorted(WITHOUT_A_TEST_FILE.keys() - needed) == []


def test_a_source_file_is_excused_only_while_it_has_no_behaviour() -> None:
    bodies = {name: [n for f in functions(ROOT / name) for n in f.body] for name in WITHOUT_A_TEST_FILE}
    code = {name: [n for n in body if not isinstance(n, ast.Expr)] for name, body in bodies.items()}
    assert [name for name, statements in code.items() if statements] == []


def test_every_unit_test_file_names_the_source_file_that_it_tests() -> None:
    """``test_pools.py`` and, where one file would be too long, ``test_pools_names.py`` test ``pools.py``."""
    unit = ROOT / "tests" / "unit"
    tests = [p for p in python_files("tests") if p.is_relative_to(unit) and p.name.startswith("test_")]
    assert [shown(p) for p in tests if not subjects(p.relative_to(unit))] == []


def test_no_module_is_a_place_for_leftovers() -> None:
    assert [shown(p) for p in python_files(*PACKAGES, "tests", "benchmarks") if p.stem in LEFTOVER_NAMES] == []


def test_the_rooms_of_the_house_are_those_of_the_plan() -> None:
    """A hidden folder belongs to a tool; ``*.egg-info`` and the like are made by one."""
    made = {"build", "dist"}
    found = {p.name for p in ROOT.iterdir() if p.is_dir() and p.name[0] != "." and p.suffix != ".egg-info"}
    assert found - made - {"__pycache__"} == FOLDERS


def test_the_plan_names_every_room() -> None:
    plan = (ROOT / "docs" / "design.md").read_text().partition("## The house")[2].partition("| to add |")[0]
    rooms = {p.parent for p in python_files(*PACKAGES, "tests") if len(p.relative_to(ROOT).parts) == 3}
    assert sorted(shown(room) for room in rooms if not re.search(rf"\b{room.name}/", plan)) == []


def test_our_packaging_folder_does_not_shadow_the_module_of_that_name() -> None:
    assert [shown(p) for p in files() if folder_of(p) == "packaging" and p.name == "__init__.py"] == []


def test_tests_are_no_package() -> None:
    assert [shown(p) for p in python_files("tests") if p.name == "__init__.py"] == []


def test_what_is_started_by_name_can_be_started() -> None:
    """A shell script without a first line is there to be sourced; those of the tests run on other machines."""
    scripts = [p for p in files() if p.suffix == ".sh" and folder_of(p) == "packaging"]
    started = [p for p in scripts if p.read_text().startswith("#!")] + [ROOT / ".ci" / "run"]
    assert [shown(p) for p in started if not os.access(p, os.X_OK)] == []
