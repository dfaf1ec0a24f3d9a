from dataclasses import replace

import pytest

from cri_proxy.simulate.outcome import ContainerState, MovedContainer, StepOutcome
from cri_proxy.simulate.report import change_text, heading, headline, placement_text, step_lines, summary
from cri_proxy.simulate.run_files import run_scenario
from cri_proxy.simulate.scenario.parse import parse_scenario
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.descriptions.machine import describe

SHARING = ContainerState(
    "id", "running", CpuSet.parse("4-7"), NodeSet.parse("1"), shared=CpuSet.parse("4-7"), shared_mcpu=250
)
OWNING = ContainerState(
    "id", "running", CpuSet.parse("2"), NodeSet.parse("0"), exclusive=CpuSet.parse("2"), pool="root"
)


def test_a_container_with_no_cpu_time_booked_is_marked() -> None:
    seen = replace(SHARING, shared_mcpu=0, overcommitted=True)
    assert placement_text(seen) == "CPUs 4-7 shared (overcommitted), memory node 1"


@pytest.mark.parametrize(
    ("step", "line"),
    [
        ("create: {pod: web, qos: guaranteed, containers: [{name: a, cpu: 1}]}", "create pod web (Guaranteed): a"),
        ("create: {pod: web, namespace: x, containers: [{name: a}, {name: b}]}", "create pod web in x: a, b"),
        ("exit: web/a", "web/a has ended"),
        ("update: {container: web/a, cpu: 2}", "resize web/a"),
        ("delete: web", "delete pod web"),
        ("costs: {}", "the costs of devices change"),
        ("devices: {}", "the inventory of devices changes"),
        ("reconfigure: {adopt: leave, policy: none}", "reconfigure: adopt, policy"),
        ("restart: both", "restart proxy and runtime"),
        ("restart: {what: proxy, loses_state: true}", "restart proxy, the state is lost"),
        ("reset: true", "reset: the proxy ends, every container is widened"),
        ("advance: 30", "30 seconds pass"),
        ("offline: 3", "CPU 3 goes offline"),
        ("online: 2-3", "CPUs 2-3 go online"),
        ("tamper: {container: web/a, cpus: 0-1}", "another process writes 0-1 to cpuset.cpus of web/a"),
        ("expect: [ok(), not ok()]", "expect ok(); not ok()"),
    ],
)
def test_a_step_has_one_line(step: str, line: str) -> None:
    assert headline(parse_scenario(f"machine: host\nsteps:\n- {step}").steps[0].action) == line


def test_a_place_says_what_the_cpus_are_to_the_container() -> None:
    assert placement_text(SHARING) == "CPUs 4-7 shared (250m), memory node 1"
    assert placement_text(OWNING) == "CPU 2 exclusive, memory node 0, root"
    assert placement_text(ContainerState("id", "running")) == "CPUs not pinned, memory not pinned"


def test_devices_stand_behind_the_place() -> None:
    seen = replace(OWNING, devices=("x.io/gpu/g0", "x.io/gpu/g1"))
    assert placement_text(seen) == "CPU 2 exclusive, memory node 0, root, devices x.io/gpu/g0, x.io/gpu/g1"


def test_thread_siblings_that_are_left_idle_are_called_hidden() -> None:
    quiet = ContainerState("id", "running", CpuSet.parse("2"), NodeSet.parse("0"), exclusive=CpuSet.parse("2-3"))
    assert placement_text(quiet) == "CPU 2 exclusive + CPU 3 hidden, memory node 0"


def test_what_the_kernel_enforces_is_told_where_it_is_something_else() -> None:
    drifted = replace(OWNING, kernel_cpus=CpuSet.parse("0-3"), kernel_mems=NodeSet.parse("0"))
    assert placement_text(drifted) == "CPU 2 exclusive, memory node 0, root; the kernel has CPUs 0-3"


def test_cpus_that_are_granted_and_not_pinned_are_not_called_exclusive() -> None:
    config = "config: {reservedResources: {cpu: 1}, topologyAware: {PinCPU: false}}"
    create = "create: {pod: g, qos: guaranteed, containers: [{name: c, cpu: 1}]}"
    told = run_scenario(parse_scenario(f"machine: {{cores: 4, memory: 1Gi}}\n{config}\nsteps:\n- {create}")).text
    assert "g/c: CPUs not pinned, memory node 0, root" in told
    assert "CPU 1 exclusive" not in told


def test_a_move_says_what_changed_and_nothing_else() -> None:
    assert change_text(MovedContainer("a", SHARING, OWNING)) == "CPUs 4-7 -> 2, memory nodes 1 -> 0"
    assert (
        change_text(MovedContainer("a", SHARING, ContainerState("id", "running", CpuSet(), NodeSet.parse("1"))))
        == "CPUs 4-7 -> any"
    )


def test_a_step_tells_refusals_places_reasons_and_moves() -> None:
    step = parse_scenario("machine: host\nsteps:\n- create: {pod: a, containers: [{name: c}, {name: d}]}").steps[0]
    outcome = StepOutcome(
        0,
        step.written,
        ("d: full",),
        {"a/c": OWNING, "b/c": SHARING},
        updated=(MovedContainer("b/c", OWNING, SHARING),),
        named=("a/c", "a/d"),
        reasons={"a/c": ("because",)},
    )
    assert step_lines(step, outcome) == [
        "  0  create pod a: c, d",
        "     REFUSED: d: full",
        "     a/c: CPU 2 exclusive, memory node 0, root",
        "         because",
        "     moved b/c: CPUs 2 -> 4-7, memory nodes 0 -> 1",
    ]


def test_a_restart_that_moves_nobody_says_so() -> None:
    step = parse_scenario("machine: host\nsteps: [restart: both]").steps[0]
    assert step_lines(step, StepOutcome(0, step.written, (), {})) == [
        "  0  restart proxy and runtime",
        "     no container moved",
    ]


def test_a_check_that_puts_something_right_says_so_and_tampering_is_no_move() -> None:
    steps = parse_scenario("machine: host\nsteps:\n- advance: 60\n- tamper: {container: a/b, cpus: 1}").steps
    repaired = StepOutcome(0, steps[0].written, (), {}, update_calls=1)
    assert step_lines(steps[0], repaired)[1:] == ["     no container moved; 1 update sent again"]
    assert step_lines(steps[1], StepOutcome(1, steps[1].written, (), {}))[1:] == []


def test_the_heading_says_what_is_played_on_what() -> None:
    scenario = parse_scenario("about: a tale\nmachine: host", "s.yaml")
    assert heading(scenario, describe({"cores": 2, "isolated": "1"}), (), ["careful"]) == [
        "s.yaml:1: a tale",
        "  machine: 1 package, 1 NUMA node, 2 CPUs (0-1), isolated 1",
        "  note: careful",
    ]


def test_the_summary_counts_refusals_and_expectations() -> None:
    good, refused = StepOutcome(0, {}, (), {}), StepOutcome(1, {}, ("no",), {})
    met, unmet = (StepOutcome(2, {}, problems, {}, is_expectation=True) for problems in ((), ("no",)))
    assert summary([good, good]) == "  2 steps, none refused"
    assert summary([good, refused, met]) == "  2 steps, 1 refused, all expectations met"
    assert summary([met, unmet]) == "  0 steps, none refused, 1 of 2 expectations not met"
