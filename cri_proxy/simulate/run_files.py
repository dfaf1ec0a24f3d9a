"""Run every document of scenario files, each on a new node; return results as text and JSON data."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from cri_proxy.simulate.clock import InlineExecutor
from cri_proxy.simulate.outcome import ContainerState, StepOutcome, nodes_of
from cri_proxy.simulate.report import heading, step_lines, summary
from cri_proxy.simulate.runner import ScenarioRunner
from cri_proxy.simulate.scenario.model import Scenario
from cri_proxy.simulate.scenario.parse import scenarios_in
from cri_proxy.yaml_fields import DocumentError, YamlField
from sysfs.model import Machine

MAX_BYTES = 16 << 20
"""Of a file with manifests; scenarios have a bound of their own."""


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """The result of one document, with the lines for people. ``error`` is '' unless it could not be run at all.

    ``spanning`` are the containers that own CPUs of several NUMA nodes at the end.
    """

    outcomes: tuple[StepOutcome, ...]
    lines: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    error: str = ""
    spanning: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The lines in one."""
        return "\n".join(self.lines)

    @property
    def is_good(self) -> bool:
        """Whether it ran and every expectation is met. A refused container is a result like any other."""
        return not self.error and all(o.ok for o in self.outcomes if o.is_expectation)

    @property
    def has_refusals(self) -> bool:
        """Whether a step was refused."""
        return any(not outcome.ok and not outcome.is_expectation for outcome in self.outcomes)

    def json_value(self) -> dict[str, object]:
        """Return the value of ``simulate -o json`` (docs/reference/scenarios.md, Answers)."""
        if self.error:
            return {"error": self.error}
        return {"steps": [o.json_value() for o in self.outcomes], "warnings": list(self.warnings)}


def text_of(path: str) -> str | DocumentError:
    """Return the text of a file, ``-`` being standard input, or why it cannot be read."""
    try:
        return YamlField.read_text(path, MAX_BYTES)
    except DocumentError as error:
        return error


def run_texts(texts: Iterable[tuple[str, str | DocumentError]]) -> Iterator[ScenarioResult]:
    """Run every document of every text, in order; each comes after the name of its file."""
    for path, text in texts:
        for found in (text,) if isinstance(text, DocumentError) else scenarios_in(text, path):
            yield failed_result(found) if isinstance(found, DocumentError) else run_scenario(found)


def run_scenario(scenario: Scenario) -> ScenarioResult:
    """Run one scenario on an empty node."""
    results: list[ScenarioResult] = []
    try:
        # Not the coroutine's result: asyncio.run formats the result of its finished task while it restores signal
        # handlers (Handlers(handler) in signal.py), which for a long scenario takes as long as the scenario.
        asyncio.run(_run(scenario, results))
    except DocumentError as error:
        return failed_result(error)
    return results[0]


def failed_result(error: DocumentError) -> ScenarioResult:
    """Return the result of a document that cannot be run."""
    return ScenarioResult((), (f"{error}",), error=str(error))


async def _run(scenario: Scenario, results: list[ScenarioResult]) -> None:
    asyncio.get_running_loop().set_default_executor(InlineExecutor())
    runner = ScenarioRunner(scenario)
    await runner.open()
    try:
        warnings = runner.simulated.warnings
        lines = heading(scenario, runner.machine, runner.pool_views(), warnings)
        outcomes = []
        async for outcome in runner.run():
            lines += step_lines(scenario.steps[outcome.index], outcome)
            outcomes.append(outcome)
        lines.append(summary(outcomes))
        spanning = _spanning(runner.machine, outcomes[-1].containers) if outcomes else ()
        results.append(ScenarioResult(tuple(outcomes), tuple(lines), warnings, spanning=spanning))
    finally:
        await runner.close()


def _spanning(machine: Machine, seen: Mapping[str, ContainerState]) -> tuple[str, ...]:
    """Return the containers that own CPUs of several NUMA nodes."""
    return tuple(name for name, each in seen.items() if len(nodes_of(machine, each.owned)) > 1)
