"""Run every document of scenario files, each on a new node; return results as text and JSON data."""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cri_proxy.simulate.clock import InlineExecutor
from cri_proxy.simulate.outcome import StepOutcome
from cri_proxy.simulate.report import heading, step_lines, summary
from cri_proxy.simulate.runner import ScenarioRunner
from cri_proxy.simulate.scenario.model import Scenario
from cri_proxy.simulate.scenario.parse import read_scenarios
from cri_proxy.yaml_fields import DocumentError


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """The result of one document, with the lines for people. ``error`` is '' unless it could not be run at all."""

    outcomes: tuple[StepOutcome, ...]
    lines: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    error: str = ""

    @property
    def text(self) -> str:
        """The lines in one."""
        return "\n".join(self.lines)

    @property
    def is_good(self) -> bool:
        """Whether it ran and every expectation is met. A refused container is a result like any other."""
        return not self.error and all(o.ok for o in self.outcomes if o.is_expectation)

    def json_value(self) -> dict[str, object]:
        """Return the value of ``simulate -o json`` (docs/reference/scenarios.md, Answers)."""
        if self.error:
            return {"error": self.error}
        return {"steps": [o.json_value() for o in self.outcomes], "warnings": list(self.warnings)}


def run_files(paths: Iterable[str]) -> Iterator[ScenarioResult]:
    """Run every document of every file, in order."""
    for path in paths:
        for found in read_scenarios(path):
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
        results.append(ScenarioResult(tuple(outcomes), tuple(lines), warnings))
    finally:
        await runner.close()
