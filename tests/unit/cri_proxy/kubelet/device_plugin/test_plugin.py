"""A plugin and a kubelet over real sockets."""

import re
import socket
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
from grpc import aio

from cri_proxy.errors import ConfigError
from cri_proxy.inventory.health_source import HealthSource
from cri_proxy.kubelet.device_plugin.plugin import RETRY_SECONDS
from cri_proxy.kubelet.device_plugin.settings import PluginSettings
from cri_proxy.kubelet.device_plugin.sources import PluginSources
from policies.devices import allocated_variables, read_annotated
from tests.fakes.device_kubelet import DeviceKubelet
from tests.fakes.machines import small_machine
from tests.fakes.nvidia_tree import write_gpu
from tests.fakes.sysfs_tree import write_tree
from tests.fakes.waiting import holds
from tests.unit.cri_proxy.kubelet.device_plugin.stage import RunningPlugin, running, settings_of
from tests.unit.policies.devices.build import plugin_given

GPU, RDMA = "cri-proxy.io/gpu", "cri-proxy.io/rdma"
ROOT = Path(__file__).parents[5]
KEP_690 = ROOT / "configs" / "links" / "kep-690.txt"
INVENTORY = """\
gpu: [{minor: 0, numa: 0}, {minor: 1, numa: 1}, {minor: 2, numa: 1, health: false}]
rdma: [{minor: 0, numa: 0, pcie: p0}, {minor: 1}]
"""
EIGHT = "gpu: [" + ", ".join(f"{{minor: {minor}, numa: {minor // 4}}}" for minor in range(8)) + "]\n"
DOUBLE = {(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)}


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    path = tmp_path / "devices.yaml"
    path.write_text(INVENTORY)
    return path


@pytest.fixture
def settings(tmp_path: Path, inventory: Path) -> PluginSettings:
    return settings_of(tmp_path / "plugins", PluginSources(inventory, sysfs_root=tmp_path))


@pytest.fixture
async def kubelet(tmp_path: Path) -> AsyncIterator[DeviceKubelet]:
    kubelet = DeviceKubelet(tmp_path / "plugins")
    await kubelet.start()
    yield kubelet
    await kubelet.stop()


@pytest.fixture
async def plugin(settings: PluginSettings, kubelet: DeviceKubelet) -> AsyncIterator[RunningPlugin]:
    async with running(settings) as plugin:
        await holds("the kubelet knows both", lambda: kubelet.knows(GPU, RDMA))
        yield plugin


async def refused(kubelet: DeviceKubelet, resource: str, *ids: str) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(aio.AioRpcError) as caught:
        await kubelet.give(resource, ids)
    return caught.value.code(), caught.value.details() or ""


async def test_functions_are_of_many_nics_and_have_the_ids_that_cni_plugins_take(
    tmp_path: Path, kubelet: DeviceKubelet
) -> None:
    """One pod after the other, and for a pod that asks for two, an idle NIC comes before one that is shared."""
    vfs = "vf_groups: [{{vfs: [{{bus: '0000:0{n}:00.1'}}, {{bus: '0000:0{n}:00.2'}}]}}]"
    nics = ", ".join(f"{{minor: {n}, numa: 0, pcie: p{n // 2}, {vfs.format(n=n)}}}" for n in range(4))
    (tmp_path / "nics.yaml").write_text(f"rdma: [{nics}]\n")
    sources = PluginSources(tmp_path / "nics.yaml", sysfs_root=tmp_path)
    async with running(settings_of(tmp_path / "plugins", sources, ("rdma=example.com/vf",), ("rdma=vfs",))):
        await holds("the kubelet knows it", lambda: kubelet.knows("example.com/vf"))
        given = [await kubelet.allocate("example.com/vf", count) for count in (1, 2, 1, 2)]
    assert [sorted(ids) for ids, _ in given] == [
        ["0000:00:00.1"],
        ["0000:01:00.1", "0000:02:00.1"],
        ["0000:03:00.1"],
        ["0000:00:00.2", "0000:01:00.2"],
    ]
    assert [answer.envs["PCIDEVICE_EXAMPLE_COM_VF"] for _, answer in given] == [
        ",".join(sorted(ids)) for ids, _ in given
    ]


async def test_each_type_is_registered_with_its_devices_their_health_and_their_nodes(
    kubelet: DeviceKubelet, plugin: RunningPlugin
) -> None:
    request = kubelet.plugins[GPU].request
    assert (request.version, request.endpoint) == ("v1beta1", "cri-proxy-gpu.sock")
    assert request.options.get_preferred_allocation_available
    assert not request.options.pre_start_required
    found = {
        name: (device.health, [node.ID for node in device.topology.nodes])
        for name, device in kubelet.plugins[GPU].devices.items()
    }
    assert found == {"gpu-0": ("Healthy", [0]), "gpu-1": ("Healthy", [1]), "gpu-2": ("Unhealthy", [1])}
    assert not kubelet.plugins[RDMA].devices["rdma-1"].HasField("topology")


async def test_the_answer_names_the_devices_in_variable_and_annotation(
    kubelet: DeviceKubelet, plugin: RunningPlugin
) -> None:
    ids, answer = await kubelet.allocate(GPU, 2)
    assert sorted(ids) == ["gpu-0", "gpu-1"]
    given = (plugin_given("gpu", 0), plugin_given("gpu", 1))
    assert (dict(answer.envs), read_annotated(answer.annotations)) == (allocated_variables(given), given)
    assert (await plugin.says("allocated"))["resource"] == GPU


async def test_cdi_devices_are_those_that_a_file_of_the_node_declares_by_now(
    tmp_path: Path, kubelet: DeviceKubelet, plugin: RunningPlugin
) -> None:
    assert not (await kubelet.give(GPU, ["gpu-0"])).cdi_devices
    (tmp_path / "etc" / "cdi").mkdir(parents=True)
    (tmp_path / "etc" / "cdi" / "a.json").write_text('{"kind": "cri-proxy.io/gpu", "devices": [{"name": "1"}]}')
    answer = await kubelet.give(GPU, ["gpu-0", "gpu-1"])
    assert [device.name for device in answer.cdi_devices] == ["cri-proxy.io/gpu=1"]


async def test_a_container_that_asks_for_two_resources_has_a_variable_of_each(
    kubelet: DeviceKubelet, plugin: RunningPlugin
) -> None:
    envs = [(await kubelet.allocate(resource, 1))[1].envs for resource in (GPU, RDMA)]
    assert [sorted(each) for each in envs] == [["CRI_PROXY_ALLOCATED_GPU"], ["CRI_PROXY_ALLOCATED_RDMA"]]


async def test_unknown_unhealthy_and_doubled_ids_are_refused_by_name(
    kubelet: DeviceKubelet, plugin: RunningPlugin
) -> None:
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    known = "it has gpu-0, gpu-1, gpu-2"
    assert await refused(kubelet, GPU, "gpu-9") == (invalid, f"gpu-9: {GPU} has no such device; {known}")
    assert (await refused(kubelet, GPU, "gpu-2"))[1].startswith(f"gpu-2: {GPU} has it as unhealthy")
    assert (await refused(kubelet, GPU, "gpu-0", "gpu-0"))[1].startswith("gpu-0: asked for twice")


async def test_health_that_changes_is_listed_again(
    kubelet: DeviceKubelet, plugin: RunningPlugin, inventory: Path
) -> None:
    inventory.write_text(INVENTORY.replace("health: false", "health: true"))
    await holds("gpu-2 is healthy", lambda: "gpu-2" in kubelet.plugins[GPU].healthy)
    assert (await plugin.says("devices_reloaded"))["resources"] == {GPU: 3, RDMA: 2}
    assert (kubelet.plugins[GPU].listings, kubelet.plugins[RDMA].listings, len(kubelet.registrations)) == (2, 1, 2)


async def test_a_bad_edit_leaves_the_devices_as_they_were_and_is_told_once(
    kubelet: DeviceKubelet, plugin: RunningPlugin, inventory: Path
) -> None:
    inventory.write_text("gpu: [{minor: x}]")
    told = await plugin.says("device_file_rejected")
    assert (told["file"], told["last_good_stays"]) == (str(inventory), True)
    assert told["line"] == 1
    assert "expected a number" in str(told["reason"])
    inventory.write_text(INVENTORY.replace("minor: 1,", "minor: 7,"))
    await holds("the new device is listed", lambda: "gpu-7" in kubelet.plugins[GPU].devices)
    assert len(plugin.lines("device_file_rejected")) == 1


async def test_who_asks_for_a_reload_is_told_though_nothing_has_changed(
    kubelet: DeviceKubelet, plugin: RunningPlugin, inventory: Path
) -> None:
    plugin.reload.set()
    assert (await plugin.says("devices_reloaded"))["resources"] == {GPU: 3, RDMA: 2}
    inventory.write_text("gpu: [{minor: x}]")
    await plugin.says("device_file_rejected")
    plugin.reload.set()
    await plugin.says("device_file_rejected", 2)


async def test_a_type_is_registered_when_its_first_device_comes(
    kubelet: DeviceKubelet, plugin: RunningPlugin, inventory: Path
) -> None:
    inventory.write_text(f"{INVENTORY}fpga: [{{minor: 0}}]\n")
    await holds("the third type is known", lambda: kubelet.knows(GPU, RDMA, "cri-proxy.io/fpga"))


async def test_a_kubelet_that_restarts_knows_the_devices_again(kubelet: DeviceKubelet, plugin: RunningPlugin) -> None:
    for _ in range(3):
        await kubelet.restart()
        await holds("the kubelet knows both again", lambda: kubelet.knows(GPU, RDMA))
    assert (await kubelet.allocate(GPU, 1))[0] == ("gpu-0",)


async def test_a_stream_that_breaks_off_is_mended_by_a_registration(
    kubelet: DeviceKubelet, plugin: RunningPlugin
) -> None:
    kubelet.plugins[GPU].unwatch()
    await holds("the kubelet watches again", lambda: len(kubelet.registrations) == 3 and kubelet.knows(GPU, RDMA))


async def test_a_kubelet_that_breaks_every_stream_off_is_asked_less_and_less(
    kubelet: DeviceKubelet, plugin: RunningPlugin
) -> None:
    for count in range(3, 6):
        kubelet.plugins[GPU].unwatch()
        await plugin.says("registered", count)
        await holds("the kubelet watches again", lambda: kubelet.knows(GPU, RDMA))
    assert [seconds for seconds in plugin.clock.slept if seconds in RETRY_SECONDS] == [1.0, 2.0, 4.0]


async def test_a_plugin_that_starts_before_the_kubelet_waits_for_it(tmp_path: Path, settings: PluginSettings) -> None:
    kubelet = DeviceKubelet(tmp_path / "plugins")
    async with running(settings) as plugin:
        assert "there is no socket of the kubelet" in str((await plugin.says("not_registered"))["reason"])
        await kubelet.start()
        await holds("the kubelet knows both", lambda: kubelet.knows(GPU, RDMA))
    await kubelet.stop()


async def test_a_refused_registration_is_told_once_and_tried_again(
    kubelet: DeviceKubelet, settings: PluginSettings
) -> None:
    kubelet.refusal = "no: \x1b[31mnot now"
    async with running(settings) as plugin:
        told = str((await plugin.says("not_registered", 2))["reason"])
        assert "the kubelet does not register it: unknown: no: " in told
        assert "\x1b" not in told
        kubelet.refusal = ""
        await holds("the kubelet knows both", lambda: kubelet.knows(GPU, RDMA))
    assert len(plugin.lines("not_registered")) == 2


async def test_the_sockets_are_its_owners_alone_and_gone_at_the_end(
    tmp_path: Path, kubelet: DeviceKubelet, settings: PluginSettings
) -> None:
    sockets = [tmp_path / "plugins" / f"cri-proxy-{kind}.sock" for kind in ("gpu", "rdma")]
    async with running(settings):
        await holds("the kubelet knows both", lambda: kubelet.knows(GPU, RDMA))
        assert [stat.S_IMODE(path.stat().st_mode) for path in sockets] == [0o600, 0o600]
    assert [path.name for path in (tmp_path / "plugins").iterdir()] == ["kubelet.sock"]


async def test_a_socket_of_another_process_stays_at_the_end(
    tmp_path: Path, kubelet: DeviceKubelet, settings: PluginSettings
) -> None:
    other = tmp_path / "plugins" / "cri-proxy-gpu.sock"
    async with running(settings) as plugin:
        await holds("the kubelet knows both", lambda: kubelet.knows(GPU, RDMA))
        plugin.stop.set()
        other.unlink()
        other.write_text("")
    assert other.exists()


async def test_a_second_plugin_on_the_directory_is_refused(plugin: RunningPlugin, settings: PluginSettings) -> None:
    with pytest.raises(ConfigError, match="another process answers there"):
        await RunningPlugin(settings).serve()


async def test_a_start_that_is_refused_leaves_no_socket(
    tmp_path: Path, kubelet: DeviceKubelet, settings: PluginSettings
) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(tmp_path / "plugins" / "cri-proxy-rdma.sock"))
        other.listen()
        with pytest.raises(ConfigError, match="--plugin-dir: another process answers there"):
            await RunningPlugin(settings).serve()
    assert sorted(path.name for path in (tmp_path / "plugins").iterdir()) == ["cri-proxy-rdma.sock", "kubelet.sock"]


async def test_without_a_usable_inventory_it_does_not_start(settings: PluginSettings, inventory: Path) -> None:
    inventory.unlink()
    with pytest.raises(ConfigError) as caught:
        await RunningPlugin(settings).serve()
    assert str(caught.value) == f"{inventory}: cannot be read: No such file or directory"


async def test_pairs_of_a_dgx1_have_two_links_each_until_all_are_given(
    tmp_path: Path, kubelet: DeviceKubelet, inventory: Path
) -> None:
    """Seed 000's machine; its own list has (2, 6) and (3, 7) too, which have a single link."""
    inventory.write_text(EIGHT)
    sources = PluginSources(inventory, KEP_690, sysfs_root=tmp_path)
    async with running(settings_of(tmp_path / "plugins", sources, ["gpu=nvidia.com/gpu"])):
        await holds("the kubelet knows it", lambda: kubelet.knows("nvidia.com/gpu"))
        pairs = [await kubelet.allocate("nvidia.com/gpu", 2) for _ in range(4)]
    assert {tuple(sorted(int(name[-1]) for name in ids)) for ids, _ in pairs} <= DOUBLE
    assert len(kubelet.preferences) == 3  # the last two have no choice
    assert len({answer.envs["NVIDIA_VISIBLE_DEVICES"] for _, answer in pairs}) == 4


def equal_links(word: str) -> str:
    """What ``nvidia-smi topo -m`` prints of eight GPUs on two nodes with the same word for each two of them."""
    names = [f"GPU{gpu}" for gpu in range(8)]
    rows = ["\t".join((name, *(" X " if other == name else word for other in names))) for name in names]
    places = [f"\t{56 * node}-{56 * node + 55}\t{node}" for node in (0, 0, 0, 0, 1, 1, 1, 1)]
    header = "\t".join(("", *names, "CPU Affinity", "NUMA Affinity"))
    return "\n".join((header, *(row + place for row, place in zip(rows, places, strict=True)), ""))


@pytest.mark.parametrize("word", ["NV18", "SYS"])
@pytest.mark.parametrize("devices", [EIGHT, re.sub(r", numa: \d", "", EIGHT)], ids=["placed", "places of the matrix"])
async def test_equal_links_are_broken_by_place_with_the_matrix_as_without(
    tmp_path: Path, kubelet: DeviceKubelet, inventory: Path, word: str, devices: str
) -> None:
    """Every H100, H200, B200 and A100 node has one word for each two of its GPUs, and so have boxes without NVLink."""
    (tmp_path / "links.txt").write_text(equal_links(word))
    inventory.write_text(devices)
    sources = PluginSources(inventory, tmp_path / "links.txt", sysfs_root=tmp_path)
    async with running(settings_of(tmp_path / "plugins", sources)):
        await holds("the kubelet knows it", lambda: kubelet.knows(GPU))
        for free, count, right in (("045", 2, "45"), ("14567", 4, "4567"), ("23456", 3, "456")):
            kubelet.in_use[GPU] = {f"gpu-{gpu}" for gpu in set("01234567") - set(free)}
            ids, _ = await kubelet.allocate(GPU, count)
            assert sorted(ids) == [f"gpu-{gpu}" for gpu in right]


async def test_devices_that_a_pod_holds_already_are_part_of_its_set(
    tmp_path: Path, kubelet: DeviceKubelet, inventory: Path
) -> None:
    inventory.write_text(EIGHT)
    sources = PluginSources(inventory, KEP_690, sysfs_root=tmp_path)
    async with running(settings_of(tmp_path / "plugins", sources)):
        await holds("the kubelet knows it", lambda: kubelet.knows(GPU))
        ids, _ = await kubelet.allocate(GPU, 2, reusable=["gpu-5"])
    assert tuple(sorted(int(name[-1]) for name in ids)) in DOUBLE
    assert "gpu-5" in ids


async def test_a_named_resource_is_registered_without_devices_and_others_are_not(
    tmp_path: Path, kubelet: DeviceKubelet, inventory: Path
) -> None:
    settings = settings_of(tmp_path / "plugins", PluginSources(inventory, sysfs_root=tmp_path), ["fpga=example.com/f"])
    async with running(settings):
        await holds("the kubelet knows it", lambda: kubelet.knows("example.com/f"))
    assert [request.resource_name for request in kubelet.registrations] == ["example.com/f"]


async def test_gpus_of_known_address_are_shown_by_the_identifiers_of_their_driver(
    tmp_path: Path, kubelet: DeviceKubelet
) -> None:
    write_gpu(tmp_path, "0000:3b:00.0", 0, "GPU-5a")
    (tmp_path / "gpus.yaml").write_text('gpu: [{minor: 3, bus: "0000:3b:00.0"}]')
    async with running(settings_of(tmp_path / "plugins", PluginSources(tmp_path / "gpus.yaml", sysfs_root=tmp_path))):
        await holds("the kubelet knows it", lambda: kubelet.knows(GPU))
        envs = (await kubelet.give(GPU, ["gpu-3"])).envs
    assert dict(envs) == {"CRI_PROXY_ALLOCATED_GPU": "3", "NVIDIA_VISIBLE_DEVICES": "GPU-5a"}


async def test_a_device_that_a_scan_cannot_read_is_told_once(tmp_path: Path, kubelet: DeviceKubelet) -> None:
    gpus = [{"address": f"0000:{bus}:00.0", "class": 0x030200} for bus in (10, 20)]
    root = write_tree(tmp_path / "host", small_machine(pci=gpus))
    ((root / "sys/bus/pci/devices/0000:20:00.0").resolve() / "class").write_text("?\n")
    async with running(settings_of(tmp_path / "plugins", PluginSources(None, sysfs_root=root))) as plugin:
        await holds("the kubelet knows the other", lambda: kubelet.knows(GPU))
        plugin.reload.set()
        await plugin.says("devices_reloaded")
    (line,) = plugin.lines("machine_note")
    assert "0000:20:00.0/class: expected a hexadecimal number" in str(line["reason"])


async def test_the_kubelet_learns_which_devices_are_reported_as_unhealthy(
    tmp_path: Path, inventory: Path, kubelet: DeviceKubelet
) -> None:
    report = tmp_path / "health"
    report.write_text("gpu 0 unhealthy fan\n")
    probe = tmp_path / "probe"
    probe.write_text(f"#!/bin/sh\nexec cat {report}\n")
    probe.chmod(0o755)
    source = HealthSource(command=(str(probe),))
    sources = PluginSources(inventory, sysfs_root=tmp_path)
    async with running(settings_of(tmp_path / "plugins", sources, health=source)) as plugin:
        await holds("the kubelet knows both", lambda: kubelet.knows(GPU, RDMA))
        assert kubelet.plugins[GPU].healthy == ("gpu-1",)
        assert (await refused(kubelet, GPU, "gpu-0"))[1].startswith("gpu-0: cri-proxy.io/gpu has it as unhealthy")
        report.write_text("gpu 0 ok\n")
        await holds("it is healthy again", lambda: kubelet.plugins[GPU].healthy == ("gpu-0", "gpu-1"))
        report.write_text("gpu 0 perhaps\n")
        assert str((await plugin.says("health_unknown"))["reason"]).startswith(f"{probe}:1: expected DEVICE ok")
        assert kubelet.plugins[GPU].healthy == ("gpu-0", "gpu-1")
