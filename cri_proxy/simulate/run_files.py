"""Scenario files, performed: one answer per document, as data and as text."""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cri_proxy.simulate.clock import InlineExecutor
from cri_proxy.simulate.errors import ScenarioError
from cri_proxy.simulate.outcome import StepOutcome
from cri_proxy.simulate.report import heading, summary, tell
from cri_proxy.simulate.runner import ScenarioRunner
from cri_proxy.simulate.scenario.model import Scenario
from cri_proxy.simulate.scenario.parse import read_scenarios


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """What came of one document. ``error`` is '' unless it could not be played at all."""

    outcomes: tuple[StepOutcome, ...]
    text: str
    warnings: tuple[str, ...] = ()
    error: str = ""

    @property
    def is_good(self) -> bool:
        """Played, and every expectation met. A refused container is an answer like any other."""
        return not self.error and all(o.ok for o in self.outcomes if o.is_expectation)

    def json_value(self) -> dict[str, object]:
        """The answer of ``simulate -o json`` (design section 5.2)."""
        if self.error:
            return {"error": self.error}
        return {"steps": [o.json_value() for o in self.outcomes], "warnings": list(self.warnings)}


def run_files(paths: Iterable[str]) -> Iterator[ScenarioResult]:
    """Every document of every file, in order."""
    for path in paths:
        for found in read_scenarios(path):
            yield failed(found) if isinstance(found, ScenarioError) else run_scenario(found)


def run_scenario(scenario: Scenario) -> ScenarioResult:
    """Play one scenario from an empty node."""
    made: list[ScenarioResult] = []
    try:
        # Not the coroutine's result: asyncio.run formats that of its finished task while it puts signal handlers
        # back (Handlers(handler) in signal.py), which for a long scenario takes as long as the scenario.
        asyncio.run(_perform(scenario, made))
    except ScenarioError as error:
        return failed(error)
    return made[0]


def failed(error: ScenarioError) -> ScenarioResult:
    """A document that cannot be played."""
    return ScenarioResult((), f"{error}", error=str(error))


async def _perform(scenario: Scenario, made: list[ScenarioResult]) -> None:
    asyncio.get_running_loop().set_default_executor(InlineExecutor())
    player = ScenarioRunner(scenario)
    await player.open()
    try:
        warnings = player.simulated.warnings
        lines = heading(scenario, player.machine, player.pool_views(), warnings)
        outcomes = []
        async for outcome in player.play():
            lines += tell(scenario.steps[outcome.index], outcome)
            outcomes.append(outcome)
        lines.append(summary(outcomes))
        made.append(ScenarioResult(tuple(outcomes), "\n".join(lines), warnings))
    finally:
        await player.close()
