"""Devices that cri-proxy resolves itself: a real container has what their CDI specification names, or is refused.

The device is made up: the kernel's zero device under a name of its own, beside a file of the host and a group.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, create_request
from tests.e2e.stage import Stage, TwoCpus, refusal
from tests.testbed.inside import output_of

KIND = f"e2e-cdi-{os.getpid()}.cri-proxy.io"
PLAIN, HOOKED = f"{KIND}/plain", f"{KIND}/hooked"
OWN, NUMBER = "cri-proxy.io/gpu", str(os.getpid())
CDI_DIRECTORY = Path("/var/run/cdi")
CONTAINER = ContainerSpec("c0", cpu_request_mcpu=100)
GROUP = 4711


@pytest.fixture(scope="module")
def options(two: TwoCpus, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ...]]:
    """Two types of devices with a specification each. Forced to be resolved: a later containerd would add them."""
    library = tmp_path_factory.mktemp("library") / "libvendor.so"
    library.write_text("of the host")
    costs = tmp_path_factory.mktemp("costs")
    (costs / "devices.yaml").write_text(f"{PLAIN}/dev0:\n{HOOKED}/dev0:\n")
    configuration = tmp_path_factory.mktemp("configuration") / "cri-proxy.yaml"
    configuration.write_text(json.dumps({"costs": {"dir": str(costs), "normalize": "none"}, "cdi": "resolve"}))
    made = not CDI_DIRECTORY.exists()
    CDI_DIRECTORY.mkdir(parents=True, exist_ok=True)
    own_edits: dict[str, object] = {"deviceNodes": [{"path": "/dev/own0", "hostPath": "/dev/zero"}]}
    devices = ((PLAIN, "dev0", plain_edits(library)), (HOOKED, "dev0", hooked_edits()), (OWN, NUMBER, own_edits))
    files = [CDI_DIRECTORY / f"cri-proxy-{KIND}-{number}.json" for number in range(len(devices))]
    for file, device in zip(files, devices, strict=True):
        file.write_text(json.dumps(specification(*device)))
    yield ("--config", str(configuration), *two.options)
    for file in files:
        file.unlink()
    if made:
        CDI_DIRECTORY.rmdir()


def specification(kind: str, name: str, edits: dict[str, object]) -> dict[str, object]:
    return {"cdiVersion": "0.7.0", "kind": kind, "devices": [{"name": name, "containerEdits": edits}]}


def plain_edits(library: Path) -> dict[str, object]:
    mount = {"hostPath": str(library), "containerPath": "/vendor/lib.so", "options": ["ro", "nosuid", "nodev", "bind"]}
    return {
        "env": ["VENDOR_DEVICE=dev0"],
        "deviceNodes": [{"path": "/dev/vendor0", "hostPath": "/dev/zero", "type": "c", "permissions": "r"}],
        "mounts": [mount],
        "additionalGids": [GROUP],
    }


def hooked_edits() -> dict[str, object]:
    hook = {"hookName": "createContainer", "path": "/usr/bin/nvidia-ctk", "args": ["nvidia-ctk", "hook"]}
    return {"deviceNodes": [{"path": "/dev/vendor0", "hostPath": "/dev/zero"}], "hooks": [hook]}


async def asking(stage: Stage, name: str, kind: str) -> RunningPod:
    annotations = (("cri-proxy.io/device-request", f"{kind}=1"),)
    return await stage.kubelet.run_pod(PodSpec(name, (CONTAINER,), namespace="e2e", annotations=annotations))


async def says(stage: Stage, pod: RunningPod, command: str) -> str:
    return (await output_of(stage.direct, pod.container_id("c0"), "/bin/sh", "-c", command)).strip()


async def test_the_container_has_what_the_specification_names(stage: Stage) -> None:
    pod = await asking(stage, "plain", PLAIN)
    assert await says(stage, pod, "echo $VENDOR_DEVICE $CRI_PROXY_DEVICES") == f"dev0 {PLAIN}/dev0"
    assert await says(stage, pod, "[ -c /dev/vendor0 ] && head -c 2 /dev/vendor0 | od -An -tx1") == "00 00"
    assert "of the host" in await says(
        stage, pod, "cat /vendor/lib.so; echo x 2>/dev/null >/vendor/lib.so; cat /vendor/lib.so"
    )
    assert str(GROUP) in (await says(stage, pod, "id -G")).split()


async def test_a_device_of_our_plugin_is_there_whatever_the_runtime_makes_of_its_cdi_name(stage: Stage) -> None:
    """containerd 1.6 ignores names, and the daemon writes what they stand for; containerd 2 adds them itself."""
    spec = PodSpec("own", (CONTAINER,), namespace="e2e")
    sandbox_id = await stage.kubelet.run_sandbox(spec)
    request = create_request(spec, CONTAINER, sandbox_id, node=stage.kubelet.node)
    request.config.annotations["allocated.cri-proxy.io/gpu"] = NUMBER
    request.config.CDI_devices.add(name=f"{OWN}={NUMBER}")
    container_id = await stage.kubelet.create_as(request)
    await stage.kubelet.start(container_id)
    said = await output_of(stage.direct, container_id, "/bin/sh", "-c", "head -c 2 /dev/own0 | od -An -tx1")
    assert said.strip() == "00 00"


async def test_a_hook_refuses_the_container_and_the_device_is_free_again(stage: Stage) -> None:
    refused = await refusal(asking(stage, "hooked", HOOKED))
    assert f"{HOOKED}=dev0" in refused.message
    assert "has the createContainer hook /usr/bin/nvidia-ctk" in refused.message
    status = await stage.daemon.admin.status()
    assert [use.held for use in status.devices] == [0, 0]


async def test_the_status_says_how_and_why(stage: Stage) -> None:
    await asking(stage, "plain", PLAIN)
    cdi = (await stage.daemon.admin.status()).cdi
    assert cdi is not None
    assert (cdi.way, cdi.choice) == ("resolve", "resolve")
    assert "cdi is resolve; containerd " in cdi.text
