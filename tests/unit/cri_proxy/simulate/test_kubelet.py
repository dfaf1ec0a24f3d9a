import pytest

from cri_proxy.simulate.node import SimulatedNode
from cri_proxy.simulate.outcome import StepOutcome
from cri_proxy.simulate.runner import ScenarioRunner
from cri_proxy.simulate.scenario.parse import parse_scenario

MACHINE = "machine: {cores: 4, memory: 1Gi, pci: [{address: '10:00.0', class: 2, node: 0}]}\n"
CONFIG = "config: {reservedResources: {cpu: 750m}}\nsteps:\n"


async def played(*steps: str) -> tuple[list[StepOutcome], SimulatedNode]:
    player = ScenarioRunner(parse_scenario(MACHINE + CONFIG + "".join(f"- {step}\n" for step in steps)))
    await player.open()
    outcomes = [outcome async for outcome in player.run()]
    await player.close()
    return outcomes, player.simulated


async def play(*steps: str) -> list[StepOutcome]:
    """What came of these steps on a machine of four CPUs, one of them reserved."""
    return (await played(*steps))[0]


async def test_an_init_container_has_ended_before_the_next_is_made() -> None:
    pod = "create: {pod: a, qos: guaranteed, containers: [{name: i, cpu: 3, init: true}, {name: c, cpu: 3}]}"
    outcome = (await play(pod))[0]
    assert outcome.ok
    assert [(name, seen.state) for name, seen in outcome.containers.items()] == [("a/c", "running"), ("a/i", "exited")]


async def test_a_sidecar_stays_beside_the_others() -> None:
    pod = "create: {pod: a, qos: guaranteed, containers: [{name: s, cpu: 1, sidecar: true}, {name: c, cpu: 2}]}"
    assert [seen.state for seen in (await play(pod))[0].containers.values()] == ["running", "running"]


async def test_an_ephemeral_container_joins_a_pod_that_runs() -> None:
    pod = "create: {pod: a, qos: guaranteed, containers: [{name: c, cpu: 2}]}"
    outcome = (await play(pod, "create: {pod: a, containers: [{name: shell, ephemeral: true}]}"))[1]
    assert str(outcome.containers["a/shell"].cpus) == "3"


@pytest.mark.parametrize(("static", "uids"), [("true", 1), ("false", 2)])
async def test_a_pod_made_again_is_another_one_unless_it_is_static(static: str, uids: int) -> None:
    pod = f"create: {{pod: a, static: {static}, containers: [{{name: c}}]}}"
    _, simulated = await played(pod, "exit: a/c", "delete: a", pod)
    uid = next(iter(simulated.runtime.node.sandboxes.values())).config.metadata.uid
    _, first = await played(pod)
    assert len({uid, next(iter(first.runtime.node.sandboxes.values())).config.metadata.uid}) == uids


async def test_a_refusal_is_kept_with_the_container_that_it_is_about() -> None:
    pod = "create: {pod: a, qos: guaranteed, containers: [{name: big, cpu: 9}, {name: small, cpu: 1}]}"
    refused, nothing = await play(pod, "update: {container: a/small, cpu: 2}")
    assert list(refused.refused) == ["a/big"]
    assert "wanted 9 exclusive CPUs" in refused.refused["a/big"]
    assert not nothing.refused


async def test_a_refused_resize_is_a_refusal_of_its_container() -> None:
    pod = "create: {pod: a, qos: guaranteed, containers: [{name: c, cpu: 1}]}"
    assert list((await play(pod, "update: {container: a/c, cpu: 9}"))[1].refused) == ["a/c"]


async def test_a_device_that_the_machine_does_not_have_is_given_to_nobody() -> None:
    outcome = (await play("create: {pod: a, containers: [{name: c, devices: ['11:00.0']}]}"))[0]
    assert outcome.error == "the machine has no device 0000:11:00.0; it has 0000:10:00.0"
