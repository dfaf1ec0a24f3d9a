"""The golden answers of the stories: one step a line, so that a change shows which step it is.

``python -m tests.golden.scenarios.record`` writes them anew; a changed line is changed behaviour and needs a line in
the changelog.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from cri_proxy.simulate.run_files import ScenarioResult, run_scenario
from cri_proxy.simulate.scenario.model import Scenario
from cri_proxy.simulate.scenario.parse import scenarios_in
from cri_proxy.yaml_fields import DocumentError

FOLDER = Path(__file__).parent
STORIES = sorted(FOLDER.glob("*.yaml"))
# Every placement of these is held, beside what they expect of themselves.
RECORDED = (
    "affinity",
    "full",
    "isolated",
    "life",
    "memory",
    "picking",
    "reconfigure",
    "resize",
    "restarts",
    "sizes",
)


def scenarios(path: Path) -> Iterator[Scenario]:
    """The scenarios of a story file. Raises DocumentError."""
    for found in scenarios_in(path.read_text(), str(path)):
        if isinstance(found, DocumentError):
            raise found
        yield found


def lines(performance: ScenarioResult) -> list[str]:
    """An answer, a line for each step but those that only look."""
    return [
        json.dumps({key: value for key, value in outcome.json_value().items() if key != "step"})
        for outcome in performance.outcomes
        if not outcome.is_expectation
    ]


def recording(played: Iterable[tuple[Scenario, ScenarioResult]]) -> str:
    """All answers of a story file."""
    parts = []
    for scenario, performance in played:
        parts += [f"# {scenario.about}", *lines(performance)]
    return "\n".join(parts) + "\n"


def play(name: str) -> str:
    return recording((scenario, run_scenario(scenario)) for scenario in scenarios(FOLDER / f"{name}.yaml"))


if __name__ == "__main__":
    for story in RECORDED:
        (FOLDER / f"{story}.jsonl").write_text(play(story))
