import pytest

from cri_proxy.simulate.errors import ScenarioError
from cri_proxy.simulate.scenario.model import Amounts, Attachment, ContainerRole, Create, NewContainer
from cri_proxy.simulate.scenario.parse import parse_scenario
from policies.base import QosClass
from sysfs.cpuset import CpuSet


def created(create: str) -> Create:
    """The pod of this create step. Raises ScenarioError."""
    action = parse_scenario(f"machine: host\nsteps:\n- create: {create}\n").steps[0].action
    assert isinstance(action, Create)
    return action


def container(text: str) -> NewContainer:
    """The only container of a pod."""
    return created(f"{{pod: web, containers: [{text}]}}").containers[0]


def test_qos_classes_are_taken_in_any_spelling() -> None:
    assert created("{pod: a, qos: Best-Effort, containers: [{name: c}]}").qos is QosClass.BEST_EFFORT


def test_a_container_says_what_it_is_to_its_pod() -> None:
    pod = created("{pod: a, containers: [{name: i, init: true}, {name: s, sidecar: true}, {name: m, init: false}]}")
    assert [c.role for c in pod.containers] == [ContainerRole.INIT, ContainerRole.SIDECAR, ContainerRole.REGULAR]


def test_a_pod_may_be_a_file_of_the_node() -> None:
    assert created("{pod: a, static: true, containers: []}").is_static
    assert not created("{pod: a, containers: []}").is_static


def test_devices_and_mounts_are_what_a_container_is_given() -> None:
    given = container("{name: c, devices: ['3b:00.0'], mounts: [/data]}").attachments
    assert given == (Attachment(address="0000:3b:00.0"), Attachment("/data", "", "/data", is_mount=True))


def test_an_ephemeral_container_of_a_guaranteed_pod_asks_for_nothing() -> None:
    pod = created("{pod: a, qos: guaranteed, containers: [{name: shell, ephemeral: true}]}")
    assert pod.containers == (NewContainer("shell", Amounts(), role=ContainerRole.EPHEMERAL),)


def test_a_container_may_bring_cpus_of_its_own() -> None:
    assert container("{name: c, cpuset_cpus: 2-3}").cpuset_cpus == CpuSet.parse("2-3")


@pytest.mark.parametrize(
    ("create", "expected"),
    [
        ("{containers: [{name: c0}]}", "pod is missing"),
        ("{pod: web}", "containers is missing"),
        ("{pod: a/b, containers: []}", "without slashes"),
        ("{pod: web, containers: [{cpu: 1}]}", "name is missing"),
        ("{pod: web, containers: [{name: a}, {name: a}]}", "two containers are named a"),
        ("{pod: web, qos: best, containers: [{name: a}]}", "expected guaranteed, burstable or besteffort"),
        ("{pod: web, static: 1, containers: []}", "static: expected true or false"),
        ("{pod: web, containers: [{name: a}, {name: b, init: true}]}", "b: init containers and sidecars stand before"),
        ("{pod: web, containers: [{name: a, init: true, sidecar: true}]}", "not init and sidecar"),
        ("{pod: web, containers: [{name: a, ephemeral: true, cpu: 1}]}", "an ephemeral container requests nothing"),
        ("{pod: web, containers: [{name: a, int: true}]}", "did you mean 'init'?"),
        ("{pod: web, containers: [{name: a, cpuset_cpus: all}]}", "cpuset_cpus: expected a list"),
    ],
)
def test_a_wrong_pod_is_told_what_is_wrong(create: str, expected: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        created(create)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        ("{cpu: 1}", "container is missing"),
        ("{container: a/b}", "nothing is changed"),
        ("{container: a, cpu: 1}", "expected pod"),
    ],
)
def test_a_wrong_resize_is_told_what_is_wrong(update: str, expected: str) -> None:
    with pytest.raises(ScenarioError, match=expected):
        parse_scenario(f"machine: host\nsteps:\n- update: {update}\n")
