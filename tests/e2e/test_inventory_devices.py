"""A pod asks for devices of an inventory by Koordinator's annotations: it sees them in its environment and by CDI.

The GPUs are made up: each is the kernel's zero device under a name of its own.
"""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec
from tests.e2e.stage import Stage, TwoCpus, refusal
from tests.testbed.inside import output_of

KIND = "nvidia.com/gpu"
UUIDS = tuple(f"GPU-e2e-{os.getpid()}-{n}" for n in range(2))
VFS = tuple(f"0000:{n}0:00.1" for n in range(2))
INVENTORY = {
    "gpu": [{"minor": n, "pcie": f"switch{n}", "uuid": uuid} for n, uuid in enumerate(UUIDS)],
    "rdma": [{"minor": n, "pcie": f"switch{n}", "vf_groups": [{"vfs": [{"bus": bus}]}]} for n, bus in enumerate(VFS)],
}
CDI_DIRECTORY = Path("/var/run/cdi")
CONTAINER = ContainerSpec("c0", cpu_request_mcpu=100)
ASKS = (
    ("cri-proxy.io/device-resources", "nvidia.com/gpu=1,koordinator.sh/rdma=1"),
    ("scheduling.koordinator.sh/device-allocate-hint", json.dumps({"rdma": {"vfSelector": {}}})),
    (
        "scheduling.koordinator.sh/device-joint-allocate",
        json.dumps({"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}),
    ),
)


@pytest.fixture(scope="module")
def options(two: TwoCpus, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ...]]:
    """An inventory of two GPUs, each beside a NIC with one VF, and a CDI specification that declares the GPUs."""
    directory = tmp_path_factory.mktemp("inventory")
    (directory / "devices.yaml").write_text(json.dumps(INVENTORY))
    (directory / "cri-proxy.yaml").write_text(json.dumps({"devices": {"inventory": str(directory / "devices.yaml")}}))
    made = not CDI_DIRECTORY.exists()
    CDI_DIRECTORY.mkdir(parents=True, exist_ok=True)
    specification = CDI_DIRECTORY / f"cri-proxy-e2e-inventory-{os.getpid()}.json"
    devices = [cdi_device(n, uuid) for n, uuid in enumerate(UUIDS)]
    specification.write_text(json.dumps({"cdiVersion": "0.5.0", "kind": KIND, "devices": devices}))
    yield ("--config", str(directory / "cri-proxy.yaml"), *two.options)
    specification.unlink()
    if made:
        CDI_DIRECTORY.rmdir()


def cdi_device(minor: int, uuid: str) -> dict[str, object]:
    nodes = [{"path": f"/dev/gpu{minor}", "hostPath": "/dev/zero", "type": "c", "permissions": "r"}]
    return {"name": uuid, "containerEdits": {"deviceNodes": nodes}}


async def asking(stage: Stage, name: str) -> RunningPod:
    return await stage.kubelet.run_pod(PodSpec(name, (CONTAINER,), namespace="e2e", annotations=ASKS))


async def has(stage: Stage, container_id: str, minor: int) -> bool:
    """Whether the container is told exactly this GPU and the VF beside it, and sees the GPU's node alone."""
    said = "echo $CRI_PROXY_ALLOCATED_GPU $CRI_PROXY_ALLOCATED_RDMA $NVIDIA_VISIBLE_DEVICES; ls /dev | grep gpu"
    words = (await output_of(stage.direct, container_id, "/bin/sh", "-c", said)).split()
    status = await stage.direct.status(container_id)
    told = json.loads(status.status.annotations["scheduling.koordinator.sh/device-allocated"])
    minors = {kind: [entry["minor"] for entry in entries] for kind, entries in told.items()}
    return (words, minors) == (
        [f"{minor}", f"{minor}@{VFS[minor]}", UUIDS[minor], f"gpu{minor}"],
        {"gpu": [minor], "rdma": [minor]},
    )


async def held(stage: Stage) -> dict[str, list[str]]:
    """Who holds each device."""
    inventory = (await stage.daemon.admin.status()).inventory
    return {f"{device.type} {device.minor}": [holder.container for holder in device.holders] for device in inventory}


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL], ids=lambda s: s.name)
async def test_devices_that_go_together_stay_through_a_restart_and_come_back(
    stage: Stage, ending: signal.Signals
) -> None:
    first, second = await asking(stage, "first"), await asking(stage, "second")
    assert await has(stage, first.container_id("c0"), 0) and await has(stage, second.container_id("c0"), 1)
    assert "gpu" in (await refusal(asking(stage, "third"))).message
    await stage.kubelet.remove_pod(first.sandbox_id)
    await stage.daemon.restart(ending)
    assert await held(stage) == {"gpu 0": [], "gpu 1": ["e2e/second/c0"], "rdma 0": [], "rdma 1": ["e2e/second/c0"]}
    again = await asking(stage, "again")
    assert await has(stage, again.container_id("c0"), 0) and await has(stage, second.container_id("c0"), 1)
    for pod in (second, again):
        await stage.kubelet.remove_pod(pod.sandbox_id)
    assert not any((await held(stage)).values())


async def test_devices_are_known_again_when_the_state_is_lost(stage: Stage) -> None:
    await asking(stage, "first")
    await stage.daemon.stop()
    for path in (stage.daemon.directory / "state").glob("state.db*"):
        path.unlink()
    await stage.daemon.start()
    assert (await held(stage))["gpu 0"] == ["e2e/first/c0"]
