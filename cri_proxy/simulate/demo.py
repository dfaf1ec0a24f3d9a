"""The built-in scenario of ``cri-proxy demo`` with captions; run it, yield each step's news and CPU grid as text."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from string import ascii_uppercase

from cri_proxy.clock import SystemClock
from cri_proxy.simulate.outcome import ContainerState, StepOutcome
from cri_proxy.simulate.report import change_text, placement_text
from cri_proxy.simulate.runner import ScenarioRunner
from cri_proxy.simulate.scenario.model import Scenario
from cri_proxy.simulate.scenario.parse import parse_scenario
from sysfs.cpuset import CpuSet
from sysfs.model import Machine, NumaNode

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
SHARED, RESERVED, ISOLATED, MANY = "·", "r", "i", "#"
LEGEND = f"a letter: owned by that container alone   {SHARED} shared   {RESERVED} reserved   {ISOLATED} isolated, free"
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
            self._letters = lettered(outcome.containers, self._letters)
            yield DemoStep(
                outcome.index + 1, CAPTIONS[outcome.index], tuple(self._news(outcome)), tuple(self._cpus(outcome))
            )

    def _cpus(self, outcome: StepOutcome) -> list[str]:
        reserved = self.runner.pool_views()[0].reserved
        return grid(self.runner.machine, reserved, outcome.containers, self._letters)

    def _news(self, outcome: StepOutcome) -> list[str]:
        news = [f"refused: {problem}" for problem in outcome.problems]
        for name in outcome.named:
            seen = outcome.containers.get(name)
            if seen is not None:
                letter = self._letters.get(name, "")
                news.append(f"{f'{letter} = ' if letter else ''}{name}: {placement_text(seen)}")
        news += [f"makes room: {moved.container}: {change_text(moved)}" for moved in outcome.updated]
        return news or ["no container changed"]


def lettered(seen: Mapping[str, ContainerState], known: Mapping[str, str]) -> dict[str, str]:
    """Return the known letters and new ones for containers that own CPUs and have none; ``#`` after Z."""
    letters = dict(known)
    for name in (name for name, container in seen.items() if container.owned):
        letters.setdefault(name, ascii_uppercase[len(letters)] if len(letters) < len(ascii_uppercase) else MANY)
    return letters


def grid(
    machine: Machine, reserved: CpuSet, seen: Mapping[str, ContainerState], letters: Mapping[str, str]
) -> list[str]:
    """Return a row for each package: its NUMA nodes with their CPUs, thread siblings side by side."""
    marks = dict.fromkeys(machine.online, SHARED)
    marks |= dict.fromkeys(machine.isolated, ISOLATED)
    marks |= dict.fromkeys(reserved, RESERVED)
    for name, container in seen.items():
        marks |= dict.fromkeys(container.owned, letters.get(name, ""))
    rows = []
    for package in machine.packages:
        nodes = [node for node in machine.nodes if not node.cpus.isdisjoint(package.cpus)]
        cells = (f"node {node.id}  {_cores(machine, node, marks)}" for node in nodes)
        rows.append(f"package {package.id}   {'    '.join(cells)}")
    return rows


def _cores(machine: Machine, node: NumaNode, marks: Mapping[int, str]) -> str:
    cores = (core.cpus & node.cpus for core in machine.cores)
    return " ".join("".join(marks[cpu] for cpu in cpus) for cpus in cores if cpus)
