import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from cri_proxy.cri.device_names.names import MAX_NAMES, AllocatedDevices, ToldDevices
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.file_workers import PLAIN_THREADS
from cri_proxy.intercept.locality import NVIDIA_FILES, LocalityLookup
from policies.base import DeviceLocality
from policies.devices import ProvedDevice
from sysfs.cpuset import CpuSet, NodeSet
from tests.fakes.silent_files import SilentFiles

PCI = "sys/devices/pci0000:3a/0000:3b:00.0"


def a_root(root: Path) -> Path:
    """A machine with one PCI device, which sysfs names, and a CDI device that is it."""
    (root / PCI).mkdir(parents=True)
    (root / PCI / "numa_node").write_text("1\n")
    (root / PCI / "local_cpulist").write_text("4-7\n")
    (root / "etc/cdi").mkdir(parents=True)
    nodes = [{"path": f"/{PCI}"}]
    spec = {"kind": "example.com/nic", "devices": [{"name": "d", "containerEdits": {"deviceNodes": nodes}}]}
    (root / "etc/cdi/nic.json").write_text(json.dumps(spec))
    return root


def asked(*paths: str, cdi: str = "") -> pb.ContainerConfig:
    config = pb.ContainerConfig()
    for path in paths:
        config.devices.add(host_path=path)
    if cdi:
        config.CDI_devices.add(name=cdi)
    return config


HINT = DeviceLocality(f"/{PCI}", CpuSet.parse("4-7"), NodeSet.of([1]), devices=("0000:3b:00.0",))


async def test_a_container_without_devices_and_mounts_asks_for_nothing(tmp_path: Path) -> None:
    assert await LocalityLookup(tmp_path, SilentFiles("mounts", "sysfs")).of(asked()) == ()


@pytest.mark.parametrize("config", [asked(f"/{PCI}"), asked(cdi="example.com/nic=d")], ids=["device", "CDI"])
async def test_a_device_has_the_hint_of_its_place(tmp_path: Path, config: pb.ContainerConfig) -> None:
    (found,) = await LocalityLookup(a_root(tmp_path), PLAIN_THREADS).of(config)
    assert found in (HINT, replace(HINT, via="CDI device example.com/nic=d"))


async def test_a_path_that_hangs_takes_no_hint_of_another_with_it(tmp_path: Path) -> None:
    found = await LocalityLookup(a_root(tmp_path), SilentFiles("/data")).of(asked(f"/{PCI}", "/data"))
    assert found == (HINT, "no locality of /data: /data: no answer")


async def test_where_the_list_of_mounts_hangs_each_path_is_asked_for_itself(tmp_path: Path) -> None:
    assert await LocalityLookup(a_root(tmp_path), SilentFiles("mounts")).of(asked(f"/{PCI}", "/data")) == (HINT,)


@pytest.mark.parametrize("subject", ["sysfs", "CDI specifications"])
async def test_what_the_machine_itself_does_not_answer_is_missing(tmp_path: Path, subject: str) -> None:
    config = asked(cdi="example.com/nic=d")
    (missing,) = await LocalityLookup(a_root(tmp_path), SilentFiles(subject)).of(config)
    assert isinstance(missing, str)
    assert subject in missing


async def test_containers_are_looked_at_beside_each_other(tmp_path: Path) -> None:
    hints = LocalityLookup(a_root(tmp_path), PLAIN_THREADS)
    assert await asyncio.gather(*(hints.of(asked(f"/{PCI}")) for _ in range(20))) == [(HINT,)] * 20


GPU_HINT = DeviceLocality(
    "0000:3b:00.0", CpuSet.parse("4-7"), NodeSet.of([1]), "NVIDIA_VISIBLE_DEVICES", ("0000:3b:00.0",)
)


def with_gpu(root: Path) -> Path:
    """The PCI device of ``a_root`` is a GPU of NVIDIA's driver, and on the bus."""
    a_root(root)
    directory = root / "proc/driver/nvidia/gpus/0000:3b:00.0"
    directory.mkdir(parents=True)
    (directory / "information").write_text("GPU UUID: GPU-aa\nBus Location: 0000:3b:00.0\nDevice Minor: 0\n")
    (root / "sys/bus/pci/devices").mkdir(parents=True)
    (root / "sys/bus/pci/devices/0000:3b:00.0").symlink_to(root / PCI)
    return root


def visible(devices: str, *paths: str) -> pb.ContainerConfig:
    config = asked(*paths)
    config.envs.add(key="NVIDIA_VISIBLE_DEVICES", value=devices.encode())
    return config


async def test_a_gpu_of_a_variable_is_where_its_pci_device_is(tmp_path: Path) -> None:
    assert await LocalityLookup(with_gpu(tmp_path), PLAIN_THREADS).of(visible("0")) == (GPU_HINT,)


async def test_a_variable_that_the_toolkit_does_not_take_counts_for_privileged_containers_alone(tmp_path: Path) -> None:
    toolkit = with_gpu(tmp_path) / "etc/nvidia-container-runtime"
    toolkit.mkdir()
    (toolkit / "config.toml").write_text("accept-nvidia-visible-devices-envvar-when-unprivileged = false\n")
    hints, config = LocalityLookup(tmp_path, PLAIN_THREADS), visible("0")
    assert await hints.of(config) == ()
    config.linux.security_context.capabilities.add_capabilities.append("CAP_SYS_ADMIN")
    assert await hints.of(config) == (GPU_HINT,)


async def test_a_driver_that_hangs_takes_no_hint_of_another_device_with_it(tmp_path: Path) -> None:
    found = await LocalityLookup(with_gpu(tmp_path), SilentFiles(NVIDIA_FILES)).of(visible("0,1", f"/{PCI}"))
    assert found == (HINT, "no locality of 0 and 1 more: the NVIDIA driver: no answer")


async def test_files_of_the_driver_are_read_only_for_its_gpus(tmp_path: Path) -> None:
    assert await LocalityLookup(a_root(tmp_path), SilentFiles(NVIDIA_FILES)).of(asked(f"/{PCI}")) == (HINT,)


async def test_a_claim_names_devices_that_the_request_does_not(tmp_path: Path) -> None:
    told = ToldDevices(cdi=(("example.com/nic=d", "podresapi:nic.example.com/node/nic-0"),))
    hints = LocalityLookup(a_root(tmp_path), PLAIN_THREADS)
    assert await hints.of(asked(), told) == (replace(HINT, via="podresapi:nic.example.com/node/nic-0"),)
    assert await hints.of(asked(cdi="example.com/nic=d"), told) == (replace(HINT, via="CDI device example.com/nic=d"),)


@pytest.mark.parametrize(("ids", "devices"), [(("GPU-AA",), ("0000:3b:00.0",)), (("GPU-AA", "x"), ())])
async def test_devices_of_the_kubelet_are_known_by_ids_that_tell_all_of_them(
    tmp_path: Path, ids: tuple[str, ...], devices: tuple[str, ...]
) -> None:
    place = DeviceLocality("podresapi:nvidia.com/gpu/GPU-AA", CpuSet(), NodeSet.of([1]))
    told = ToldDevices((AllocatedDevices(place, ids),))
    found = await LocalityLookup(with_gpu(tmp_path), PLAIN_THREADS).of(visible("GPU-aa"), told)
    assert found[1] == replace(place, devices=devices)


async def test_what_the_kubelet_tells_a_place_of_alone_needs_no_file(tmp_path: Path) -> None:
    place = DeviceLocality("podresapi:nvidia.com/gpu/GPU-AA", CpuSet(), NodeSet.of([1]))
    found = await LocalityLookup(tmp_path, SilentFiles("sysfs", NVIDIA_FILES)).of(
        asked(), ToldDevices((AllocatedDevices(place),))
    )
    assert found == (place,)


async def test_too_many_names_are_told_as_missing_hints(tmp_path: Path) -> None:
    config = asked()
    config.envs.add(key="PCIDEVICE_X", value=b",".join(b"%04x:00:00.0" % number for number in range(MAX_NAMES + 1)))
    (missing,) = await LocalityLookup(a_root(tmp_path), PLAIN_THREADS).of(config)
    assert isinstance(missing, str)
    assert "PCIDEVICE_X" in missing


def with_specification(root: Path, *devices: tuple[str, list[str]]) -> Path:
    """The GPU of ``with_gpu``, and a specification of NVIDIA's with these devices by name and paths of nodes."""
    with_gpu(root)
    declared = [{"name": n, "containerEdits": {"deviceNodes": [{"path": p} for p in paths]}} for n, paths in devices]
    (root / "etc/cdi/nvidia.json").write_text(json.dumps({"kind": "nvidia.com/gpu", "devices": declared}))
    return root


async def test_the_hardware_behind_a_cdi_name_is_what_its_specification_proves(tmp_path: Path) -> None:
    caps, twin = "/dev/nvidia-caps/nvidia-cap12", "GPU-bb"
    parts = tmp_path / "proc/driver/nvidia-caps"
    parts.mkdir(parents=True)
    (parts / "mig-minors").write_text("gpu0/gi1/access 12\n")
    devices = [("4", ["/dev/nvidia0"]), ("4:1", ["/dev/nvidia0", caps]), ("5", ["/dev/x"]), (twin, ["/dev/x"])]
    found = LocalityLookup(with_specification(tmp_path, *devices), PLAIN_THREADS)
    names = [f"nvidia.com/gpu={name}" for name in ("4", "4:1", "5", "6")]
    gpu = ("0000:3b:00.0", "gpuaa")
    assert await found.proofs(names) == {
        names[0]: (ProvedDevice(gpu),),
        names[1]: (ProvedDevice(gpu, is_part=True),),
        names[2]: (ProvedDevice(("gpubb",)),),  # the driver does not know it, or does not answer
        names[3]: (),
    }


async def test_the_hardware_behind_a_device_node_is_what_the_driver_tells(tmp_path: Path) -> None:
    found = LocalityLookup(with_specification(tmp_path, ("4", ["/dev/nvidia0"])), PLAIN_THREADS)
    assert await found.proofs(["/dev/nvidia0", "/dev/nvidiactl"]) == {
        "/dev/nvidia0": (ProvedDevice(("0000:3b:00.0", "gpuaa")),),
        "/dev/nvidiactl": (),
    }


@pytest.mark.parametrize("subject", ["sysfs", NVIDIA_FILES, "CDI specifications"])
async def test_nothing_is_proved_by_files_that_do_not_answer(tmp_path: Path, subject: str) -> None:
    root = with_specification(tmp_path, ("0", ["/dev/nvidia0"]))
    found = await LocalityLookup(root, SilentFiles(subject)).proofs(["nvidia.com/gpu=0"])
    assert found.get("nvidia.com/gpu=0", ()) == ()
