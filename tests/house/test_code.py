"""What the linters cannot say: documentation, frozen values, and who may end the process."""

import ast
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from tests.house.tree import PACKAGES, ROOT, FunctionNode, functions, parsed, python_files, shown

SOURCES = python_files(*PACKAGES)
DOCUMENTED = Fraction(95, 100)
FROZEN = Fraction(90, 100)
RAW_CLOCKS = ("monotonic", "monotonic_ns")
OWN = {*PACKAGES, "tests", "benchmarks"}


def public_things(path: Path) -> Iterator[tuple[str, bool]]:
    """(where, whether it has a docstring) of the module, its public classes, functions and methods."""
    tree = parsed(path)
    if tree.body:
        yield shown(path), ast.get_docstring(tree) is not None
    yield from public_members(path, tree.body)


def public_members(path: Path, body: list[ast.stmt]) -> Iterator[tuple[str, bool]]:
    """The same for the members of a module or class. Functions inside functions are nobody else's business."""
    for node in body:
        if not isinstance(node, ast.ClassDef | FunctionNode) or node.name.startswith("_"):
            continue
        if {ast.unparse(d).rpartition(".")[2] for d in node.decorator_list} & {"overload", "setter"}:
            continue
        yield f"{shown(path)}:{node.lineno} {node.name}", ast.get_docstring(node) is not None
        if isinstance(node, ast.ClassDef):
            yield from public_members(path, node.body)


def dataclass_options(path: Path) -> Iterator[tuple[str, bool]]:
    """(where, whether frozen) of each dataclass. An error is none: raising sets attributes on it."""
    for node in ast.walk(parsed(path)):
        for call in node.decorator_list if isinstance(node, ast.ClassDef) else ():
            text = ast.unparse(call)
            if text.partition("(")[0].rpartition(".")[2] == "dataclass" and "eq=False" not in text:
                yield f"{shown(path)}:{call.lineno}", "frozen=True" in text


def test_nearly_everything_public_is_documented() -> None:
    things = [thing for p in SOURCES for thing in public_things(p)]
    bare = [where for where, is_documented in things if not is_documented]
    assert Fraction(len(things) - len(bare), len(things)) >= DOCUMENTED, bare


def test_values_are_frozen() -> None:
    values = [value for p in SOURCES for value in dataclass_options(p)]
    mutable = [where for where, is_frozen in values if not is_frozen]
    assert Fraction(len(values) - len(mutable), len(values)) >= FROZEN, mutable


def test_no_assert_stands_in_the_sources() -> None:
    """Python drops them with -O: what may happen is an error with a name, what may not needs no line."""
    found = [f"{shown(p)}:{n.lineno}" for p in SOURCES for n in ast.walk(parsed(p)) if isinstance(n, ast.Assert)]
    assert found == []


def test_only_the_command_line_ends_the_process() -> None:
    """And a forked process ends itself: it must not return to where it was forked."""
    calls = {"sys.exit", "exit", "quit", "os._exit"}
    exits = [
        f"{shown(p)}:{n.lineno}"
        for p in SOURCES
        if p.parent.name != "cli" and p.name not in {"__main__.py", "helper_process.py"}
        for n in ast.walk(parsed(p))
        if isinstance(n, ast.Call) and ast.unparse(n.func) in calls
    ]
    assert exits == []


def test_commands_write_to_the_terminal_in_one_place() -> None:
    """``cli/output.py`` escapes what others wrote; a line that is printed elsewhere could hold control characters."""
    rooms = [
        p
        for p in (*SOURCES, *python_files("tests/tryout"))
        if {"cli", "tryout"} & set(p.parts) and p.name != "output.py"
    ]
    calls = [(p, n) for p in rooms for n in ast.walk(parsed(p)) if isinstance(n, ast.Call)]
    writes = [(p, n) for p, n in calls if ast.unparse(n.func) in ("print", "sys.stdout.write", "sys.stderr.write")]
    assert len(calls) > 500
    assert [f"{shown(p)}:{n.lineno}" for p, n in writes] == []


def test_durations_are_measured_by_the_clock_that_is_never_set_back() -> None:
    """But for systemd's protocol, a command that its user can interrupt, and what looks whether it was."""
    nodes = ((p, n) for p in SOURCES for n in ast.walk(parsed(p)) if isinstance(n, ast.Attribute | ast.alias))
    raw = {shown(p) for p, n in nodes if (n.attr if isinstance(n, ast.Attribute) else n.name) in RAW_CLOCKS}
    others = {"cri_proxy/systemd.py", "cri_proxy/cli/select.py", "cri_proxy/relay/event_loop.py"}
    assert raw == {"cri_proxy/clock.py", *others}


def test_every_exception_that_is_caught_has_a_name() -> None:
    """Every kind of exception is stopped in one place, the relay's boundary, by a context manager."""
    assert [shown(p) for p in SOURCES if "BLE001" in p.read_text()] == []
    managers = [p for p in SOURCES if any(d.name == "__exit__" for d in functions(p))]
    assert [shown(p) for p in managers if "isinstance(error, Exception)" in p.read_text()] == [
        "cri_proxy/relay/boundary.py"
    ]


def test_an_excuse_from_a_check_names_its_code() -> None:
    bare = ("# noqa\n", "# type: ignore\n")
    assert [shown(p) for p in SOURCES if any(text in p.read_text() for text in bare)] == []


def test_tests_do_not_sleep() -> None:
    """They wait for what they want to see, with a bound."""
    sleeps = {"time.sleep", "sleep"}
    found = [
        f"{shown(p)}:{n.lineno}"
        for p in python_files("tests")
        if not {"fakes", "testbed"} & set(p.parts)  # not tests: the testbed polls the kernel, with a bound
        for n in ast.walk(parsed(p))
        if isinstance(n, ast.Call) and ast.unparse(n.func) in sleeps
    ]
    assert found == []


def test_the_median_test_is_short() -> None:
    lengths = sorted(
        (f.end_lineno or 0) - f.lineno + 1
        for p in python_files("tests")
        for f in functions(p)
        if f.name.startswith("test_")
    )
    assert lengths[len(lengths) // 2] <= 10


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda path: path.stem)
def test_a_benchmark_finds_our_packages_before_it_imports_any(path: Path) -> None:
    """It is run as a file: what is imported before the path is set is not found, though linters sort it so."""
    tree = parsed(path)
    is_run = any(isinstance(node, ast.If) and "__main__" in ast.unparse(node.test) for node in tree.body)
    at = next((n.lineno for n in tree.body if "sys.path.insert" in ast.unparse(n)), None)
    ours = [n.lineno for n in tree.body if isinstance(n, ast.ImportFrom) and (n.module or "").split(".")[0] in OWN]
    assert not is_run or not ours or (at is not None and at < min(ours))
