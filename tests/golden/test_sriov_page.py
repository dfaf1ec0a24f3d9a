"""The way of docs/sriov.md from a NIC to a pod, played: its commands on a made-up machine, a kubelet, Multus' rule."""

import asyncio
import json
import re
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from io import StringIO
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml

from cri_proxy.cli.agents.device_plugin import settings_of
from cri_proxy.cli.help.parser import command_parser, load_command
from cri_proxy.cli.main import run_command
from cri_proxy.clock import SystemClock
from cri_proxy.cri.proto import cri_v1_pb2 as cri
from cri_proxy.cri_client.pods import PodSpec, create_request, guaranteed
from cri_proxy.device_files.cdi import CdiFiles
from cri_proxy.inventory.pci import inventory_of
from cri_proxy.kubelet.device_plugin.plugin import DevicePlugin
from cri_proxy.kubelet.proto import deviceplugin_v1beta1_pb2 as plugin
from cri_proxy.kubelet.proto import podresources_v1_pb2 as podresources
from cri_proxy.logs import configure_logging
from policies.devices import DeviceInventory
from sysfs.discover import discover
from tests.fakes.device_kubelet import DeviceKubelet
from tests.fakes.device_policy import policy_with_devices
from tests.fakes.scripted_cdi import ScriptedCdi
from tests.fakes.site import Site, opened
from tests.fakes.sriov_cni import RESOURCE_NAME, FoundVf, device_id, vf_of
from tests.fakes.sriov_tree import TreeFunction, bind, write_nics
from tests.fakes.waiting import holds
from tests.golden.costs_page import ROOT

PAGE = (ROOT / "docs" / "sriov.md").read_text()
NIC = TreeFunction("0000:51:00.0", "mlx5_core", rdma="mlx5_0", verbs="uverbs0", mad="umad0", interface="ens1")


def vf(number: int) -> TreeFunction:
    """A VF as the kernel makes it: bound to the NIC's driver, in an IOMMU group of its own."""
    address = f"0000:51:00.{number}"
    names = f"mlx5_{number}", f"uverbs{number}", f"umad{number}", f"ens1v{number - 1}"
    return TreeFunction(address, NIC.driver, NIC.address, str(40 + number), *names)


def commands(start: str) -> list[list[str]]:
    """The words of the page's command lines that begin so."""
    return [shlex.split(line)[2:] for line in re.findall(rf"^    (cri-proxy {start}.*)$", PAGE, re.MULTILINE)]


def block(first: str) -> str:
    """The indented lines of the page from this one to the end of the block."""
    lines = PAGE[PAGE.index(f"    {first}") :].splitlines()
    count = next(number for number, line in enumerate(lines) if line and not line.startswith("    "))
    return dedent("\n".join(lines[:count])).strip() + "\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The machine after the page's first command."""
    (count, address), *_ = re.findall(r"    echo (\d) > /sys/bus/pci/devices/(\S+)/sriov_numvfs", PAGE)
    assert address == NIC.address
    return write_nics(tmp_path / "root", NIC, *(vf(number + 1) for number in range(int(count))))


def declare(root: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Run the page's second command; return what it prints, as on a node."""
    (words,) = {tuple(words) for words in commands("devices cdi --write")}
    target = root / words[-1].lstrip("/")
    run_command(["devices", *words[:-1], str(target), "--sysfs-root", str(root)])
    return capsys.readouterr().out.replace(str(root), "")


@asynccontextmanager
async def served(root: Path) -> AsyncIterator[DeviceKubelet]:
    """Run the page's third command beside a kubelet."""
    (words,) = commands("device-plugin")
    directory = root / "plugins"
    args = [*words, "--plugin-dir", str(directory), "--sysfs-root", str(root)]
    settings = settings_of(command_parser("device-plugin", load_command("device-plugin")).parse_args(args))
    log, stop, kubelet = configure_logging("info", "json", StringIO()), asyncio.Event(), DeviceKubelet(directory)
    await kubelet.start()
    async with asyncio.TaskGroup() as group:
        group.create_task(DevicePlugin(settings, log=log, clock=SystemClock()).serve(stop, asyncio.Event()))
        await holds("the kubelet knows the resource", lambda: kubelet.knows(settings.resources[0].name))
        yield kubelet
        stop.set()
    await kubelet.stop()


def objects() -> tuple[dict[str, Any], ...]:
    """The network and the pod of the page."""
    return tuple(yaml.safe_load_all(block("apiVersion: k8s.cni.cncf.io/v1")))


def limits_of(pod: dict[str, Any]) -> Mapping[str, int]:
    (container,) = pod["spec"]["containers"]
    limits: Mapping[str, int] = container["resources"]["limits"]
    return limits


def told(name: str, resource: str, ids: Sequence[str]) -> podresources.ListPodResourcesResponse:
    """What the kubelet lists of a pod to which it has allocated these."""
    held = podresources.ContainerDevices(resource_name=resource, device_ids=ids)
    containers = [podresources.ContainerResources(name="app", devices=[held])]
    pod = podresources.PodResources(name=name, namespace="default", containers=containers)
    return podresources.ListPodResourcesResponse(pod_resources=[pod])


async def test_the_first_pod_gets_its_function_by_kubelet_multus_and_cni_plugin(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert declare(root, capsys) == block("/var/run/cdi/cri-proxy.io-rdma.json")
    network, pod = objects()
    resource = str(network["metadata"]["annotations"][RESOURCE_NAME])
    assert pod["metadata"]["annotations"] == {"k8s.v1.cni.cncf.io/networks": network["metadata"]["name"]}
    assert json.loads(str(network["spec"]["config"]))["type"] == "sriov"
    async with served(root) as kubelet:
        ids, answer = await kubelet.allocate(resource, limits_of(pod)[resource])
    (address,) = ids
    assert f"`PCIDEVICE_EXAMPLE_COM_VF={address}`" in PAGE
    assert answer.envs["PCIDEVICE_EXAMPLE_COM_VF"] == address
    found = json.loads(answer.envs["PCIDEVICE_EXAMPLE_COM_VF_INFO"])[address]["rdma"]
    assert found == {
        "rdma_dev": "mlx5_1",
        "uverbs": "/dev/infiniband/uverbs1",
        "umad": "/dev/infiniband/umad1",
        "rdma_cm": "/dev/infiniband/rdma_cm",
    }
    listed = told(str(pod["metadata"]["name"]), resource, ids)
    assert vf_of(root, device_id(listed, "first", resource)) == FoundVf("ens1", 0, "ens1v0")
    names = [device.name for device in answer.cdi_devices]
    assert names == [f"cri-proxy.io/vf={address}"]
    (device,) = [each for _, spec in CdiFiles(root).specs() for each in spec.devices.get(names[0], ())]
    nodes = device["containerEdits"]["deviceNodes"]  # type: ignore[index]
    assert [node["path"] for node in nodes] == [found["rdma_cm"], found["uverbs"], found["umad"]]


async def test_one_that_is_bound_to_vfio_is_taken_in_the_mode_of_dpdk(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the page binds the last one: until a driver has it, the file does not declare it."""
    (address,) = re.findall(r"    echo (\S+) > /sys/bus/pci/devices/\S+/driver/unbind", PAGE)
    last = next(function for function in map(vf, range(1, 5)) if function.address == address)
    bind(root, last, "")
    shown = declare(root, capsys)
    assert shown[shown.index("refused") :] == block(f"refused: rdma 0 VF {address}")
    bind(root, last, "vfio-pci")
    assert f"cri-proxy.io/vf={address}  rdma 0  vfio-pci   vfio {last.group}\n" in declare(root, capsys)
    async with served(root) as kubelet:
        answer = await kubelet.give("example.com/vf", [address])
    information = json.loads(answer.envs["PCIDEVICE_EXAMPLE_COM_VF_INFO"])[address]
    assert information["vfio"] == {"dev-mount": f"/dev/vfio/{last.group}", "mount": "/dev/vfio/vfio"}
    listed = told("dpdk", "example.com/vf", [address])
    assert vf_of(root, device_id(listed, "dpdk", "example.com/vf")) == FoundVf("ens1", 3, "")


def test_an_id_that_is_no_address_is_one_that_the_cni_plugin_refuses(root: Path) -> None:
    for device in ("rdma-0", "rdma-0-share-1"):
        with pytest.raises(ValueError, match="invalid PCI address"):
            vf_of(root, device)


def created(request: cri.CreateContainerRequest, answer: plugin.ContainerAllocateResponse) -> None:
    """Put a plugin's answer into a container's configuration as the kubelet does."""
    request.config.envs.extend(cri.KeyValue(key=key, value=value.encode()) for key, value in answer.envs.items())
    request.config.annotations.update(answer.annotations)
    request.config.CDI_devices.extend(cri.CDIDevice(name=device.name) for device in answer.cdi_devices)


async def test_the_daemon_holds_what_the_kubelet_gave_and_gives_the_others_by_annotation(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it names by CDI is what the file declares."""
    declare(root, capsys)
    async with served(root) as kubelet:
        (address,), answer = await kubelet.allocate("example.com/vf", 1)
    inventory: DeviceInventory = inventory_of(discover(root))
    files, owns = CdiFiles(root), guaranteed("c", 1000)

    async def declared(names: Sequence[str]) -> tuple[str, ...]:
        return files.declared(names)

    asks = {
        "cri-proxy.io/device-resources": "rdma=1",
        "scheduling.koordinator.sh/device-allocate-hint": '{"rdma": {"vfSelector": {}}}',
    }
    async with opened(Site(policy_with_devices(devices=inventory))) as site:
        site.interceptor.use_reader(replace(site.interceptor._reader, cdi=ScriptedCdi(declared)))
        spec = PodSpec("first", (owns,))
        request = create_request(spec, owns, await site.kubelet.run_sandbox(spec), node=site.kubelet.node)
        created(request, answer)
        first = await site.kubelet.create_as(request)
        assert [str(device) for device in site.row(first).grant.devices] == [f"rdma 0 VF {address}"]
        second = (await site.run("second", owns, **asks)).container_id("c")
        (grant,) = site.row(second).grant.devices
        assert grant.vf not in ("", address)
        config = site.runtime.node.containers[second].config
        assert [device.name for device in config.CDI_devices] == [f"cri-proxy.io/vf={grant.vf}"]
        envs = {env.key: env.value.decode() for env in config.envs}
        assert envs["PCIDEVICE_KOORDINATOR_SH_RDMA"] == grant.vf
