from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from cri_proxy import events
from cri_proxy.config.files.location import ConfigLocation
from cri_proxy.config.last_known_good import KNOWN_GOOD, KnownGood
from cri_proxy.config.load import parse_config
from cri_proxy.config.model import Config
from cri_proxy.config.option_groups import CostOptions, DeviceOptions
from cri_proxy.config.settings import Settings, settings_for
from cri_proxy.cri_client.pods import ContainerSpec, guaranteed
from cri_proxy.daemon.apply import Applier, Built, Host, HostApplier, build, build_anyway, build_start
from cri_proxy.daemon.device_sources import DeviceSources, cost_source
from cri_proxy.errors import ConfigError
from cri_proxy.in_force.last_good_writer import StateDirectory
from cri_proxy.in_force.text_files import FoundFiles, TextFile
from cri_proxy.intercept.reader import Reader
from cri_proxy.node.node import NO_DIRECTORY
from cri_proxy.node.status.view import NodeView
from cri_proxy.simulate.machine import with_offline
from policies.base import Allocations
from policies.policy import Policy
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe
from sysfs.model import Machine
from tests.fakes.machines import small_machine
from tests.fakes.site import Silent, Site, no_hints
from tests.fakes.sysfs_tree import write_tree
from tests.unit.cri_proxy.node.stage import owned

MACHINE = describe({"packages": 2, "cores": 4, "memory": "2Gi"})
CONFIG = parse_config('reservedResources: {cpu: "cpuset:0"}')


class Scene:
    def __init__(self) -> None:
        self.site = Site(build(CONFIG, MACHINE, NO_DIRECTORY).policy)

    async def open(self) -> None:
        await self.site.open()
        self.view = NodeView(self.site.node, name="n")
        self.applier = Applier(self.site.node, self.site.interceptor, self.reader_of)

    def reader_of(self, built: Built) -> Reader:
        memory_bytes = sum(node.memory_bytes for node in built.machine.nodes)
        return Reader(memory_bytes, built.config, no_hints)

    async def lose(self, cpus: str) -> None:
        """These CPUs go offline ('' = all come back), as the kernel and the runtime see it."""
        machine = with_offline(MACHINE, CpuSet.parse(cpus))
        self.site.runtime.node.machine = machine
        assert not await self.applier.change(build_anyway(CONFIG, machine, NO_DIRECTORY), must_fit=False)
        await self.site.node.settle()


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    await scene.open()
    yield scene
    assert scene.site.log.errors == []


async def run(scene: Scene, name: str, spec: ContainerSpec) -> str:
    return (await scene.site.run(name, spec)).container_id("c")


async def test_who_owns_no_cpu_that_went_away_stays_where_it_is(scene: Scene) -> None:
    ids = [await run(scene, name, guaranteed("c", 2000)) for name in ("a", "b")]
    before = [scene.site.cpus(i) for i in ids]
    owners = owned(scene.site, ids[0]) | owned(scene.site, ids[1])
    await scene.lose(str(next(iter(MACHINE.online - owners - CpuSet.parse("0")))))
    assert [scene.site.cpus(i) for i in ids] == before
    assert scene.site.runtime.updates == ()


async def test_who_lost_its_cpu_is_placed_anew_alone(scene: Scene) -> None:
    ids = [await run(scene, name, guaranteed("c", 2000)) for name in ("a", "b")]
    lost = str(next(iter(owned(scene.site, ids[0]))))
    stays = scene.site.cpus(ids[1])
    await scene.lose(lost)
    assert len(owned(scene.site, ids[0])) == 2
    assert lost not in str(owned(scene.site, ids[0]))
    assert scene.site.cpus(ids[0]) == str(owned(scene.site, ids[0]))
    assert scene.site.cpus(ids[1]) == stays


async def test_when_the_cpus_come_back_who_had_to_share_gets_what_it_asked_for(scene: Scene) -> None:
    container_id = await run(scene, "a", guaranteed("c", 6000))
    await scene.lose("5-7")
    assert not owned(scene.site, container_id)
    await scene.lose("")
    assert len(owned(scene.site, container_id)) == 6
    assert scene.site.cpus(container_id) == str(owned(scene.site, container_id))


async def test_everybody_who_looks_sees_the_new_machine(scene: Scene) -> None:
    await scene.lose("7")
    assert str(scene.view.topology().online) == "0-6"
    assert scene.site.node.context.ledger.policy.machine.online == CpuSet.parse("0-6")


async def test_what_a_new_configuration_warns_of_is_logged_once(scene: Scene) -> None:
    everything_reserved = parse_config('reservedResources: {cpu: "cpuset:0-7"}')
    for _ in range(2):
        assert not await scene.applier.change(build(everything_reserved, MACHINE, NO_DIRECTORY), must_fit=True)
    assert scene.site.log.warnings == [events.CONFIG_WARNING]
    assert not await scene.applier.change(build(CONFIG, MACHINE, NO_DIRECTORY), must_fit=True)
    assert scene.site.log.warnings == [events.CONFIG_WARNING]


async def test_a_change_of_domains_reaches_who_reads_annotations(scene: Scene) -> None:
    config = replace(CONFIG, annotation_domains=("example.com",))
    assert not await scene.applier.change(build(config, MACHINE, NO_DIRECTORY), must_fit=True)
    assert scene.site.node.coordinator.config == config
    container_id = (
        await scene.site.run("a", guaranteed("c", 2000), **{"prefer-shared-cpus.example.com/pod": "true"})
    ).container_id("c")
    assert not owned(scene.site, container_id)
    assert scene.view.config() == config


async def test_what_does_not_fit_changes_nothing(scene: Scene) -> None:
    await run(scene, "a", guaranteed("c", 6000))
    config = parse_config('reservedResources: {cpu: "cpuset:0-3"}')
    assert "no room" in await scene.applier.change(build(config, MACHINE, NO_DIRECTORY), must_fit=True)
    assert scene.view.config() == Config()


@pytest.mark.parametrize(("reserved", "lost", "instead"), [("0-1", "1", "0"), ("7", "7", "0")])
def test_reserved_cpus_that_went_away_are_made_up_for(reserved: str, lost: str, instead: str) -> None:
    config = parse_config(f'reservedResources: {{cpu: "cpuset:{reserved}"}}')
    machine = with_offline(MACHINE, CpuSet.parse(lost))
    with pytest.raises(ConfigError):
        build(config, machine, NO_DIRECTORY)
    built = build_anyway(config, machine, NO_DIRECTORY)
    (root, *_) = built.policy.pools(Allocations())
    assert (str(root.reserved), built.config) == (instead, config)
    assert f"CPU {lost} is not available" in built.warnings[-1]


def test_what_nothing_helps_is_an_error(tmp_path: Path) -> None:
    config = parse_config('availableResources: {cpu: "cpuset:7"}')
    with pytest.raises(ConfigError):
        build_anyway(config, with_offline(MACHINE, CpuSet.parse("7")), tmp_path)


FILE = Path("/etc/cri-proxy.yaml")
LOST = with_offline(MACHINE, CpuSet.parse("0"))


def settings_in(directory: Path, config: Config, *, kept: str = "") -> Settings:
    """Of a start with this in the file, where this was kept ('' = nothing)."""
    if kept:
        KNOWN_GOOD.save(directory, KnownGood(parse_config(kept), FILE, FILE, "", "0" * 64, 5.0))
    return replace(
        settings_for(replace(config, state_dir=str(directory))), location=ConfigLocation(FILE), from_file=config
    )


def started(settings: Settings, machine: Machine = MACHINE) -> tuple[Settings, Built]:
    found, _, built = build_start(settings, Host(settings, Silent(), machine))
    return found, built


def reserved(built: Built) -> str:
    return str(built.policy.pools(Allocations())[0].reserved)


def test_what_the_machine_can_give_is_what_it_starts_with(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, CONFIG, kept="reservedResources: {cpu: 3}")
    found, built = started(settings)
    assert (found, reserved(built)) == (settings, "0")


def test_what_it_cannot_give_leaves_in_force_what_was(tmp_path: Path) -> None:
    config = parse_config('reservedResources: {cpu: "cpuset:64"}')
    found, built = started(settings_in(tmp_path, config, kept='reservedResources: {cpu: "cpuset:1"}'))
    assert reserved(built) == "1"
    assert found.fallback is not None
    assert str(found.fallback.problem).startswith("command line: reservedResources.cpu: CPU 64")


def test_a_first_start_that_the_machine_cannot_give_says_why(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="CPU 64"):
        started(settings_in(tmp_path, parse_config('reservedResources: {cpu: "cpuset:64"}')))


def test_cpus_that_went_away_are_not_held_against_what_was_in_force(tmp_path: Path) -> None:
    """The file says what was kept: it is in force, and its reserved CPU is made up for by another."""
    text = f'reservedResources: {{cpu: "cpuset:0"}}\nstateDir: {tmp_path}'
    found, built = started(settings_in(tmp_path, parse_config(text), kept=text), LOST)
    assert (found.fallback, reserved(built)) == (None, "1")
    assert "reserved instead" in built.warnings[-1]


def test_where_neither_can_be_had_both_are_named(tmp_path: Path) -> None:
    config = parse_config('reservedResources: {cpu: "cpuset:64"}')
    kept = 'availableResources: {cpu: "cpuset:65"}'
    with pytest.raises(ConfigError, match=r"CPU 64.*; the configuration that was in force before fails too: .*65"):
        started(settings_in(tmp_path, config, kept=kept))


HOST_MACHINE = small_machine()


def host_at(root: Path) -> Host:
    return Host(settings_for(parse_config(f"sysfsRoot: {root}")), Silent())


def test_the_machine_is_discovered_once_until_it_is_asked_for_anew(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "host", HOST_MACHINE)
    host = host_at(root)
    assert host.machine().online == HOST_MACHINE.online
    write_tree(root, with_offline(HOST_MACHINE, CpuSet.parse("7")))
    assert host.machine().online == HOST_MACHINE.online
    assert host.discover().online == host.machine().online == CpuSet.parse("0-6")


def test_a_machine_that_was_handed_in_has_none_of_this_nodes_cgroups(tmp_path: Path) -> None:
    host = Host(replace(settings_for(Config()), state_dir=tmp_path), Silent(), HOST_MACHINE)
    assert (host.machine(), host.discover(), host.is_given, host.cgroup_root) == (
        HOST_MACHINE,
        HOST_MACHINE,
        True,
        tmp_path,
    )


def test_what_the_machine_lacks_is_logged_at_every_discovery(tmp_path: Path) -> None:
    log = Silent()
    Host(settings_for(Config()), log, replace(HOST_MACHINE, notes=("no L3",))).discover()
    assert log.warnings == ["machine_note"]


def test_the_fingerprint_follows_the_cgroup_that_the_configuration_names(tmp_path: Path) -> None:
    host = host_at(write_tree(tmp_path / "host", HOST_MACHINE))
    config = parse_config("availableResources: {cpu: /pods}")
    assert host.fingerprint(config) != host.fingerprint(parse_config('availableResources: {cpu: "cpuset:0"}'))


class Files(Scene):
    """A node whose configuration names a directory of cost files and an inventory file."""

    async def begin(self, directory: Path) -> None:
        await self.open()
        node, costs = self.site.node, CostOptions(str(directory / "costs.d"))
        self.config = replace(CONFIG, costs=costs, devices=DeviceOptions(str(directory / "devices.yaml")))
        state = StateDirectory(directory / "state", node.background, self.site.journal)
        self.devices = DeviceSources(self.config, directory, state, clock=node.context.clock)
        host = Host(settings_for(self.config), Silent(), MACHINE)
        built = build(self.config, MACHINE, NO_DIRECTORY)
        node.coordinator.config = self.config
        self.host = HostApplier(node, self.site.interceptor, self.reader_of, host, self.devices, built)
        (directory / "costs.d").mkdir(mode=0o755)
        (directory / "devices.yaml").write_text("gpu: [{minor: 0}]")
        await self.devices.begin()

    async def announce(self, text: str) -> None:
        costs = self.devices.costs
        found = FoundFiles(Path(self.config.costs.directory), (TextFile("a.yaml", text),))
        await self.host.take_files(costs, found, False)

    @property
    def policy(self) -> Policy:
        return self.site.node.context.ledger.policy


@pytest.fixture
async def files(tmp_path: Path) -> AsyncIterator[Files]:
    files = Files()
    await files.begin(tmp_path)
    yield files
    assert files.site.log.errors == []


async def test_changed_cost_files_give_the_policy_other_devices_and_no_container_another_grant(files: Files) -> None:
    await run(files, "a", guaranteed("c", 2000))
    grants = files.site.node.context.ledger.allocations.grants
    await files.announce("a.com/x/x0-1:\n")
    policy = files.policy
    assert policy.devices.costs.devices == {"a.com/x": ("a.com/x/x0", "a.com/x/x1")}
    await files.announce("a.com/x/x0-1:\n# the same\n")
    assert files.policy is policy  # so that known refusals stay known
    assert files.site.node.context.ledger.allocations.grants == grants
    assert (files.devices.costs.report.applied, files.devices.costs.report.unchanged) == (1, 1)


async def test_a_configuration_brings_the_devices_of_the_files_that_it_names(files: Files, tmp_path: Path) -> None:
    await files.announce("a.com/x/x0:\n")
    other = replace(files.config, costs=CostOptions(str(tmp_path / "other")))
    assert not await files.host.take_config(other, ())
    assert (files.policy.devices.costs.devices, len(files.policy.devices.devices)) == ({}, 1)
    assert files.devices.costs.source == cost_source(other.costs)


async def test_a_configuration_that_is_refused_leaves_the_files_in_force_as_they_are(files: Files) -> None:
    await run(files, "a", guaranteed("c", 6000))
    (Path(files.config.costs.directory) / "b.yaml").write_text("b.com/x/x0:\n")
    refused = replace(files.config, reserved=parse_config('reservedResources: {cpu: "cpuset:0-3"}').reserved)
    assert "no room" in await files.host.take_config(refused, ())
    assert (files.policy.devices.costs.devices, files.devices.costs.content.devices) == ({}, {})


async def test_an_option_that_places_nothing_leaves_the_policy_in_force(files: Files) -> None:
    assert not await files.host.take_config(files.config, ())
    policy = files.policy
    config = replace(files.config, drift_check_seconds=7.0)
    assert not await files.host.take_config(config, ())
    assert (files.policy is policy, files.site.node.coordinator.config) == (True, config)
    placing = replace(config, reserved=parse_config('reservedResources: {cpu: "cpuset:0-1"}').reserved)
    assert not await files.host.take_config(placing, ())
    assert str(files.policy.reserved) == "0-1"
