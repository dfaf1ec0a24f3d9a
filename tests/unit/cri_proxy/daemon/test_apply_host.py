from dataclasses import replace
from pathlib import Path

from cri_proxy.config.load import parse_config
from cri_proxy.config.model import Config
from cri_proxy.config.settings import settings_for
from cri_proxy.daemon.apply import Host
from cri_proxy.simulate.machine import with_offline
from sysfs.cpuset import CpuSet
from tests.fakes.machines import small_machine
from tests.fakes.site import Silent
from tests.fakes.sysfs_tree import write_tree

MACHINE = small_machine()


def host_at(root: Path) -> Host:
    return Host(settings_for(parse_config(f"sysfsRoot: {root}")), Silent())


def test_the_machine_is_discovered_once_until_it_is_asked_for_anew(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "host", MACHINE)
    host = host_at(root)
    assert host.machine().online == MACHINE.online
    write_tree(root, with_offline(MACHINE, CpuSet.parse("7")))
    assert host.machine().online == MACHINE.online
    assert host.discover().online == host.machine().online == CpuSet.parse("0-6")


def test_a_machine_that_was_handed_in_has_none_of_this_nodes_cgroups(tmp_path: Path) -> None:
    host = Host(replace(settings_for(Config()), state_dir=tmp_path), Silent(), MACHINE)
    assert (host.machine(), host.discover(), host.is_given, host.cgroup_root) == (MACHINE, MACHINE, True, tmp_path)


def test_what_the_machine_lacks_is_logged_at_every_discovery(tmp_path: Path) -> None:
    log = Silent()
    Host(settings_for(Config()), log, replace(MACHINE, notes=("no L3",))).discover()
    assert log.warnings == ["machine_note"]


def test_the_fingerprint_follows_the_cgroup_that_the_configuration_names(tmp_path: Path) -> None:
    host = host_at(write_tree(tmp_path / "host", MACHINE))
    config = parse_config("availableResources: {cpu: /pods}")
    assert host.fingerprint(config) != host.fingerprint(parse_config('availableResources: {cpu: "cpuset:0"}'))
