"""Sizes: small enough to be read in one go. An exception carries a comment ``# size: the reason``.

Branches are counted by ruff (C901, PLR0912), which runs beside this.
"""

import ast
from pathlib import Path

from tests.house.tree import PACKAGES, FunctionNode, functions, python_files, shown

MODULE_LINES = 400
FUNCTION_LINES = 50
PARAMETERS = 6
EXCUSE = "# size: "
SOURCES = python_files(*PACKAGES, "benchmarks")
WRITTEN = SOURCES + python_files("tests", "packaging")


def parameters(function: FunctionNode) -> int:
    named = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    rest = [a for a in (function.args.vararg, function.args.kwarg) if a]
    return len([a for i, a in enumerate(named) if i or a.arg not in ("self", "cls")]) + len(rest)


def lines_of(function: FunctionNode) -> int:
    """From the ``def`` to the last line, docstring included."""
    return (function.end_lineno or function.lineno) - function.lineno + 1


def has_reason(text: str) -> bool:
    """Whether this line says why a limit is not kept."""
    return len(text.partition(EXCUSE)[2]) > 10


def is_excused(path: Path, line: int) -> bool:
    """Whether a reason stands on the line of the ``def``, or on the one above it."""
    return any(map(has_reason, path.read_text().splitlines()[max(line - 2, 0) : line]))


def test_a_module_fits_its_limit_or_says_why_not() -> None:
    texts = {shown(p): p.read_text().splitlines() for p in WRITTEN}
    long = {name: len(lines) for name, lines in texts.items() if len(lines) > MODULE_LINES}
    assert {name: count for name, count in long.items() if not any(map(has_reason, texts[name][:3]))} == {}


def test_a_function_fits_its_limit_or_says_why_not() -> None:
    long = [(p, f) for p in WRITTEN for f in functions(p) if lines_of(f) > FUNCTION_LINES]
    assert [f"{shown(p)}:{f.lineno} {f.name}" for p, f in long if not is_excused(p, f.lineno)] == []


def test_a_function_has_few_parameters_or_says_why_not() -> None:
    wide = [(p, f) for p in SOURCES for f in functions(p) if parameters(f) > PARAMETERS]
    assert [f"{shown(p)}:{f.lineno} {f.name}" for p, f in wide if not is_excused(p, f.lineno)] == []


def test_the_counting_of_parameters_leaves_self_out() -> None:
    function = ast.parse("def f(self, a, /, b, *rest, c, **more): pass").body[0]
    assert isinstance(function, FunctionNode)
    assert parameters(function) == 5


def test_an_excuse_must_give_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text("# size: \ndef f(): pass\n# size: one table, read from top to bottom\ndef g(): pass\n")
    assert [is_excused(path, line) for line in (2, 4)] == [False, True]


def test_the_checks_see_the_sources() -> None:
    assert {"sysfs/model.py", "policies/base.py", "cri_proxy/errors.py"} <= {shown(p) for p in SOURCES}
