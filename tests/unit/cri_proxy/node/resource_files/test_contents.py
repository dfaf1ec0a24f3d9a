import json
import subprocess
from dataclasses import replace

import pytest

from cri_proxy.node.resource_files.contents import (
    ContainerResources,
    as_json,
    as_shell,
    generation_in,
    machine_sets,
    resources_of,
    unpinned_resources,
)
from policies.base import CpuKind, Grant, Pinning
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.descriptions.machine import describe
from tests.fakes.device_policy import listed
from tests.fakes.grants import request

# Two nodes of four CPUs and one of slow memory.
GROUND = machine_sets(
    describe(
        {
            "packages": 2,
            "cores": 4,
            "memory": "4Gi",
            "memory_nodes": [{"memory": "64Gi", "kind": "pmem", "near": {0: 17}}],
        }
    )
)
VARIABLES = (
    "SHARED_CPUS",
    "ISOLATED_CPUS",
    "EXCLUSIVE_CPUS",
    "ALL_MEMS",
    "DRAM_MEMS",
    "PMEM_MEMS",
    "HBM_MEMS",
    "DEVICES",
)


def pinned(cpus: str, mems: str = "0") -> Pinning:
    return Pinning(CpuSet.parse(cpus), NodeSet.parse(mems))


def variables(
    kind: CpuKind, wanted: Pinning, confirmed: Pinning | None = None, *, own: str = "", isolated: str = ""
) -> ContainerResources:
    grant = Grant(request("c", 1000), "root", kind, CpuSet.parse(own), CpuSet.parse(isolated))
    return resources_of(grant, wanted, confirmed, GROUND)


def cpus(facts: ContainerResources) -> tuple[str, str, str, str]:
    return str(facts.shared_cpus), str(facts.isolated_cpus), str(facts.exclusive_cpus), str(facts.hidden_cpus)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (variables(CpuKind.SHARED, pinned("1-3")), ("1-3", "", "", "")),
        (variables(CpuKind.RESERVED, pinned("0")), ("0", "", "", "")),
        (variables(CpuKind.EXCLUSIVE, pinned("1-2"), own="1-2"), ("", "", "1-2", "")),
        (variables(CpuKind.ISOLATED, pinned("7"), isolated="7"), ("", "7", "", "")),
        (variables(CpuKind.MIXED, pinned("1-3"), own="1"), ("2-3", "", "1", "")),
        (variables(CpuKind.PRESERVE, Pinning(None, None)), ("0-7", "", "", "")),
        (variables(CpuKind.PRESERVE, Pinning(None, None), pinned("5")), ("5", "", "", "")),
    ],
)
def test_each_kind_of_grant_says_whose_its_cpus_are(
    facts: ContainerResources, expected: tuple[str, str, str, str]
) -> None:
    assert cpus(facts) == expected


def test_siblings_that_are_owned_and_not_run_on_are_hidden() -> None:
    assert cpus(variables(CpuKind.EXCLUSIVE, pinned("1"), own="1,5")) == ("", "", "1", "5")


def test_without_pinning_a_container_is_told_the_cpus_that_it_should_pin_itself_to() -> None:
    assert cpus(variables(CpuKind.EXCLUSIVE, Pinning(None, None), own="1-2")) == ("", "", "1-2", "")


def test_what_is_about_to_go_is_told_at_once_and_what_comes_when_it_is_there() -> None:
    assert variables(CpuKind.SHARED, pinned("1-2"), pinned("1-4")).shared_cpus == CpuSet.parse("1-2")
    assert variables(CpuKind.SHARED, pinned("1-4"), pinned("1-2")).shared_cpus == CpuSet.parse("1-2")


def test_a_move_is_told_when_it_is_done() -> None:
    assert variables(CpuKind.SHARED, pinned("4-5"), pinned("1-2")).shared_cpus == CpuSet.parse("1-2")


def test_memory_nodes_are_told_by_kind() -> None:
    facts = variables(CpuKind.SHARED, pinned("1", "0,2"))
    assert (str(facts.all_mems), str(facts.dram_mems), str(facts.pmem_mems), str(facts.hbm_mems)) == (
        "0,2",
        "0",
        "2",
        "",
    )


def test_memory_that_is_not_pinned_is_all_of_it() -> None:
    assert str(variables(CpuKind.SHARED, Pinning(CpuSet.parse("1"), None)).all_mems) == "0-2"


def test_after_a_reset_everything_is_shared() -> None:
    facts = unpinned_resources(pinned("0-7", "0-2"), GROUND)
    assert (cpus(facts), str(facts.all_mems), facts.pool) == (("0-7", "", "", ""), "0-2", "")


@pytest.mark.parametrize(
    "facts", [variables(CpuKind.MIXED, pinned("1-3", "0,2"), own="1"), variables(CpuKind.SHARED, pinned("0"))]
)
def test_a_shell_finds_every_variable_and_nothing_else(facts: ContainerResources) -> None:
    script = as_shell(facts) + "".join(f'echo "{name}=${{{name}?}}"\n' for name in VARIABLES)
    printed = subprocess.run(["sh", "-eu"], input=script, capture_output=True, text=True, check=True).stdout
    sets = (
        facts.shared_cpus,
        facts.isolated_cpus,
        facts.exclusive_cpus,
        facts.all_mems,
        facts.dram_mems,
        facts.pmem_mems,
        facts.hbm_mems,
        "",
    )
    assert printed.splitlines() == [f"{name}={ids}" for name, ids in zip(VARIABLES, sets, strict=True)]
    assert len(as_shell(facts).splitlines()) == len(VARIABLES)


def test_a_program_finds_the_same_facts_and_more() -> None:
    facts = replace(variables(CpuKind.MIXED, pinned("1-3", "0,2"), own="1"), shared_mcpu=500)
    plain = json.loads(as_json(facts, 7))
    assert plain == {
        "version": 1,
        "generation": 7,
        "pool": "root",
        "kind": "mixed",
        "shared_cpus": "2-3",
        "isolated_cpus": "",
        "exclusive_cpus": "1",
        "hidden_cpus": "",
        "shared_mcpu": 500,
        "all_mems": "0,2",
        "dram_mems": "0",
        "pmem_mems": "2",
        "hbm_mems": "",
        "devices": [],
    }


def test_the_generation_is_found_again() -> None:
    assert generation_in(as_json(variables(CpuKind.SHARED, pinned("0")), 41)) == 41


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"generation": "x"}', '{"generation": true}', '{"generation": -1}', "[" * 9999]
)
def test_a_text_that_is_not_ours_has_no_generation(text: str) -> None:
    assert generation_in(text) == 0


def test_its_devices_are_listed() -> None:
    grant = Grant(request("c", 1000), "root", CpuKind.SHARED, devices=listed("example.com/gpu/gpu0", "nic/eth1"))
    facts = resources_of(grant, pinned("1"), None, GROUND)
    assert 'DEVICES="example.com/gpu/gpu0,nic/eth1"' in as_shell(facts).splitlines()
    assert json.loads(as_json(facts, 1))["devices"] == ["example.com/gpu/gpu0", "nic/eth1"]
    assert unpinned_resources(pinned("0-7"), GROUND, facts.devices).devices == facts.devices


@pytest.mark.parametrize("name", ['a/"b', "a/$(touch x)", "a/`id`", "a/b\\", "a/'b'"])
def test_a_shell_reads_the_name_of_a_device_as_it_is(name: str) -> None:
    facts = replace(variables(CpuKind.SHARED, pinned("1")), devices=(name,))
    script = as_shell(facts) + 'printf %s "$DEVICES"'
    assert subprocess.run(["sh", "-eu"], input=script, capture_output=True, text=True, check=True).stdout == name
