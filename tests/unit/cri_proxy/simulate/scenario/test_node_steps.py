import pytest

from cri_proxy.simulate.errors import ScenarioError
from cri_proxy.simulate.scenario.model import Restart, Tamper
from cri_proxy.simulate.scenario.parse import parse_scenario
from sysfs.cpuset import CpuSet, NodeSet


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
        ("restart: all", "expected proxy, runtime or both, got 'all'"),
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
        ("tamper: {container: a/b, cpu: 1}", "did you mean 'cpus'?"),
        ("tamper: {container: a/b, mems: all}", "'all' is not a number"),
    ],
)
def test_a_wrong_step_is_told_what_is_wrong(step: str, expected: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(f"machine: host\nsteps:\n- {step}\n", "s.yaml")
    assert str(caught.value).startswith("s.yaml:3: ")
    assert expected in str(caught.value)
