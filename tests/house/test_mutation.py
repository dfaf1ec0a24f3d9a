"""The mutation tester: what it plants, that it is seen, and that the list of survivors speaks of mutants that exist."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.tree import ROOT
from tests.mutation.__main__ import most_of_sample, seed_of
from tests.mutation.mutants import AREAS, SURVIVORS, Area, draw, mutants_of, survivors
from tests.mutation.operators import changes_of
from tests.mutation.results import Fate, append, load, summary

GLOB = Area("glob", ("policies/glob.py",), ("tests/unit/policies/test_glob.py",))


def planted(body: str) -> list[str]:
    """What is planted in a function of this body."""
    function = ast.parse("def f(a, b):\n" + "".join(f"    {line}\n" for line in body.splitlines())).body[0]
    assert isinstance(function, ast.FunctionDef)
    return [change.shown for change in changes_of(function)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("x = a < b", ["a < b -> a <= b", "a < b -> a >= b"]),
        ("x = a in b", ["a in b -> a not in b"]),
        ("x = a and b", ["a and b -> b", "a and b -> a"]),
        ("x = a - b", ["a - b -> a + b", "a - b -> a"]),
        ("x = a // 2", ["a // 2 -> a * 2", "a // 2 -> a // 3"]),
        ("x = ~a", ["~a -> a"]),
        ("x = min(a, key=b)", ["min(a, key=b) -> max(a, key=b)", "min(a, key=b) -> min(a)"]),
        ("x = sorted(a, key=b)", ["sorted(a, key=b) -> list(a)", "sorted(a, key=b) -> sorted(a)"]),
        ("x = [c for c in a if b]", ["for c in a if b -> for c in a"]),
        ("if a:\n    b()", ["a -> not a", "b() -> pass"]),
        ("while True:\n    break", ["True -> not True", "True -> False", "break -> continue"]),
        ("return a", ["return a -> return None"]),
        ("return None", []),
        ("return False", ["return False -> return True"]),
        ("raise ValueError(1 + 2)", ["raise ValueError(1 + 2) -> pass"]),
        ("a.b = c", ["a.b = c -> pass"]),
        ("a += 1", ["a += 1 -> pass", "a += 1 -> a -= 1", "a += 1 -> a += 2"]),
        ("assert a < 1", []),
        ('"""Text."""', []),
        ('log.info("text", 1)', ["log.info('text', 1) -> pass"]),
        ("x: int = 1", ["x: int = 1 -> x: int = 2"]),
    ],
)
def test_what_is_planted(body: str, expected: list[str]) -> None:
    assert planted(body) == expected


def test_names_are_unique_and_stay_when_lines_move() -> None:
    names = [mutant.name for area in AREAS for mutant in mutants_of(area)]
    assert len(set(names)) == len(names)
    assert "policies.glob:_Ones.__missing__ | low <= chr(code) <= high -> low < chr(code) <= high" in names


def test_showing_a_mutant_does_not_plant_it() -> None:
    trees = {id(mutant.module): mutant.module.tree for mutant in mutants_of(GLOB)}
    (tree,) = trees.values()
    assert ast.unparse(tree) == ast.unparse(ast.parse((ROOT / "policies" / "glob.py").read_text()))


def test_a_seed_draws_the_same_mutants_again_and_another_seed_others() -> None:
    every = list(mutants_of(GLOB))
    first = [mutant.name for mutant in draw(every, 10, "a")]
    assert first == [mutant.name for mutant in draw(every[::-1], 10, "a")]
    assert first != [mutant.name for mutant in draw(every, 10, "b")]


def test_a_source_archive_on_a_machine_without_git_draws_without_a_seed() -> None:
    assert [seed_of("HEAD", git="no-git-of-this-name"), seed_of("a", git="no-git-of-this-name")] == ["", "a"]


def test_what_is_listed_as_a_survivor_exists_and_has_a_reason() -> None:
    """With ``--listed`` those on the list are run as well, for one that dies now goes from the list too."""
    names = {mutant.name for area in AREAS for mutant in mutants_of(area)}
    assert [name for name, reason in survivors().items() if name not in names or len(reason) < 10] == []


def test_the_list_of_survivors_names_each_once_in_the_order_of_names() -> None:
    keys = [line.split(": ")[0] for line in SURVIVORS.read_text().splitlines() if line.startswith(('"', "'"))]
    assert len(keys) == len(survivors())
    assert list(survivors()) == sorted(survivors())


def test_results_outlive_the_run_and_the_last_one_counts(tmp_path: Path) -> None:
    file = tmp_path / "results"
    assert load(file) == {}
    for status in ("survived", "killed"):
        append(file, Fate("m", "1", status, "", 0.1))
    assert load(file)["m", "1"].is_dead


def test_the_table_counts_what_died_of_what_was_run() -> None:
    chosen = list(mutants_of(GLOB))[:4]
    fates = {
        mutant.name: Fate(mutant.name, "", status, "", 0.1)  # type: ignore[arg-type]
        for mutant, status in zip(chosen, ("killed", "hung", "survived"), strict=False)
    }
    *_, line = summary(chosen, fates, {chosen[3].name})
    assert line.split() == ["glob", "4", "4", "2", "1", "1", "50.0", "%"]


@pytest.mark.parametrize(("drawn", "most"), [(50, 19), (200, 55), (6000, 1136)])
def test_the_smaller_a_sample_the_more_of_it_may_survive_by_chance(drawn: int, most: int) -> None:
    assert int(most_of_sample(drawn, 0.17)) == most


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.mutation", "policies", "--afresh", "--only", "policies.glob:", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_fault_is_planted_and_found_by_a_test_that_looks() -> None:
    ended = run("--tests", "tests/unit/policies/test_glob.py", "--sample", "20", "--allowed", "50")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    died = int(ended.stdout.splitlines()[-1].split()[3])  # of the table of areas
    assert died >= 10


def test_a_fault_that_no_test_looks_for_fails_the_run() -> None:
    ended = run("--tests", "tests/unit/policies/test_errors.py", "--sample", "3", "--jobs", "1")
    assert ended.stdout.count("survives: policies.glob:") == 3
    assert ended.returncode == 1
