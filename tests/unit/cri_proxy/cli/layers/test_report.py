from dataclasses import replace
from pathlib import Path

from cri_proxy.cli.layers.report import ConfigReport, resolve, without_cgroup
from cri_proxy.config.load import parse_config

MACHINE = "{packages: 1, cores: 4, threads: 2}"
REPORT = ConfigReport(file="c.yaml")


def test_the_cpus_are_those_of_the_machine() -> None:
    found = resolve(REPORT, parse_config("reservedResources: {cpu: 'cpuset:0,4'}"), Path("/nowhere"), MACHINE)
    assert (found.valid, found.available, found.reserved, found.machine) == (True, "0-7", "0,4", MACHINE)


def test_what_a_start_refuses_on_the_machine_is_not_valid() -> None:
    found = resolve(REPORT, parse_config("reservedResources: {cpu: 'cpuset:9'}"), Path("/nowhere"), MACHINE)
    assert not found.valid
    assert "9" in found.error


def test_a_cgroup_of_the_node_is_left_out_with_a_warning() -> None:
    config = parse_config("availableResources: {cpu: /kubepods}\nreservedResources: {cpu: 750m}")
    without, warnings = without_cgroup(config)
    assert without == replace(config, available=replace(config.available, cpu=None))
    assert "/kubepods is a cgroup of the node" in warnings[0]
    assert without_cgroup(without) == (without, ())
