"""The stories: what they expect of themselves, what holds in every one of them, and recorded answers."""

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from itertools import pairwise, permutations
from pathlib import Path

import pytest

from cri_proxy import events
from cri_proxy.simulate.expect.functions import LastStep, vocabulary
from cri_proxy.simulate.outcome import ContainerState, StepOutcome
from cri_proxy.simulate.run_files import ScenarioResult, run_scenario, run_texts
from cri_proxy.simulate.scenario.model import Action, Expect, ResetNode, Restart, Scenario, Tamper
from cri_proxy.simulate.scenario.steps import STEPS
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe
from sysfs.sources import load_machine
from tests.golden.scenarios import odd_machines
from tests.golden.scenarios.record import FOLDER, RECORDED, STORIES, recording, scenarios

SCENARIOS = [scenario for path in STORIES for scenario in scenarios(path)]
NAMES = [f"{Path(s.source).stem}-{s.line}" for s in SCENARIOS]
ROOT = FOLDER.parent.parent.parent
EXAMPLES = sorted((ROOT / "configs" / "scenarios").glob("*.yaml"))


@cache
def performances() -> tuple[ScenarioResult, ...]:
    """What came of every scenario, played once for all tests."""
    return tuple(run_scenario(scenario) for scenario in SCENARIOS)


def plays() -> Iterator[tuple[str, Scenario, ScenarioResult]]:
    """(name, scenario, what came of it) of every scenario."""
    yield from zip(NAMES, SCENARIOS, performances(), strict=True)


def moments() -> Iterator[tuple[str, Action, dict[str, ContainerState]]]:
    """(where, what was done, the containers that can use CPUs) after every step of every scenario."""
    for name, scenario, performance in plays():
        for outcome in performance.outcomes:
            yield f"{name}, step {outcome.index}", scenario.steps[outcome.index].action, live(outcome)


def has(scenario: Scenario, kind: type[Action]) -> bool:
    return any(isinstance(step.action, kind) for step in scenario.steps)


def usable(seen: ContainerState) -> CpuSet:
    """The CPUs that it may use; none of a container that is not pinned, to which no promise extends."""
    return seen.kernel_cpus if seen.cpus else CpuSet()


def live(outcome: StepOutcome) -> dict[str, ContainerState]:
    return {name: seen for name, seen in outcome.containers.items() if seen.is_live}


def owned(seen: ContainerState) -> CpuSet:
    return seen.exclusive | seen.isolated


def unpinned(scenario: Scenario) -> bool:
    return "PinCPU: false" in str(scenario.config).replace("'", "").replace("False", "false")


@pytest.mark.parametrize("index", range(len(SCENARIOS)), ids=NAMES)
def test_a_story_expects_something_and_gets_it(index: int) -> None:
    performance = performances()[index]
    assert performance.error == ""
    expectations = [outcome for outcome in performance.outcomes if outcome.is_expectation]
    assert expectations
    assert [outcome.error for outcome in expectations if not outcome.ok] == []


def test_what_one_container_owns_no_other_may_use() -> None:
    """Whatever the runtime has on record: the kernel is asked. Until it is found, tampering is nobody's fault."""
    for where, action, seen in moments():
        if isinstance(action, Tamper | Expect):
            continue
        for (a, of_a), (b, of_b) in permutations(seen.items(), 2):
            if of_a.pod_cpus and of_b.pod_cpus and a.rpartition("/")[0] == b.rpartition("/")[0]:
                assert of_a.cpus == of_b.cpus, f"{where}: {a} and {b}"
                continue
            assert owned(of_a).isdisjoint(usable(of_b)), f"{where}: {a} and {b}"


def test_the_parts_of_a_cpuset_make_it_up() -> None:
    """Of the CPUs that a container owns it may leave some idle: hidden thread siblings."""
    for where, _, everybody in moments():
        for seen in everybody.values():
            parts = (seen.exclusive, seen.isolated, seen.shared, seen.reserved)
            whole = CpuSet.of_masks(part.mask for part in parts)
            assert seen.cpus <= whole <= seen.cpus | owned(seen), where
            assert sum(map(len, parts)) == len(whole), where


def test_whoever_is_in_a_pool_has_cpus() -> None:
    pinned = (outcome for _, scenario, played in plays() if not unpinned(scenario) for outcome in played.outcomes)
    assert [name for o in pinned for name, seen in live(o).items() if seen.pool and not seen.cpus] == []


def test_no_story_shows_a_fault_of_ours() -> None:
    problems = [p for performance in performances() for outcome in performance.outcomes for p in outcome.problems]
    assert [p for p in problems if p.startswith((events.FAULT, events.UPDATE_FAILED, events.VIOLATION))] == []
    assert problems  # refusals are told


def test_a_restart_changes_nothing() -> None:
    restarts = 0
    for _, scenario, performance in plays():
        if has(scenario, ResetNode):
            continue  # what was undone on purpose is done again
        for before, outcome in pairwise(performance.outcomes):
            if isinstance(scenario.steps[outcome.index].action, Restart):
                restarts += 1
                assert (outcome.problems, outcome.updated, live(outcome)) == ((), (), live(before))
    assert restarts >= 10


@pytest.mark.parametrize("name", odd_machines.MACHINES)
def test_an_odd_machine_is_kept_as_it_is_put_together(name: str) -> None:
    assert load_machine(str(odd_machines.path_of(name))) == odd_machines.MACHINES[name]()


@pytest.mark.parametrize("name", RECORDED)
def test_the_recorded_answers_are_given_again(name: str) -> None:
    played = [pair for pair in zip(SCENARIOS, performances(), strict=True) if Path(pair[0].source).stem == name]
    assert recording(played) == (FOLDER / f"{name}.jsonl").read_text()


def test_the_order_of_hashes_decides_nothing() -> None:
    """The same answers in a process that hashes texts differently."""
    names = ("affinity", "memory", "picking")
    program = f"from tests.golden.scenarios.record import play; print(*map(play, {names}), sep='', end='')"
    other = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONHASHSEED": "1", "PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert other.stdout == "".join((FOLDER / f"{name}.jsonl").read_text() for name in names)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_of_ours_does_what_it_expects(path: Path) -> None:
    performed = list(run_texts([(str(path), path.read_text())]))
    assert [p.text for p in performed if not p.is_good] == []
    assert any(outcome.is_expectation for p in performed for outcome in p.outcomes)
    assert [outcome.error for p in performed for outcome in p.outcomes if not outcome.ok] == []


def test_there_are_enough_stories_and_each_is_told_once() -> None:
    assert len({scenario.about for scenario in SCENARIOS}) == len(SCENARIOS) >= 250
    assert len(EXAMPLES) >= 4


def test_every_title_is_a_sentence_that_states_a_rule() -> None:
    """As long as a sentence, on one line, without a full stop: together they are a table of contents."""
    assert [s.about for s in SCENARIOS if not 4 <= len(s.about.split()) <= 25 or s.about[-1] in ".:?!"] == []


def test_every_kind_of_step_and_every_function_is_part_of_some_story() -> None:
    steps = {key for s in SCENARIOS for step in s.steps if isinstance(step.written, dict) for key in step.written}
    assert steps == set(STEPS)
    asked = " ".join(
        e for s in SCENARIOS for t in s.steps if isinstance(t.action, Expect) for e in t.action.expressions
    )
    functions = vocabulary(describe({}), (), {}, LastStep(), {})
    assert [name for name in functions if f"{name}(" not in asked] == []
