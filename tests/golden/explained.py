"""The page about ``explain``: its scenario is played, and what each command prints stands below it.

``python -m tests.golden.explained`` writes the page anew after a decision, or the words for it, have changed.
"""

import asyncio
import re
from pathlib import Path

from cri_proxy.cli.render.explain import render_explain
from cri_proxy.simulate.runner import ScenarioRunner
from cri_proxy.simulate.scenario.parse import parse_scenario

PAGE = Path(__file__).parents[2] / "docs" / "why-there.md"
_SCENARIO = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^(```console\n\$ cri-proxy explain (\S+)\n)(.*?)^```", re.MULTILINE | re.DOTALL)


def filled(page: str) -> str:
    """The page with what its commands print after its scenario."""
    found = _SCENARIO.search(page)
    if found is None:
        raise ValueError(f"{PAGE}: expected a scenario in a yaml block")
    names = [match[2] for match in _COMMAND.finditer(page)]
    texts = dict(zip(names, asyncio.run(_explained(found[1], names)), strict=True))
    return _COMMAND.sub(lambda match: f"{match[1]}{texts[match[2]]}\n```", page)


async def _explained(scenario: str, names: list[str]) -> list[str]:
    player = ScenarioRunner(parse_scenario(scenario, str(PAGE)))
    await player.open()
    try:
        async for _ in player.run():
            pass
        view = player.simulated.view()
        return [render_explain(view.explain(pod, container or None)) for pod, _, container in map(_parts, names)]
    finally:
        await player.close()


def _parts(name: str) -> tuple[str, str, str]:
    return name.partition("/")


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text()))
