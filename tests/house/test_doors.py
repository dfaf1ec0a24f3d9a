"""Rooms with a door: the outside imports their names from the package, and from no module inside."""

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from tests.house.tree import PACKAGES, ROOT, parsed, python_files, shown

TESTED_THROUGH = ("policies.devices", "policies.devices.costs", "policies.devices.links", "policies.hints")
# Rules of placement build an oracle from parts of the policy: this door is for the product and its benchmarks.
ROOMS = (*TESTED_THROUGH, "policies.topology_aware")


def room_of(module: str) -> str:
    """The innermost room that a module is, or is in; '' for none."""
    return max((room for room in ROOMS if f"{module}.".startswith(f"{room}.")), key=len, default="")


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """The modules that a file imports from, each with the name."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)


def from_outside() -> Iterator[tuple[Path, str, str]]:
    """The imports from rooms by files that neither are in the room nor among its unit tests."""
    for path in python_files(*PACKAGES, "tests", "benchmarks", "packaging"):
        home = room_of(".".join(path.parent.relative_to(ROOT).parts).removeprefix("tests.unit."))
        yield from ((path, module, name) for module, name in imports(path) if room_of(module) not in ("", home))


def at_door(room: str) -> dict[str, str]:
    """The modules of the names at a door, as its stub lists them."""
    stub = ROOT / room.replace(".", "/") / "__init__.pyi"
    return {name: module for module, name in imports(stub)}


def test_the_outside_imports_from_doors_only() -> None:
    past = [(shown(path), module) for path, module, _ in from_outside() if module not in ROOMS]
    assert [found for found in past if not found[0].startswith("tests/") or room_of(found[1]) in TESTED_THROUGH] == []


@pytest.mark.parametrize("room", ROOMS)
def test_each_name_of_a_door_is_that_of_its_module(room: str) -> None:
    door = import_module(room)
    assert [n for n, module in at_door(room).items() if getattr(door, n) is not getattr(import_module(module), n)] == []


@pytest.mark.parametrize("room", ROOMS)
def test_no_name_of_a_door_is_that_of_a_module(room: str) -> None:
    """The module would take the name's place as soon as it is loaded."""
    inside = {path.stem for path in (ROOT / room.replace(".", "/")).iterdir()}
    assert inside & at_door(room).keys() == set()


def test_every_name_of_a_door_is_imported_from_outside() -> None:
    used = {(module, name) for _, module, name in from_outside()}
    assert {(room, name) for room in ROOMS for name in at_door(room)} - used == set()


def test_the_rows_of_the_ledger_are_changed_by_the_rooms_of_the_node_alone() -> None:
    """Others ask the coordinator, which saves and reports what it changes."""
    writes = ("ledger.put(", "ledger.drop(")
    outside = [path for path in python_files("cri_proxy") if not path.is_relative_to(ROOT / "cri_proxy" / "node")]
    assert [shown(path) for path in outside if any(write in path.read_text() for write in writes)] == []
