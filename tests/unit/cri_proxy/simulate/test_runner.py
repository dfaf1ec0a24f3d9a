from dataclasses import replace
from pathlib import Path

import pytest

from cri_proxy.simulate.machine import machine_source
from cri_proxy.simulate.outcome import StepOutcome
from cri_proxy.simulate.runner import ScenarioRunner
from cri_proxy.simulate.scenario.model import Scenario
from cri_proxy.simulate.scenario.parse import parse_scenario
from cri_proxy.yaml_fields import DocumentError

MACHINE = "machine: {cores: 4, memory: 1Gi}\nconfig: {reservedResources: {cpu: 750m}}\nsteps:\n"


async def played(scenario: Scenario) -> tuple[list[StepOutcome], int]:
    player = ScenarioRunner(scenario)
    await player.open()
    outcomes = [outcome async for outcome in player.run()]
    await player.close()
    return outcomes, player.simulated.runtime.update_count


async def play(*steps: str) -> list[StepOutcome]:
    """What came of these steps on a machine of four CPUs, one of them reserved."""
    return (await played(parse_scenario(MACHINE + "".join(f"- {step}\n" for step in steps))))[0]


OWN = "create: {pod: own, qos: guaranteed, containers: [{name: c0, cpu: 2}]}"
BACKGROUND = "create: {pod: bg, containers: [{name: c0}]}"


async def test_what_the_runtime_has_on_record_is_what_is_told() -> None:
    seen = (await play(OWN))[0].containers["own/c0"]
    assert (str(seen.cpus), str(seen.exclusive), seen.pool, seen.state) == ("1-2", "1-2", "root", "running")


async def test_others_that_moved_are_told_and_nobody_else() -> None:
    outcomes = await play(BACKGROUND, OWN, "delete: own")
    assert [[moved.container for moved in o.updated] for o in outcomes] == [[], ["bg/c0"], ["bg/c0"]]


async def test_a_refused_container_does_not_stop_the_scenario() -> None:
    outcomes = await play("create: {pod: big, qos: guaranteed, containers: [{name: c0, cpu: 9}]}", OWN)
    assert [o.ok for o in outcomes] == [False, True]
    assert "wanted 9 exclusive CPUs" in outcomes[0].error


async def test_one_refused_container_of_a_pod_does_not_stop_the_others() -> None:
    step = "create: {pod: web, qos: guaranteed, containers: [{name: big, cpu: 9}, {name: small, cpu: 1}]}"
    outcome = (await play(step))[0]
    assert outcome.error.startswith("big: ")
    assert list(outcome.containers) == ["web/small"]


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        ("create: {pod: own, containers: [{name: c0, cpu: 1}]}", "runs already"),
        ("update: {container: own/c0, cpu: 4}", "wanted 4 exclusive CPUs"),
        ("reconfigure: {reservedResources: {cpu: 3}}", "leaves no room for own/c0"),
    ],
)
async def test_a_step_that_cannot_be_done_changes_nothing(step: str, problem: str) -> None:
    before, after = await play(OWN, step)
    assert problem in after.error
    assert after.containers == before.containers


@pytest.mark.parametrize("step", ["delete: web", "stop: own/c1", "reconfigure: {http: off}"])
async def test_a_step_that_cannot_be_meant_is_no_refusal(step: str) -> None:
    with pytest.raises(DocumentError, match="step 1: "):
        await play(OWN, step)


async def test_what_was_removed_or_refused_cannot_be_stopped_again() -> None:
    big = "create: {pod: big, qos: guaranteed, containers: [{name: c0, cpu: 9}]}"
    outcomes = await play(OWN, "stop: own/c0", "stop: own/c0", "delete: own", "delete: own", big, "stop: big/c0")
    assert [o.ok for o in outcomes] == [True, True, False, True, False, False, False]
    assert outcomes[2].error == "pod own has no container c0; it has none"


async def test_an_ended_container_holds_nothing_and_can_be_made_again() -> None:
    again = "create: {pod: own, containers: [{name: c0, cpu: 1}]}"
    outcomes = await play(OWN, "exit: own/c0", "exit: own/c0", again)
    assert outcomes[1].containers["own/c0"].json_value()["cpus"] == ""
    assert "has ended" in outcomes[2].error
    assert len(outcomes[3].containers["own/c0"].exclusive) == 1


async def test_the_cgroup_of_a_container_that_has_ended_is_gone() -> None:
    assert "has ended" in (await play(OWN, "exit: own/c0", "tamper: {container: own/c0, cpus: 0-3}"))[2].error


async def test_a_request_cannot_be_resized_above_its_limit() -> None:
    create = "create: {pod: b, qos: burstable, containers: [{name: c0, cpu_request: 1, cpu_limit: 2}]}"
    assert "more than the limit" in (await play(create, "update: {container: b/c0, cpu_request: 3}"))[1].error


async def test_a_restart_sends_the_runtime_nothing_at_all() -> None:
    steps = [BACKGROUND, OWN, "restart: proxy", "restart: runtime", "restart: both"]
    scenario = parse_scenario(MACHINE + "".join(f"- {step}\n" for step in steps))
    outcomes, updates = await played(scenario)
    _, before = await played(replace(scenario, steps=scenario.steps[:2]))
    assert [o.ok for o in outcomes] == [True] * 5
    assert updates == before == 2  # when the first runs, and when the second comes


async def test_every_placement_comes_with_its_reasons() -> None:
    assert any("2 exclusive CPUs" in reason for reason in (await play(OWN))[0].reasons["own/c0"])


async def test_an_annotation_without_effect_is_told_and_refuses_nobody() -> None:
    create = "create: {pod: a, annotations: {cri-proxy.io/rdtclass: gold}, containers: [{name: c}]}"
    outcome = (await play("reconfigure: {strictAnnotations: true}", create))[1]
    assert outcome.ok
    assert "annotation cri-proxy.io/rdtclass: known, without effect yet" in outcome.reasons["a/c"]


async def test_an_expectation_that_is_not_met_says_what_was_found() -> None:
    outcome = (await play(OWN, "expect: [\"cpus('own/c0') == {1}\", \"cpus('x/y') == {}\", ok()]"))[1]
    assert outcome.problems == (
        "cpus('own/c0') == {1}: left is 1-2, right is 1",
        "cpus('x/y') == {}: there is no container 'x/y'; there are own/c0",
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("machine: {cpus: 4}", "unknown key 'cpus'"),
        ("machine: /nowhere", "no such directory"),
        ("machine: {cores: 4}\nconfig: {reserved: 1}", "config: reserved: unknown option"),
        ("machine: {cores: 4}\nconfig: {reservedResources: {cpu: 9}}", "cannot reserve 9"),
    ],
)
def test_a_machine_or_configuration_that_does_not_do_is_refused(text: str, problem: str) -> None:
    with pytest.raises(DocumentError) as caught:
        ScenarioRunner(parse_scenario(text, "s.yaml"))
    assert problem in str(caught.value)


def test_a_machines_path_counts_from_the_scenarios_directory(tmp_path: Path) -> None:
    (tmp_path / "a.tar.xz").touch()
    scenario = parse_scenario("machine: a.tar.xz", str(tmp_path / "s.yaml"))
    assert machine_source(scenario) == str(tmp_path / "a.tar.xz")
    assert machine_source(replace(scenario, machine="a.tar.xz:r/1")) == f"{tmp_path}/a.tar.xz:r/1"
    assert machine_source(replace(scenario, machine="b.tar.xz")) == "b.tar.xz"
    assert machine_source(replace(scenario, machine="host")) == "host"


async def test_whoever_preserves_its_cpus_has_its_memory_left_alone_too() -> None:
    pod = "pod: a, namespace: kube-system, annotations: {cri-proxy.io/cpu.preserve: true}"
    create = f"create: {{{pod}, containers: [{{name: c, cpu: 1}}]}}"
    seen = (await play(create))[0].containers["a/c"]
    assert (str(seen.cpus), str(seen.mems)) == ("", "")


@pytest.mark.parametrize("where", ["costs: {x.io/gpu/gpu0: {-1: [cpu/cpu0]}}\n", ""])
async def test_costs_that_cannot_be_used_end_the_scenario_with_their_line(where: str) -> None:
    step = "" if where else "- costs: {x.io/gpu/gpu0: {-1: [cpu/cpu0]}}\n"
    scenario = parse_scenario(f"machine: {{cores: 4, memory: 1Gi}}\n{where}steps:\n{step}", "s.yaml")
    with pytest.raises(DocumentError, match=r"^s.yaml:[23]: costs: "):
        await played(scenario)
