import pytest

from cri_proxy.cri_client.pods import ContainerRole
from cri_proxy.simulate.scenario.amounts import Amounts
from cri_proxy.simulate.scenario.model import Attachment, Create, NewContainer, Restart, Tamper
from cri_proxy.simulate.scenario.parse import parse_scenario
from cri_proxy.yaml_fields import DocumentError
from policies.base import QosClass
from sysfs.cpuset import CpuSet, NodeSet


def created(create: str) -> Create:
    """The pod of this create step. Raises DocumentError."""
    action = parse_scenario(f"machine: host\nsteps:\n- create: {create}\n").steps[0].action
    assert isinstance(action, Create)
    return action


def container(text: str) -> NewContainer:
    return created(f"{{pod: web, containers: [{text}]}}").containers[0]


def test_qos_classes_are_taken_in_any_spelling() -> None:
    assert created("{pod: a, qos: Best-Effort, containers: [{name: c}]}").qos is QosClass.BEST_EFFORT


def test_a_container_says_what_it_is_to_its_pod() -> None:
    pod = created("{pod: a, containers: [{name: i, init: true}, {name: s, sidecar: true}, {name: m, init: false}]}")
    assert [c.role for c in pod.containers] == [ContainerRole.INIT, ContainerRole.SIDECAR, ContainerRole.REGULAR]


def test_a_pod_may_be_a_file_of_the_node() -> None:
    assert created("{pod: a, static: true, containers: []}").is_static
    assert not created("{pod: a, containers: []}").is_static


@pytest.mark.parametrize("count", ["0", "10001", "100000", "1" * 5000])
def test_a_count_is_bounded_however_many_digits_it_has(count: str) -> None:
    with pytest.raises(DocumentError, match="from 1 to 10000"):
        created(f"{{pod: a, count: {count}, containers: [{{name: c}}]}}")


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
        ("{pod: web, containers: [{name: a, int: true}]}", "did you mean init?"),
        ("{pod: web, containers: [{name: a, cpuset_cpus: all}]}", "cpuset_cpus: expected a list"),
    ],
)
def test_a_wrong_pod_is_told_what_is_wrong(create: str, expected: str) -> None:
    with pytest.raises(DocumentError) as caught:
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
    with pytest.raises(DocumentError, match=expected):
        parse_scenario(f"machine: host\nsteps:\n- update: {update}\n")


def test_only_what_is_given_is_rewritten() -> None:
    text = "machine: host\nsteps:\n- tamper: {container: a/b, mems: '0-1'}\n- tamper: {container: a/b, cpus: '3'}\n"
    actions = [step.action for step in parse_scenario(text).steps]
    assert actions == [Tamper("a/b", None, NodeSet.parse("0-1")), Tamper("a/b", CpuSet.parse("3"))]


def test_a_restart_may_lose_the_state() -> None:
    text = "machine: host\nsteps: [restart: both, restart: {what: both, loses_state: true}]"
    assert [step.action for step in parse_scenario(text).steps] == [Restart("both"), Restart("both", loses_state=True)]


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        ("restart: all", "expected one of proxy, runtime, both, got 'all'"),
        ("reconfigure: 3", "expected a mapping of options"),
        ("restart: {loses_state: true}", "restart: what is missing"),
        ("restart: {what: runtime, loses_state: true}", "no state of the proxy to lose"),
        ("restart: {what: proxy, lost: true}", "unknown key 'lost'"),
        ("reset: everything", "expected true, got 'everything'"),
        ("advance: -1", "expected a number of seconds above 0, got '-1'"),
        ("advance: inf", "expected a number of seconds"),
        ("advance: soon", "expected a number of seconds"),
        ("offline: ''", "expected CPUs like 0-3,8, got nothing"),
        ("online: x", "'x' is not a number"),
        ("tamper: {cpus: 1}", "container is missing"),
        ("tamper: {container: a/b}", "nothing is written; give cpus, mems, or both"),
        ("tamper: {container: a/b, cpu: 1}", "did you mean cpus?"),
        ("tamper: {container: a/b, mems: all}", "'all' is not a number"),
    ],
)
def test_a_wrong_step_is_told_what_is_wrong(step: str, expected: str) -> None:
    with pytest.raises(DocumentError) as caught:
        parse_scenario(f"machine: host\nsteps:\n- {step}\n", "s.yaml")
    assert str(caught.value).startswith("s.yaml:3: ")
    assert expected in str(caught.value)
