"""On random states ``fit`` answers what a create then does: the plan of the daemon and ``simulate`` are the same."""

import random
from contextlib import nullcontext

import pytest

from cri_proxy.cri_client.pods import create_request, sandbox_config
from cri_proxy.intercept.fit import AskedCreate, ContainerFit, encode_creates, fit
from cri_proxy.simulate.outcome import StepOutcome
from cri_proxy.simulate.pods import created_pod
from cri_proxy.simulate.runner import ScenarioRunner
from cri_proxy.simulate.scenario.model import Create, Scenario, Step
from cri_proxy.simulate.scenario.parse import parse_scenario

STATES = 100
MACHINES = (
    {"packages": 2, "nodes": 2, "cores": 2, "threads": 2, "memory": "2Gi"},
    {"cores": 4, "memory": "1Gi"},
    {"packages": 2, "cores": 6, "isolated": "5,11", "memory": "4Gi"},
)
OPTIONS: tuple[dict[str, object], ...] = (
    {},
    {"reservedResources": {"cpu": "750m"}},
    {"reservedResources": {"cpu": "1"}, "onShortage": "refuse"},
    {"topologyManager": {"policy": "single-numa-node"}},
)
CONTAINERS = (
    'qos: guaranteed, containers: [{name: c, cpu: "2", memory: 64Mi}]',
    'qos: guaranteed, containers: [{name: c, cpu: "3", memory: 64Mi}, {name: d, cpu: "1", memory: 64Mi}]',
    "qos: guaranteed, containers: [{name: c, cpu: 1500m, memory: 200Mi}]",
    "qos: burstable, containers: [{name: c, cpu_request: 300m, cpu_limit: 2000m, memory_request: 64Mi}]",
    "qos: besteffort, containers: [{name: c}, {name: d}]",
)


def random_creates(rng: random.Random) -> list[Create]:
    steps = "".join(f"- create: {{pod: p{n}, {rng.choice(CONTAINERS)}}}\n" for n in range(rng.randrange(2, 9)))
    actions = [step.action for step in parse_scenario(f"machine: {{}}\nsteps:\n{steps}").steps]
    return [action for action in actions if isinstance(action, Create)]


async def asked_of(runner: ScenarioRunner, create: Create) -> tuple[ContainerFit, ...]:
    """What the daemon's plan says of this pod, by the messages of a kubelet."""
    pod, kubelet = created_pod(create), runner.simulated.kubelet.node
    asked = [
        AskedCreate(sandbox_config(pod, kubelet), create_request(pod, container, "", node=kubelet))
        for container in pod.containers
    ]
    node, reader = runner.simulated.node, runner.simulated.interceptor.reader
    view = await fit(node, reader, encode_creates(asked).encode(), turn=nullcontext)
    assert view.problem == ""
    return view.containers


def agrees(answer: ContainerFit, outcome: StepOutcome) -> bool:
    """Whether the container is where the plan said, or refused with the same sentence."""
    name = answer.container.removeprefix("default/")
    if answer.refused:
        return answer.refused in outcome.refused[name]
    if name in outcome.refused:
        return False
    state = outcome.containers[name]
    placed = (state.kind, state.pool, str(state.cpus), str(state.owned), str(state.mems))
    return placed == (answer.kind, answer.pool, answer.cpus, answer.own_cpus, answer.mems)


@pytest.mark.parametrize("seed", range(STATES))
async def test_a_create_does_what_the_plan_says(seed: int) -> None:
    rng = random.Random(seed)
    creates = random_creates(rng)
    steps = tuple(Step(create, None, 0) for create in creates)
    runner = ScenarioRunner(Scenario("random", 0, rng.choice(MACHINES), rng.choice(OPTIONS), steps))
    await runner.open()
    for index, step in enumerate(steps):
        answers = await asked_of(runner, creates[index])
        outcome = await runner.play(index, step)
        assert all(agrees(answer, outcome) for answer in answers), (answers, outcome.problems, outcome.containers)
        moved = {move.container.removeprefix("default/") for answer in answers for move in answer.moves}
        assert moved <= {each.container for each in outcome.updated} | moved_in_place(answers)
    await runner.close()


def moved_in_place(answers: tuple[ContainerFit, ...]) -> set[str]:
    """Containers that keep their sets in another pool, and those of the pod itself, which the step names."""
    same = {
        move.container.removeprefix("default/")
        for answer in answers
        for move in answer.moves
        if (move.cpus, move.mems) == (move.cpus_before, move.mems_before)
    }
    own = {answer.container.removeprefix("default/") for answer in answers}
    return same | own
