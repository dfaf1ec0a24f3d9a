"""The mutants of the product: areas, stable names, and the list of survivors that were accepted with a reason."""

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from tests.mutation.operators import Change, Function, changes_of

ROOT: Final = Path(__file__).resolve().parents[2]
SURVIVORS: Final = Path(__file__).with_name("survivors.yaml")
_LONGEST_NAME: Final = 160


@dataclass(frozen=True, slots=True)
class Area:
    """A part of the product, and the tests that shall find its faults. Both are paths below the root."""

    name: str
    code: tuple[str, ...]
    tests: tuple[str, ...]


AREAS: Final = (
    Area(
        "policies",
        ("policies/*.py", "policies/hardware/*.py", "policies/topology_aware/**/*.py"),
        ("tests/unit/policies", "tests/contract", "tests/golden", "tests/property"),
    ),
    # Rooms with a door: their own tests, and those of the rooms that go through it.
    Area("costs", ("policies/devices/costs/*.py",), ("tests/unit/policies/devices", "tests/property")),
    Area(
        "links",
        ("policies/devices/links/*.py",),
        ("tests/unit/policies/devices", "tests/unit/cri_proxy/extender", "tests/property"),
    ),
    Area(
        "hints",
        ("policies/hints/*.py",),
        ("tests/unit/policies/hints", "tests/unit/policies/topology_aware/alignment", "tests/property"),
    ),
    Area(
        "allocation",
        ("policies/devices/*.py", "policies/devices/plugin/*.py"),
        ("tests/unit/policies/devices", "tests/unit/policies/topology_aware/devices", "tests/property"),
    ),
    Area(
        "relay",
        # What both relays share and the splice; the grpcio relay is left to the suites that compare the two.
        ("cri_proxy/relay/*.py", "cri_proxy/http2/*.py"),
        ("tests/unit/cri_proxy/relay", "tests/unit/cri_proxy/http2", "tests/relay", "tests/fuzz"),
    ),
    Area("ledger", ("cri_proxy/node/ledger/*.py",), ("tests/unit/cri_proxy/node", "tests/property")),
    Area(
        "devices",
        # What others say of a container's devices and CPUs, and what it is given of devices.
        (
            "cri_proxy/cri/cdi/*.py",
            "cri_proxy/cri/devices/*.py",
            "cri_proxy/cri/device_names/*.py",
            "cri_proxy/device_files/cdi.py",
            "cri_proxy/device_files/nvidia_driver.py",
            "cri_proxy/cri/claim.py",
            "cri_proxy/foreign_files/*.py",
            "cri_proxy/intercept/container_devices.py",
            "cri_proxy/runtime/cdi_support.py",
            "cri_proxy/node/runtime_cdi.py",
            "cri_proxy/node/sync/claims.py",
        ),
        (
            "tests/unit/cri_proxy/cri",
            "tests/unit/cri_proxy/device_files",
            "tests/unit/cri_proxy/foreign_files",
            "tests/unit/cri_proxy/intercept",
            "tests/unit/cri_proxy/runtime",
            "tests/unit/cri_proxy/node",
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Module:
    """A parsed source file."""

    file: Path
    name: str
    tree: ast.Module


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault in one function. The name holds no line number: it outlives edits elsewhere."""

    name: str
    area: str
    module: Module
    function: Function
    qualname: str
    change: Change

    @property
    def place(self) -> str:
        """Module and function."""
        return f"{self.module.name}:{self.qualname}"

    @property
    def fingerprint(self) -> str:
        """Changes with the function."""
        return hashlib.sha256(ast.unparse(self.function).encode()).hexdigest()[:12]


def mutants_of(area: Area) -> Iterator[Mutant]:
    """Every mutant of an area, in the order of the source."""
    for file in sorted({file for pattern in area.code for file in ROOT.glob(pattern)}):
        name = ".".join(file.relative_to(ROOT).with_suffix("").parts)
        module = Module(file, name, ast.parse(file.read_text(), str(file)))
        for qualname, function in _functions(module.tree.body, ""):
            seen: Counter[str] = Counter()
            for change in changes_of(function):
                shown = _cut(change.shown)
                seen[shown] += 1
                again = f" #{seen[shown]}" if seen[shown] > 1 else ""
                yield Mutant(f"{name}:{qualname} | {shown}{again}", area.name, module, function, qualname, change)


def _functions(body: Sequence[ast.stmt], prefix: str) -> Iterator[tuple[str, Function]]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node.body, f"{prefix}{node.name}.")


def _cut(shown: str) -> str:
    if len(shown) <= _LONGEST_NAME:
        return shown
    return f"{shown[: _LONGEST_NAME - 12]}... {hashlib.sha256(shown.encode()).hexdigest()[:8]}"


def survivors() -> dict[str, str]:
    """The accepted survivors by name, each with its reason."""
    listed = yaml.safe_load(SURVIVORS.read_text()) or {}
    return {str(name): str(reason) for name, reason in listed.items()}


def draw(mutants: Sequence[Mutant], number: int, seed: str) -> list[Mutant]:
    """A sample that depends on nothing but the seed and the names, in an order of chance."""
    return sorted(mutants, key=lambda mutant: hashlib.sha256(f"{seed} {mutant.name}".encode()).digest())[:number]
