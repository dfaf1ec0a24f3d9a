"""Containers ask for devices of a cost file: they see them in their environment and, by CDI, as device nodes.

The devices are made up: each is the kernel's zero device under a name of its own.
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

KIND = f"e2e-{os.getpid()}.cri-proxy.io/gpu"
GPUS = tuple(f"{KIND}/gpu{i}" for i in range(4))
# The first two are cheap together, and so are the last two, the cheapest of all.
COSTS = f"""
{GPUS[0]}: {{10: [{GPUS[1]}], 50: [{GPUS[2]}, {GPUS[3]}]}}
{GPUS[1]}: {{50: [{GPUS[2]}, {GPUS[3]}]}}
{GPUS[2]}: {{5: [{GPUS[3]}]}}
{GPUS[3]}:
"""
CDI_DIRECTORY = Path("/var/run/cdi")
CONTAINER = ContainerSpec("c0", cpu_request_mcpu=100)


@pytest.fixture(scope="module")
def options(two: TwoCpus, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ...]]:
    """A cost file that lists the devices, and a CDI specification that declares all but the last."""
    directory = tmp_path_factory.mktemp("costs")
    (directory / "gpus.yaml").write_text(COSTS)
    configuration = tmp_path_factory.mktemp("configuration") / "cri-proxy.yaml"
    configuration.write_text(json.dumps({"costs": {"dir": str(directory), "normalize": "none"}}))
    made = not CDI_DIRECTORY.exists()
    CDI_DIRECTORY.mkdir(parents=True, exist_ok=True)
    specification = CDI_DIRECTORY / f"cri-proxy-e2e-{os.getpid()}.json"
    specification.write_text(
        json.dumps({"cdiVersion": "0.5.0", "kind": KIND, "devices": list(map(cdi_device, GPUS[:3]))})
    )
    yield ("--config", str(configuration), *two.options)
    specification.unlink()
    if made:
        CDI_DIRECTORY.rmdir()


def node_of(device: str) -> str:
    return f"/dev/{device.rpartition('/')[2]}"


def cdi_device(device: str) -> dict[str, object]:
    nodes = [{"path": node_of(device), "hostPath": "/dev/zero", "type": "c", "permissions": "r"}]
    return {"name": device.rpartition("/")[2], "containerEdits": {"deviceNodes": nodes}}


async def asking(stage: Stage, name: str, count: int) -> RunningPod:
    annotations = (("cri-proxy.io/device-request", f"{KIND}={count}"),)
    return await stage.kubelet.run_pod(PodSpec(name, (CONTAINER,), namespace="e2e", annotations=annotations))


async def variable(stage: Stage, container_id: str) -> list[str]:
    text = await output_of(stage.direct, container_id, "/bin/sh", "-c", "echo $CRI_PROXY_DEVICES")
    return text.strip().split(",")


async def device_nodes(stage: Stage, container_id: str) -> list[str]:
    """Those of the devices that the container can read as what they are."""
    tests = "; ".join(f"[ -c {node_of(g)} ] && head -c 1 {node_of(g)} >/dev/null && echo {g}" for g in GPUS)
    return (await output_of(stage.direct, container_id, "/bin/sh", "-c", f"{tests}; true")).split()


async def has(stage: Stage, container_id: str, devices: tuple[str, ...]) -> bool:
    """Whether the container is told exactly these devices, and sees those that CDI declares."""
    declared = [device for device in devices if device in GPUS[:3]]
    return await variable(stage, container_id) == [*devices] and await device_nodes(stage, container_id) == declared


async def held(stage: Stage) -> dict[str, tuple[str, ...]]:
    status = await stage.daemon.admin.status()
    return {container.pod: container.devices for container in status.containers}


async def test_containers_have_the_cheapest_free_devices_alone(stage: Stage) -> None:
    first, second = await asking(stage, "first", 2), await asking(stage, "second", 2)
    assert await held(stage) == {"first": GPUS[2:], "second": GPUS[:2]}
    assert await has(stage, first.container_id("c0"), GPUS[2:])
    assert await has(stage, second.container_id("c0"), GPUS[:2])
    refused = await refusal(asking(stage, "third", 1))
    assert KIND in refused.message


async def test_the_status_shows_which_devices_are_free(stage: Stage) -> None:
    await asking(stage, "first", 2)
    (gpus,) = (await stage.daemon.admin.status()).devices
    assert (gpus.kind, gpus.present, gpus.held, gpus.free) == (KIND, 4, 2, GPUS[:2])
    assert [(holder.container, holder.devices) for holder in gpus.holders] == [("e2e/first/c0", GPUS[2:])]


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL], ids=lambda s: s.name)
async def test_devices_stay_through_restarts_of_daemon_and_container(stage: Stage, ending: signal.Signals) -> None:
    first, second = await asking(stage, "first", 2), await asking(stage, "second", 2)
    await stage.kubelet.remove_pod(first.sandbox_id)  # what is cheapest is free again
    await stage.daemon.restart(ending)
    assert await held(stage) == {"second": GPUS[:2]}
    assert await has(stage, second.container_id("c0"), GPUS[:2])
    await stage.kubelet.stop(second.container_id("c0"))
    again = await stage.kubelet.create(second.spec, CONTAINER, second.sandbox_id, attempt=1)
    await stage.kubelet.start(again)
    assert await has(stage, again, GPUS[:2])


async def test_devices_are_known_again_when_the_state_is_lost(stage: Stage) -> None:
    first, second = await asking(stage, "first", 2), await asking(stage, "second", 2)
    await stage.daemon.stop()
    for path in (stage.daemon.directory / "state").glob("state.db*"):
        path.unlink()
    await stage.daemon.start()
    assert await held(stage) == {"first": GPUS[2:], "second": GPUS[:2]}
    assert await has(stage, first.container_id("c0"), GPUS[2:])
    assert await has(stage, second.container_id("c0"), GPUS[:2])


async def test_a_container_that_asks_for_none_sees_none(stage: Stage) -> None:
    pod = await stage.run("plain", CONTAINER)
    assert await variable(stage, pod.container_id("c0")) == [""]
    assert await device_nodes(stage, pod.container_id("c0")) == []
