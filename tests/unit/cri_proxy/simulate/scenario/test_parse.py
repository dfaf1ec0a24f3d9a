from pathlib import Path

import pytest

from cri_proxy.simulate.scenario.amounts import Amounts
from cri_proxy.simulate.scenario.model import (
    Advance,
    ChangeCosts,
    CostText,
    CpuHotplug,
    Create,
    Delete,
    Expect,
    NewContainer,
    OnContainer,
    Reconfigure,
    ResetNode,
    Resize,
    Restart,
    Scenario,
    Tamper,
)
from cri_proxy.simulate.scenario.parse import parse_scenario, scenarios_in
from cri_proxy.yaml_fields import DocumentError
from policies.base import QosClass
from sysfs.cpuset import CpuSet

EXAMPLE = """\
machine: {packages: 2, cores: 2}
config: {reservedResources: {cpu: 750m}}
steps:
- create: {pod: web, namespace: prod, qos: guaranteed, annotations: {a: true, b: {c0: -1}}, labels: {app: web},
           containers: [{name: c0, cpu: "2", memory: 1Ki}]}
- stop: web/c0
- exit: web/c0
- restart-container: prod/web/c0
- update: {container: web/c0, cpu: "3"}
- delete: prod/web
- reconfigure: {reservedResources: {cpu: "2"}}
- restart: both
- tamper: {container: web/c0, cpus: 0-3}
- offline: 2-3
- online: 3
- advance: 1.5
- reset: true
- costs: {x.io/gpu/gpu0: {5: [cpu/cpu0]}}
- expect: ["ok()", "cpus('web/c0') == {4, 5}"]
- expect: ok()
"""


def problem(steps: str) -> str:
    with pytest.raises(DocumentError) as caught:
        parse_scenario(f"machine: host\nsteps:\n{steps}\n", "s.yaml")
    return str(caught.value)


def test_every_kind_of_step_is_understood() -> None:
    actions = [step.action for step in parse_scenario(EXAMPLE).steps]
    create = Create(
        "web",
        "prod",
        QosClass.GUARANTEED,
        (("a", "true"), ("b", '{"c0": -1}')),
        (("app", "web"),),
        (NewContainer("c0", Amounts(cpu_mcpu=2000, memory_bytes=1024)),),
    )
    assert actions == [
        create,
        OnContainer("stop", "web/c0"),
        OnContainer("exit", "web/c0"),
        OnContainer("restart-container", "prod/web/c0"),
        Resize("web/c0", Amounts(cpu_mcpu=3000)),
        Delete("prod/web"),
        Reconfigure({"reservedResources": {"cpu": "2"}}),
        Restart("both"),
        Tamper("web/c0", CpuSet.parse("0-3")),
        CpuHotplug("offline", CpuSet.parse("2-3")),
        CpuHotplug("online", CpuSet.parse("3")),
        Advance(1.5),
        ResetNode(),
        ChangeCosts(CostText("scenario", '{"x.io/gpu/gpu0": {"5": ["cpu/cpu0"]}}', 18)),
        Expect(("ok()", "cpus('web/c0') == {4, 5}")),
        Expect(("ok()",)),
    ]


def test_a_step_remembers_how_and_where_it_was_written() -> None:
    step = parse_scenario(EXAMPLE).steps[1]
    assert (step.written, step.line) == ({"stop": "web/c0"}, 6)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ("- {stop: a/b, exit: a/b}", "s.yaml:3: a step does one thing"),
        ("- {}", "this one has 0"),
        ("- stop: web", "expected pod/container"),
        ("- stop: a/b/c/d", "expected pod/container"),
        ("- delete: a/b/c", "expected a pod's name"),
        ("- destroy: web", "unknown key 'destroy'"),
        (
            "- create:\n    pod: web\n    containers:\n    - name: a\n      cpus: 2",
            "s.yaml:7: a container: unknown key",
        ),
        ("- expect: ['ok(']", "expect: ok(: not an expression"),
        ("- expect:\n  - pool('a/b') == 'die #0'", "in quotes, YAML takes no # for a comment"),
    ],
)
def test_a_wrong_step_is_named_with_its_line(steps: str, expected: str) -> None:
    assert expected in problem(steps)


def test_a_scenario_without_a_machine_is_refused() -> None:
    with pytest.raises(DocumentError, match="machine is missing; give"):
        parse_scenario("steps: []")


def test_a_wrong_document_does_not_stop_the_next(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("machine: host\n---\nsteps: []\n---\nmachine: host\nsteps: []\n")
    kinds = [type(found) for found in scenarios_in(file.read_text(), str(file))]
    assert kinds == [Scenario, DocumentError, Scenario]


def test_a_text_that_is_not_yaml_is_one_error() -> None:
    assert ["not YAML" in str(found) for found in scenarios_in("a: [", "s.yaml")] == [True]
