"""What a running daemon may still load: a package that is replaced under it must not mix two versions in one process.

dpkg unpacks the new files first and restarts the daemon last. What is imported in between is the new version's, beside
modules of the old one. So what a function imports is either loaded before the daemon decides, or stands here with why
the mixture can do no harm to a call.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.tree import PACKAGES, ROOT, parsed, python_files, shown

# Other processes, which live for a moment, or have nobody's calls in their hands.
NOT_THE_DAEMON = (
    "cri_proxy/cli/",
    "cri_proxy/simulate/",
    "sysfs/sources.py",
)
AT_START = "before it decides"
HARMLESS = {
    "cri_proxy/daemon/app.py": AT_START,
    "cri_proxy/daemon/admin.py": "at start, or by the first question of its kind, which may fail, and no call with it",
    "cri_proxy/daemon/engine.py": AT_START,
    "cri_proxy/cri/annotations/rules.py": AT_START,
    "cri_proxy/logs.py": "by a log for people, which a service of systemd's does not write",
    "cri_proxy/http/routes.py": "by the first question for the topology, which may fail, and no call with it",
}


def imported(node: ast.AST) -> tuple[str, ...]:
    if isinstance(node, ast.Import):
        return tuple(alias.name for alias in node.names)
    return (node.module,) if isinstance(node, ast.ImportFrom) and node.module else ()


def late(tree: ast.AST) -> Iterator[str]:
    """What functions import that is not Python's own, which our package does not bring."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            names = (name for node in ast.walk(function) for name in imported(node))
            yield from (name for name in names if name.partition(".")[0] not in sys.stdlib_module_names)


def of_the_daemon() -> list[Path]:
    return [path for path in python_files(*PACKAGES) if not shown(path).startswith(NOT_THE_DAEMON)]


def test_nothing_is_loaded_late_that_an_upgrade_could_mix() -> None:
    found = {shown(path): sorted(set(late(parsed(path)))) for path in of_the_daemon()}
    assert {name: names for name, names in found.items() if names and name not in HARMLESS} == {}


def test_every_reason_is_still_needed() -> None:
    assert [name for name in HARMLESS if not list(late(parsed(ROOT / name)))] == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import x", []),
        ("def f():\n  from x.y import z", ["x.y"]),
        ("async def f():\n  import json, x", ["x"]),
        ("if TYPE_CHECKING:\n  import x", []),
    ],
)
def test_an_import_is_late_inside_a_function(text: str, names: list[str]) -> None:
    assert list(late(ast.parse(text))) == names
