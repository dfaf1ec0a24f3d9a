"""Let pods arrive at simulated nodes: the scheduler chooses, the node places or refuses, and the results are read."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cri_proxy.config.cpus import CpuQuantity
from cri_proxy.simulate.capture import CapturedNode
from cri_proxy.simulate.clock import InlineExecutor
from cri_proxy.simulate.nodes import Held, held_on, moved_between
from cri_proxy.simulate.outcome import StepOutcome, nodes_of
from cri_proxy.simulate.plan.pods import PlannedPod
from cri_proxy.simulate.plan.result import PlacedContainer, PlannedNode, PlanRefusal, PlanResult
from cri_proxy.simulate.plan.scheduler import NodeLoad, PodRequests, Strategy, allocatable_of, choose_node
from cri_proxy.simulate.runner import ScenarioRunner
from cri_proxy.simulate.scenario.model import Scenario, Step
from sysfs.cpuset import NodeSet
from sysfs.model import Machine
from sysfs.quantity import bytes_text
from sysfs.show.cpu_map import cpu_map
from sysfs.text import plural

MOST_NODES = 1000


@dataclass(frozen=True, slots=True)
class Cluster:
    """So many equal nodes, or those that were ``captured``, with what stands on them.

    ``config`` has the options of the daemon on each, None: the defaults, or those that it had; ``source`` names it in
    errors.
    """

    machine: Machine
    title: str = ""
    nodes: int = 1
    config: Mapping[str, object] | None = None
    strategy: Strategy = "spread"
    source: str = "configuration"
    captured: tuple[CapturedNode, ...] = ()


@dataclass(slots=True)
class _BusyNode:
    """A node while pods arrive. ``workloads`` are those of its containers, by the names of ``ContainerState``."""

    load: NodeLoad
    runner: ScenarioRunner
    steps: int = 0
    moves: int = 0
    workloads: dict[str, str] = field(default_factory=dict)
    last: StepOutcome | None = None
    before: Held = field(default_factory=dict)

    async def open(self, captured: CapturedNode | None, config: Mapping[str, object] | None) -> str:
        """Start the node, with what stood on it when it was captured; return why it cannot take the configuration."""
        simulated = self.runner.simulated
        if captured is not None:
            simulated.let_stand(captured.saved)
        await self.runner.open()
        problem = await simulated.replace_options(config) if captured is not None and config is not None else ""
        await simulated.settle()
        self.before = held_on(simulated)
        return problem

    async def create(self, arrival: PlannedPod) -> list[PlanRefusal]:
        """Bind the pod to this node and create it there; return what is refused."""
        self.load.add(arrival.pod, arrival.workload)
        outcome = await self.runner.play(self.steps, Step(arrival.create, None, 0))
        self.steps += 1
        self.moves += sum(moved.is_move for moved in outcome.updated)
        self.workloads.update(dict.fromkeys(outcome.named, arrival.workload))
        self.last = outcome
        name = self.load.name
        refused = [
            PlanRefusal(arrival.workload, pod_name(arrival), container.rpartition("/")[2], name, sentence)
            for container, sentence in outcome.refused.items()
        ]
        if not refused and not outcome.ok:
            refused.append(PlanRefusal(arrival.workload, pod_name(arrival), "", name, outcome.error))
        return refused


def pod_name(arrival: PlannedPod) -> str:
    """Return the pod as results name it, with its namespace."""
    return f"{arrival.create.namespace}/{arrival.create.pod}"


def plan(cluster: Cluster, arrivals: Sequence[PlannedPod], order: str = "in the order of the manifests") -> PlanResult:
    """Return where these pods go, in this order of arrival. Raises DocumentError for a configuration that is wrong."""
    found: list[PlanResult] = []
    asyncio.run(_plan(cluster, arrivals, order, found))  # see run_files.run_scenario
    return found[0]


async def _plan(cluster: Cluster, arrivals: Sequence[PlannedPod], order: str, found: list[PlanResult]) -> None:
    asyncio.get_running_loop().set_default_executor(InlineExecutor())
    nodes = [_new_node(cluster, number, arrivals) for number in range(cluster.nodes)]
    try:
        refused: list[PlanRefusal] = []
        notes: dict[str, None] = {}
        for node, captured in zip(nodes, cluster.captured or [None] * len(nodes), strict=True):
            if problem := await node.open(captured, cluster.config):
                notes[f"{node.load.name} stays as it was configured, as it cannot take {cluster.source}: {problem}"] = (
                    None
                )
        for arrival in arrivals:
            refused += await _arrive(cluster, nodes, arrival)
        notes |= dict.fromkeys(warning for node in nodes for warning in node.runner.simulated.warnings)
        planned = tuple(_planned(node) for node in nodes)
        title, machine = cluster.title, _machine_text(cluster)
        found.append(PlanResult(title, machine, order, len(arrivals), planned, tuple(refused), tuple(notes)))
    finally:
        for node in nodes:
            await node.runner.close()


def _new_node(cluster: Cluster, number: int, arrivals: Sequence[PlannedPod]) -> _BusyNode:
    """Return the node of this number; the steps of its scenario say which names are ambiguous."""
    steps = tuple(Step(arrival.create, None, 0) for arrival in arrivals)
    captured = cluster.captured[number] if cluster.captured else None
    machine, options = cluster.machine, cluster.config or {}
    if captured is not None:
        machine, options = captured.machine, captured.options
    runner = ScenarioRunner(Scenario(cluster.source, 0, machine, options, steps))
    policy, reserved = runner.simulated.policy, runner.simulated.config.reserved.cpu
    # The kubelet's reservation is a quantity, of which ours is the copy.
    asked_mcpu = reserved.mcpu if isinstance(reserved, CpuQuantity) else 1000 * len(policy.reserved)
    name = captured.name if captured is not None else f"node-{number + 1}"
    load = NodeLoad(name, allocatable_of(policy.machine, asked_mcpu))
    if captured is not None:
        requests = [row.grant.request for row in captured.saved.rows]
        cpu, memory = (sum(r.cpu_request_mcpu for r in requests), sum(r.memory_request_bytes for r in requests))
        load.requested = load.scored = PodRequests(cpu, memory)
        load.pods = len(captured.saved.sandboxes)
    return _BusyNode(load, runner)


async def _arrive(cluster: Cluster, nodes: Sequence[_BusyNode], arrival: PlannedPod) -> list[PlanRefusal]:
    chosen: int | str = arrival.node if arrival.node is not None else -1
    if arrival.node is None:
        chosen = choose_node([node.load for node in nodes], arrival.pod, arrival.workload, cluster.strategy)
    if isinstance(chosen, str):
        return [PlanRefusal(arrival.workload, pod_name(arrival), "", "", chosen)]
    return await nodes[chosen].create(arrival)


def _planned(node: _BusyNode) -> PlannedNode:
    runner = node.runner
    machine, held = runner.machine, runner.simulated.node.context.ledger.allocations
    policy = runner.simulated.policy
    after = held_on(runner.simulated)
    standing = {
        str(g.request.full_name): g.owned for g, _ in (after[key] for key in node.before if key in after) if g.owned
    }
    states = node.last.containers if node.last is not None else {}
    placed = []
    for name, state in states.items():
        if not state.is_live:
            continue
        cpus = state.owned or state.cpus
        packages = tuple(each.id for each in machine.packages if not each.cpus.isdisjoint(cpus))
        memory = NodeSet.of(each.id for each in machine.nodes if each.cpus and each.id in state.mems)
        nodes, far = nodes_of(machine, cpus), memory - nodes_of(machine, state.cpus)
        placed.append(PlacedContainer(name, node.workloads.get(name, ""), state, nodes, packages, far))
    return PlannedNode(
        node.load.name,
        tuple(placed),
        node.load.pods,
        node.moves,
        node.load.requested.mcpu,
        node.load.allocatable.mcpu,
        policy.largest_fit(held),
        cpu_map(machine, available=policy.available, reserved=policy.reserved),
        standing,
        tuple(moved_between(node.before, after)),
    )


def _machine_text(cluster: Cluster) -> str:
    if cluster.captured:
        cpus = sum(len(each.machine.online) for each in cluster.captured)
        return f"{plural(len(cluster.captured), 'captured node')} of {plural(cpus, 'CPU')} with what stands on them"
    machine = cluster.machine
    memory = bytes_text(sum(node.memory_bytes for node in machine.nodes))
    parts = (
        plural(len(machine.packages), "package"),
        plural(len(machine.nodes), "NUMA node"),
        plural(len(machine.online), "CPU"),
        memory,
    )
    return f"{plural(cluster.nodes, 'node')} of {', '.join(parts)}"
