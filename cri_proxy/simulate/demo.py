"""The built-in scenario of ``cri-proxy demo`` with captions; run it, yield each step's news and CPU grid as text."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from importlib.resources import files

from cri_proxy.clock import SystemClock
from cri_proxy.simulate.outcome import StepOutcome
from cri_proxy.simulate.report import change_text, placement_text
from cri_proxy.simulate.runner import ScenarioRunner
from cri_proxy.simulate.scenario.model import Scenario
from cri_proxy.simulate.scenario.parse import parse_scenario
from sysfs.show.cpu_map import CpuMap, cpu_map, drawn, legend, lettered, owned_by_letter

SCENARIO = files(__package__) / "demo.yaml"
CAPTIONS = (
    "node-agent is a system pod: it runs on the CPUs that are kept for the system",
    "batch is BestEffort: it takes what the others leave",
    "web is Burstable: it shares the CPUs of one NUMA node, wide enough for its limit",
    "database is Guaranteed and asks for 4 CPUs: whole cores of one node, its own",
    "trader asks for exactly 1 CPU: one that the kernel isolates",
    "proxy and runtime restart: no container moves",
    "stream asks for 2.5 CPUs: two of its own, half of a shared one",
    "cache is annotated to sit near the database",
    "replica is annotated to stay away from it: another node",
    "report prefers to share, two levels above the best place: the whole machine",
    "giant asks for more than there is and is refused",
)
WIDTH = 100  # of the pictures
# The container that the demo explains at its end.
EXPLAINED = ("cache", "redis")


@dataclass(frozen=True, slots=True)
class DemoStep:
    """One step of the demo: ``cpus`` are the rows of the picture, ``news`` the changes in words."""

    number: int
    caption: str
    news: tuple[str, ...]
    cpus: tuple[str, ...]


def demo_scenario() -> Scenario:
    """Return the scenario of the demo."""
    return parse_scenario(SCENARIO.read_text(encoding="utf-8"), "demo")


class Demo:
    """Runs the scenario with its ``runner``, step by step."""

    def __init__(self) -> None:
        """Build the node, on the system's clock: the times shown are real ones."""
        self.runner = ScenarioRunner(demo_scenario(), SystemClock())
        self._letters: dict[str, str] = {}

    async def steps(self) -> AsyncIterator[DemoStep]:
        """Yield every step as soon as it is done."""
        await self.runner.open()
        async for outcome in self.runner.run():
            self._letters = lettered((n for n, seen in outcome.containers.items() if seen.owned), self._letters)
            yield DemoStep(
                outcome.index + 1, CAPTIONS[outcome.index], tuple(self._news(outcome)), tuple(self._cpus(outcome))
            )

    @property
    def legend(self) -> str:
        """The meanings of the marks in the pictures."""
        return legend(self._map())

    def _map(self) -> CpuMap:
        root = self.runner.pool_views()[0]
        return cpu_map(self.runner.machine, available=self.runner.machine.online, reserved=root.reserved)

    def _cpus(self, outcome: StepOutcome) -> list[str]:
        owners = [(name, seen.owned) for name, seen in outcome.containers.items() if seen.owned]
        return drawn(self._map(), owned_by_letter(owners, self._letters), width=WIDTH)

    def _news(self, outcome: StepOutcome) -> list[str]:
        news = [f"refused: {problem}" for problem in outcome.problems]
        for name in outcome.named:
            seen = outcome.containers.get(name)
            if seen is not None:
                letter = self._letters.get(name, "")
                news.append(f"{f'{letter} = ' if letter else ''}{name}: {placement_text(seen)}")
        news += [f"makes room: {moved.container}: {change_text(moved)}" for moved in outcome.updated]
        return news or ["no container changed"]
