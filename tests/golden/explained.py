"""The pages that show what ``explain`` and ``status`` print: a scenario is played, and what they print stands below.

``python -m tests.golden.explained`` writes the pages anew after a decision, or the words for it, have changed.
"""

import asyncio
import re
from pathlib import Path

from cri_proxy.cli.render.explain import render_explain
from cri_proxy.cli.render.status import render_status
from cri_proxy.node.status.view import NodeView
from cri_proxy.simulate.runner import ScenarioRunner
from cri_proxy.simulate.scenario.parse import parse_scenario

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "why-there.md"
COSTS_PAGE, COSTS_SCENARIO = ROOT / "docs" / "costs.md", ROOT / "configs" / "scenarios" / "device-costs.yaml"
_SCENARIO = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^(```console\n\$ cri-proxy (explain \S+|status)\n)(.*?)^```", re.MULTILINE | re.DOTALL)


def filled(page: str, scenario: Path | None = None) -> str:
    """The page with what its commands print after this scenario; None: the one that stands in it."""
    found = _SCENARIO.search(page)
    if found is None and scenario is None:
        raise ValueError(f"{PAGE}: expected a scenario in a yaml block")
    text = scenario.read_text() if scenario is not None else found[1] if found is not None else ""
    commands = [match[2] for match in _COMMAND.finditer(page)]
    texts = dict(zip(commands, answers(text, commands), strict=True))
    return _COMMAND.sub(lambda match: f"{match[1]}{texts[match[2]]}\n```", page)


def answers(scenario: str, commands: list[str]) -> list[str]:
    """What these commands, given without the program's name, print after this scenario."""
    return asyncio.run(_printed(scenario, commands))


async def _printed(scenario: str, commands: list[str]) -> list[str]:
    player = ScenarioRunner(parse_scenario(scenario, str(PAGE)))
    await player.open()
    try:
        async for _ in player.run():
            pass
        view = player.simulated.view
        return [_answer(view, command) for command in commands]
    finally:
        await player.close()


def _answer(view: NodeView, command: str) -> str:
    if command == "status":
        return render_status(view.status())
    pod, _, container = command.removeprefix("explain ").partition("/")
    return render_explain(view.explain(pod, container or None))


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
    COSTS_PAGE.write_text(filled(COSTS_PAGE.read_text(), COSTS_SCENARIO))
