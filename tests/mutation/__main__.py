"""Plants small faults in the product, one at a time, and says which of them no test finds.

``python -m tests.mutation policies ledger`` runs all mutants of these areas, without a name those of all areas. What
an earlier run has found stands in ``.cache/mutation`` and is not found out again while the function is the same.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from math import sqrt
from typing import Final

import pytest

from tests.mutation import results
from tests.mutation.mutants import AREAS, ROOT, Mutant, draw, mutants_of, survivors
from tests.mutation.results import Fate
from tests.mutation.runner import MutationRun

RESULTS: Final = ROOT / ".cache" / "mutation" / "results.jsonl"
_FEWEST: Final = 50  # a sample that came to fewer mutants in its time says nothing
_DEVIATIONS: Final = 4  # standard ones; a sample is further off by chance once in ten thousand runs


def main(words: Sequence[str]) -> int:
    """Run what was asked for; 1 if more survive than is allowed."""
    if os.environ.get("PYTHONHASHSEED") != "0":  # the same order of sets in every run
        command = [sys.executable, "-m", "tests.mutation", *words]
        os.execve(sys.executable, command, os.environ | {"PYTHONHASHSEED": "0"})
    asked = _arguments().parse_args(words)
    areas = [area for area in AREAS if area.name in asked.area or not asked.area]
    every = [mutant for area in areas for mutant in mutants_of(area) if asked.only in mutant.name]
    chosen = draw(every, asked.sample, seed_of(asked.seed)) if asked.sample else every
    listed = survivors()
    fates = {} if asked.afresh else _known(chosen)
    if asked.again:
        chosen = [mutant for mutant in chosen if mutant.name in fates and not fates[mutant.name].is_dead]
        fates = {}
    todo = [mutant for mutant in chosen if mutant.name not in fates and (asked.listed or mutant.name not in listed)]
    print(f"{len(every)} mutants, {len(chosen)} chosen, {len(todo)} to run", flush=True)
    broken: list[str] = []
    if todo:
        run = MutationRun(
            todo,
            lambda fate: _note(fate, fates),
            jobs=asked.jobs,
            patience=asked.patience,
            seconds=asked.seconds,
        )
        _collect_and_run(run, asked.tests or sorted({test for area in areas for test in area.tests}))
        broken = run.failed
    print("\n".join(results.summary(chosen, fates, listed)))
    for fate in results.unlisted(fates.values(), listed):
        print(f"survives: {fate.name}   ({fate.by or fate.status})")
    for test in broken:
        print(f"fails without a fault, so it judges none: {test}")
    left = [mutant for mutant in todo if mutant.name not in fates]
    return 0 if _is_good(asked, fates, listed, is_done=not left) else 1


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m tests.mutation", description=__doc__)
    parser.add_argument("area", nargs="*", help=f"of {', '.join(area.name for area in AREAS)}; none = all")
    parser.add_argument("--only", default="", metavar="TEXT", help="only mutants with this text in their name")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="draw so many; 0 = all")
    parser.add_argument("--seed", default="", help="another seed draws another sample; HEAD = the commit's id")
    parser.add_argument("--tests", nargs="+", metavar="PATH", help="the tests that judge, instead of the areas' own")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    parser.add_argument("--patience", type=float, default=20.0, help="seconds of tests that a survivor gets")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no mutant after so many")
    parser.add_argument("--allowed", type=float, default=10.0, help="percent that may survive unlisted")
    parser.add_argument("--afresh", action="store_true", help="forget what earlier runs have found")
    parser.add_argument("--again", action="store_true", help="only those that survived an earlier run")
    parser.add_argument("--listed", action="store_true", help="run those on the list of survivors as well")
    return parser


def seed_of(asked: str, git: str = "git") -> str:
    """A commit draws the same sample whenever it is tested, and the next one another; without git there is no seed."""
    if asked != "HEAD":
        return asked
    command = [git, "rev-parse", "HEAD"]
    try:
        commit = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:
        commit = ""
    print(f"seed: {commit or 'no commit, so none'}")
    return commit


def _known(chosen: Sequence[Mutant]) -> dict[str, Fate]:
    known = results.load(RESULTS)
    found = [known[key] for mutant in chosen if (key := (mutant.name, mutant.fingerprint)) in known]
    return {fate.name: fate for fate in found}


def _note(fate: Fate, fates: dict[str, Fate]) -> None:
    fates[fate.name] = fate
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    results.append(RESULTS, fate)
    if not fate.is_dead:  # a log of hundreds that died hides what matters
        print(f"{fate.status:<9} {fate.seconds:6.1f} s  {fate.name}   {fate.by}", flush=True)


def _collect_and_run(run: MutationRun, tests: Sequence[str]) -> None:
    temporary = tempfile.mkdtemp(prefix="mutation-")
    try:
        # pytest's faulthandler takes the runner's time limit away when a test fails, before its fixtures have ended.
        plugins = ["-p", "no:cacheprovider", "-p", "no:faulthandler"]
        options = [*plugins, "--capture=no", "-qq", f"--basetemp={temporary}/t"]
        status = pytest.main([*options, "-o", "tmp_path_retention_policy=none", *tests], plugins=[run])
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise SystemExit(f"pytest ended with status {status}")


def _is_good(asked: argparse.Namespace, fates: dict[str, Fate], listed: dict[str, str], *, is_done: bool) -> bool:
    alive = len(results.unlisted(fates.values(), listed))
    if asked.sample and not is_done and len(fates) < _FEWEST:
        print(f"only {len(fates)} mutants in {asked.seconds:.0f} s")
        return False
    share = asked.allowed / 100
    return alive <= (most_of_sample(len(fates), share) if asked.sample else share * len(fates))


def most_of_sample(drawn: int, share: float) -> float:
    """How many of a sample may have what this share of all have (the binomial distribution)."""
    return drawn * share + _DEVIATIONS * sqrt(drawn * share * (1 - share))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
