import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, TypeVarTuple

import pytest

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.file_workers import PLAIN_THREADS, FilesFailed
from cri_proxy.intercept import device_hints
from cri_proxy.intercept.device_hints import DeviceHints, MissingHints
from policies.base import DeviceLocality
from sysfs.cpuset import CpuSet, NodeSet

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
PCI = "sys/devices/pci0000:3a/0000:3b:00.0"


class Hanging:
    """Files of which these subjects hang."""

    def __init__(self, *subjects: str) -> None:
        self._subjects = subjects

    async def run(self, subject: str, function: Callable[[*Ts], T], *args: *Ts, within_seconds: float) -> T:
        assert within_seconds <= device_hints.LOOK_SECONDS
        if subject in self._subjects:
            raise FilesFailed(subject, "no answer")
        return await PLAIN_THREADS.run(subject, function, *args, within_seconds=within_seconds)


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


HINT = DeviceLocality(f"/{PCI}", CpuSet.parse("4-7"), NodeSet.of([1]))


async def test_a_container_without_devices_and_mounts_asks_for_nothing(tmp_path: Path) -> None:
    assert await DeviceHints(tmp_path, Hanging("mounts", "sysfs")).of(asked()) == ()


@pytest.mark.parametrize("config", [asked(f"/{PCI}"), asked(cdi="example.com/nic=d")], ids=["device", "CDI"])
async def test_a_device_has_the_hint_of_its_place(tmp_path: Path, config: pb.ContainerConfig) -> None:
    assert await DeviceHints(a_root(tmp_path), PLAIN_THREADS).of(config) == (HINT,)


async def test_a_path_that_hangs_takes_no_hint_of_another_with_it(tmp_path: Path) -> None:
    found = await DeviceHints(a_root(tmp_path), Hanging("/data")).of(asked(f"/{PCI}", "/data"))
    assert found == (HINT, MissingHints("no hint of /data: /data: no answer"))


async def test_where_the_list_of_mounts_hangs_each_path_is_asked_for_itself(tmp_path: Path) -> None:
    assert await DeviceHints(a_root(tmp_path), Hanging("mounts")).of(asked(f"/{PCI}", "/data")) == (HINT,)


@pytest.mark.parametrize("subject", ["sysfs", "CDI specifications"])
async def test_what_the_machine_itself_does_not_answer_is_missing(tmp_path: Path, subject: str) -> None:
    config = asked(cdi="example.com/nic=d")
    (missing,) = await DeviceHints(a_root(tmp_path), Hanging(subject)).of(config)
    assert isinstance(missing, MissingHints)
    assert subject in missing.problem


async def test_containers_are_looked_at_beside_each_other(tmp_path: Path) -> None:
    hints = DeviceHints(a_root(tmp_path), PLAIN_THREADS)
    assert await asyncio.gather(*(hints.of(asked(f"/{PCI}")) for _ in range(20))) == [(HINT,)] * 20


async def test_names_that_a_specification_declares_are_told_from_others(tmp_path: Path) -> None:
    names = ["example.com/nic=d", "example.com/nic=e"]
    assert await DeviceHints(a_root(tmp_path), Hanging("sysfs")).declared(names) == ("example.com/nic=d",)
    with pytest.raises(FilesFailed, match="CDI specifications: no answer"):
        await DeviceHints(tmp_path, Hanging("CDI specifications")).declared(names)
