import re
from pathlib import Path

import pytest

from cri_proxy.simulate.errors import ExpectationError
from cri_proxy.simulate.expect.expressions import evaluate
from cri_proxy.simulate.expect.functions import LastStep, vocabulary
from cri_proxy.simulate.outcome import ContainerState, MovedContainer, StepOutcome
from policies.base import PoolView
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.descriptions.machine import describe

MACHINE = describe({"packages": 2, "nodes": 2, "cores": 2, "threads": 2, "memory": "1Gi", "isolated": "15"})
ROOT = PoolView(
    "root",
    "",
    0,
    "root",
    cpus=CpuSet.parse("0-15"),
    shared=CpuSet.parse("4-14"),
    isolated_free=CpuSet.parse("15"),
    reserved=CpuSet.parse("0"),
    mems=NodeSet.parse("0-3"),
    shared_free_mcpu=11000,
    shared_granted_mcpu=0,
    memory_free_bytes=3 << 30,
)
WEB = ContainerState(
    "id",
    "running",
    CpuSet.parse("2-5,15"),
    NodeSet.parse("0"),
    exclusive=CpuSet.parse("2-3"),
    isolated=CpuSet.parse("15"),
    shared=CpuSet.parse("4-5"),
    shared_mcpu=500,
    pool="root",
    kind="mixed",
    kernel_cpus=CpuSet.parse("0-3"),
    kernel_mems=NodeSet.parse("0-1"),
    cpu_shares=2560,
    cpu_quota=250_000,
    devices=("x.io/gpu/g1",),
)
OUTCOME = StepOutcome(
    1,
    {},
    ("full",),
    {"web/c0": WEB},
    updated=(MovedContainer("bg/c0", WEB, WEB),),
    refused={"big/c0": "wanted 9 exclusive CPUs"},
    update_calls=2,
    notices=1,
)
LAST = LastStep(
    OUTCOME, {"web/c0": ("pool", "displaced")}, lambda seen: {"EXCLUSIVE_CPUS": str(seen.exclusive), "HBM_MEMS": ""}
)
FUNCTIONS = vocabulary(MACHINE, (ROOT,), {"web/c0": WEB}, LAST, {"x.io/gpu": ("x.io/gpu/g0", "x.io/gpu/g1")})


@pytest.mark.parametrize(
    "text",
    [
        "cpus('web/c0') == '2-5,15' and mems('web/c0') == {0}",
        "owned('web/c0') == exclusive('web/c0') | isolated('web/c0') == {2, 3, 15}",
        "shared('web/c0') == {4, 5} and reserved('web/c0') == {}",
        "shared_mcpu('web/c0') == 500 and pool('web/c0') == 'root'",
        "state('web/c0') == 'running' and state('web/c1') == 'gone'",
        "online() == '0-15' and kernel_isolated() == {15}",
        "node(1) == '4-7' and package(1) == '8-15' and core(5) == {4, 5}",
        "reserved_cpus() == {0} and free() == '4-14' and pool_cpus('root') == online()",
        "nodes_of('3-4') == {0, 1} and packages_of({7, 8}) == {0, 1}",
        "cpuset('0-2') == {0, 1, 2} and len(cpuset('0-2')) == 3",
        "disjoint({1}, {2}, '3-4') and not disjoint({1}, {2}, {1})",
        "subset({1}, {1, 2}) and not subset('0-1', {1})",
        "whole_cores({4, 5}) and not whole_cores({5, 6})",
        "kind('web/c0') == 'mixed' and kernel_cpus('web/c0') == '0-3' and kernel_mems('web/c0') == {0, 1}",
        "cpu_shares('web/c0') == 2560 and cpu_quota('web/c0') == 250000 and notices() == 1",
        "told('web/c0', 'EXCLUSIVE_CPUS') == exclusive('web/c0') and told('web/c0', 'HBM_MEMS') == {}",
        "devices('web/c0') == {'x.io/gpu/g1'} and free_devices('x.io/gpu') == {'x.io/gpu/g0'}",
        "pools() == {'root'} and memory_free('root') == 3072",
        "refused('big/c0', 'wanted 9') and not refused('big/c0', 'wanted 8') and not refused('web/c0')",
        "because('web/c0', 'displaced') and not because('web/c0', 'lifted') and updates() == 2",
        "not ok() and error() == 'full' and updated() == {'bg/c0'} and containers() == {'web/c0'}",
    ],
)
def test_every_function_tells_the_truth(text: str) -> None:
    assert evaluate(text, FUNCTIONS).is_true


def test_before_the_first_step_all_is_well() -> None:
    functions = vocabulary(MACHINE, (), {}, LastStep(), {})
    assert evaluate("ok() and error() == '' and updated() == {} and free() == {}", functions).is_true


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("cpus('web/c1') == {}", "there is no container 'web/c1'; there are web/c0"),
        ("node(9) == {}", "there is no NUMA node 9; there are 0, 1, 2, 3"),
        ("pool_cpus('die #0') == {}", "there is no pool 'die #0'"),
        ("memory_free('die #0') == 1", "there is no pool 'die #0'; there are root"),
        ("free_devices('x.io/nic') == {}", "there is no type of devices 'x.io/nic'; there are x.io/gpu"),
        ("because('web/c0', 'displace')", "there is no reason 'displace'; did you mean displaced?"),
        ("because('bg/c0', 'pool')", "there is no decision about a container 'bg/c0'; there are web/c0"),
        ("told('web/c0', 'CPUS') == ''", "there is no variable 'CPUS'; there are EXCLUSIVE_CPUS, HBM_MEMS"),
        ("refused(1)", "refused takes a container and words"),
        ("nodes_of({'a'}) == {}", "expected a set of CPUs"),
        ("disjoint(1, 2)", "expected a set"),
        ("cpuset('a') == {}", "is not a number"),
    ],
)
def test_a_wrong_question_is_told_what_there_is(text: str, problem: str) -> None:
    with pytest.raises(ExpectationError) as caught:
        evaluate(text, FUNCTIONS)
    assert problem in str(caught.value)


def test_every_function_is_described_once_on_the_reference_page() -> None:
    page = (Path(__file__).parents[5] / "docs" / "reference" / "scenarios.md").read_text()
    assert sorted(re.findall(r"^\| `(\w+)\(.*?\)` \| .+ \|$", page, re.MULTILINE)) == sorted(FUNCTIONS)
