"""Wrong and odd calls that any runtime must answer, and how to ask one runtime all of them.

``ask_all`` makes a small scene on a runtime (one pod; a created, a running and an exited container), makes every call
and gives the status codes and messages with ids replaced by names. Recorded from containerd once per version and held
against the embedded runtime; the end-to-end suite asks a live containerd the same.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from google.protobuf.message import Message

from cri_proxy.cri.methods import IMAGE, RUNTIME
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.errors import CallFailed
from cri_proxy.runtime.channel import RuntimeChannel

TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Scene:
    """What exists on the runtime while the probes are asked."""

    image: str
    cgroup_parent: str
    sandbox: str = ""
    gone_sandbox: str = ""  # stopped, not removed
    created: str = ""
    running: str = ""
    exited: str = ""


@dataclass(frozen=True, slots=True)
class Probe:
    """One call: ``name`` is what is wrong with it."""

    name: str
    method: str
    build: Callable[[Scene], Message]


def sandbox_config(scene: Scene, name: str) -> pb.PodSandboxConfig:
    """A pod in the host's network, so that no network plugin is needed."""
    return pb.PodSandboxConfig(
        metadata=pb.PodSandboxMetadata(name=name, uid=f"{name}-uid", namespace="probes"),
        linux=pb.LinuxPodSandboxConfig(
            cgroup_parent=scene.cgroup_parent,
            security_context=pb.LinuxSandboxSecurityContext(
                namespace_options=pb.NamespaceOption(network=pb.NamespaceMode.NODE)
            ),
        ),
    )


def create(scene: Scene, name: str, *, image: str = "", sandbox: str = "") -> pb.CreateContainerRequest:
    """A container that sleeps."""
    return pb.CreateContainerRequest(
        pod_sandbox_id=sandbox or scene.sandbox,
        config=pb.ContainerConfig(
            metadata=pb.ContainerMetadata(name=name),
            image=pb.ImageSpec(image=image or scene.image),
            command=["/bin/sleep", "100000"],
            linux=pb.LinuxContainerConfig(resources=pb.LinuxContainerResources(cpu_shares=102)),
        ),
        sandbox_config=sandbox_config(scene, "probe"),
    )


def _ids(method: str, request: type[Message], field: str, **other: object) -> list[Probe]:
    """The call with an unknown id, and with none."""
    return [
        Probe(f"{method} unknown", RUNTIME + method, lambda _: request(**{field: "nosuch"}, **other)),
        Probe(f"{method} empty", RUNTIME + method, lambda _: request(**other)),
    ]


def _update(container: str, **fields: object) -> pb.UpdateContainerResourcesRequest:
    resources = pb.LinuxContainerResources(**fields)  # type: ignore[arg-type]  # field names are ours, above
    return pb.UpdateContainerResourcesRequest(container_id=container, linux=resources)


CONTAINER_PROBES: list[Probe] = [
    *_ids("StartContainer", pb.StartContainerRequest, "container_id"),
    *_ids("StopContainer", pb.StopContainerRequest, "container_id"),
    *_ids("RemoveContainer", pb.RemoveContainerRequest, "container_id"),
    *_ids("ContainerStatus", pb.ContainerStatusRequest, "container_id"),
    *_ids("ReopenContainerLog", pb.ReopenContainerLogRequest, "container_id"),
    *_ids("ExecSync", pb.ExecSyncRequest, "container_id", cmd=["true"]),
    *_ids("Exec", pb.ExecRequest, "container_id", cmd=["true"], stdout=True),
    *_ids("Attach", pb.AttachRequest, "container_id", stdout=True),
    *_ids("ContainerStats", pb.ContainerStatsRequest, "container_id"),
    Probe("Update unknown", RUNTIME + "UpdateContainerResources", lambda _: _update("nosuch", cpu_shares=2)),
    Probe("Update created", RUNTIME + "UpdateContainerResources", lambda s: _update(s.created, cpu_shares=204)),
    Probe("Update running", RUNTIME + "UpdateContainerResources", lambda s: _update(s.running, cpu_shares=204)),
    Probe("Update exited", RUNTIME + "UpdateContainerResources", lambda s: _update(s.exited, cpu_shares=204)),
    Probe(
        "Update without resources",
        RUNTIME + "UpdateContainerResources",
        lambda s: pb.UpdateContainerResourcesRequest(container_id=s.running),
    ),
    Probe("Start running", RUNTIME + "StartContainer", lambda s: pb.StartContainerRequest(container_id=s.running)),
    Probe("Start exited", RUNTIME + "StartContainer", lambda s: pb.StartContainerRequest(container_id=s.exited)),
    Probe("Stop exited", RUNTIME + "StopContainer", lambda s: pb.StopContainerRequest(container_id=s.exited)),
    Probe(
        "Log of created", RUNTIME + "ReopenContainerLog", lambda s: pb.ReopenContainerLogRequest(container_id=s.created)
    ),
    Probe(
        "Log of exited", RUNTIME + "ReopenContainerLog", lambda s: pb.ReopenContainerLogRequest(container_id=s.exited)
    ),
    Probe("ExecSync created", RUNTIME + "ExecSync", lambda s: pb.ExecSyncRequest(container_id=s.created, cmd=["true"])),
    Probe("ExecSync exited", RUNTIME + "ExecSync", lambda s: pb.ExecSyncRequest(container_id=s.exited, cmd=["true"])),
    Probe("ExecSync nothing", RUNTIME + "ExecSync", lambda s: pb.ExecSyncRequest(container_id=s.running)),
    Probe("Exec no streams", RUNTIME + "Exec", lambda s: pb.ExecRequest(container_id=s.running, cmd=["true"])),
    Probe("Exec exited", RUNTIME + "Exec", lambda s: pb.ExecRequest(container_id=s.exited, cmd=["true"], stdout=True)),
    Probe("Attach exited", RUNTIME + "Attach", lambda s: pb.AttachRequest(container_id=s.exited, stdout=True)),
    Probe("Stats of created", RUNTIME + "ContainerStats", lambda s: pb.ContainerStatsRequest(container_id=s.created)),
    Probe("Stats of exited", RUNTIME + "ContainerStats", lambda s: pb.ContainerStatsRequest(container_id=s.exited)),
    Probe(
        "List unknown container",
        RUNTIME + "ListContainers",
        lambda _: pb.ListContainersRequest(filter=pb.ContainerFilter(id="nosuch")),
    ),
]

POD_PROBES: list[Probe] = [
    *_ids("StopPodSandbox", pb.StopPodSandboxRequest, "pod_sandbox_id"),
    *_ids("RemovePodSandbox", pb.RemovePodSandboxRequest, "pod_sandbox_id"),
    *_ids("PodSandboxStatus", pb.PodSandboxStatusRequest, "pod_sandbox_id"),
    *_ids("PodSandboxStats", pb.PodSandboxStatsRequest, "pod_sandbox_id"),
    *_ids("PortForward", pb.PortForwardRequest, "pod_sandbox_id", port=[80]),
    Probe("Run pod without config", RUNTIME + "RunPodSandbox", lambda _: pb.RunPodSandboxRequest()),
    Probe(
        "Run pod twice", RUNTIME + "RunPodSandbox", lambda s: pb.RunPodSandboxRequest(config=sandbox_config(s, "probe"))
    ),
    Probe(
        "Run pod with unknown handler",
        RUNTIME + "RunPodSandbox",
        lambda s: pb.RunPodSandboxRequest(config=sandbox_config(s, "handled"), runtime_handler="nosuch"),
    ),
    Probe("Create in unknown pod", RUNTIME + "CreateContainer", lambda s: create(s, "c", sandbox="nosuch")),
    Probe("Create in stopped pod", RUNTIME + "CreateContainer", lambda s: create(s, "c", sandbox=s.gone_sandbox)),
    Probe("Create of unknown image", RUNTIME + "CreateContainer", lambda s: create(s, "c", image="no.such/image:1")),
    Probe("Create twice", RUNTIME + "CreateContainer", lambda s: create(s, "running")),
    Probe(
        "Create without config",
        RUNTIME + "CreateContainer",
        lambda s: pb.CreateContainerRequest(pod_sandbox_id=s.sandbox),
    ),
    Probe(
        "Create without metadata",
        RUNTIME + "CreateContainer",
        lambda s: pb.CreateContainerRequest(
            pod_sandbox_id=s.sandbox, config=pb.ContainerConfig(image=pb.ImageSpec(image=s.image))
        ),
    ),
    Probe("Create nothing", RUNTIME + "CreateContainer", lambda _: pb.CreateContainerRequest()),
]

IMAGE_PROBES: list[Probe] = [
    Probe(
        "Status of unknown image",
        IMAGE + "ImageStatus",
        lambda _: pb.ImageStatusRequest(image=pb.ImageSpec(image="no.such/image:1")),
    ),
    Probe("Status of no image", IMAGE + "ImageStatus", lambda _: pb.ImageStatusRequest()),
    Probe(
        "Remove unknown image",
        IMAGE + "RemoveImage",
        lambda _: pb.RemoveImageRequest(image=pb.ImageSpec(image="no.such/image:1")),
    ),
    Probe("Pull no image", IMAGE + "PullImage", lambda _: pb.PullImageRequest()),
]

UNKNOWN_METHOD_PROBES: list[Probe] = [
    Probe("Unknown method", RUNTIME + "MakeCoffee", lambda _: pb.VersionRequest()),
    Probe("Unknown service", "/runtime.v9.RuntimeService/Version", lambda _: pb.VersionRequest()),
    Probe("CheckpointPod", RUNTIME + "CheckpointPod", lambda s: pb.CheckpointPodRequest(pod_sandbox_id=s.sandbox)),
    Probe("RestorePod", RUNTIME + "RestorePod", lambda _: pb.RestorePodRequest()),
]

_UPDATE = RUNTIME + "UpdateContainerResources"

# These change the scene, so they are asked last and in this order.
LAST_PROBES: list[Probe] = [
    Probe("Update running, malformed", _UPDATE, lambda s: _update(s.running, cpuset_cpus="0-")),
    Probe("Update running, no such CPU", _UPDATE, lambda s: _update(s.running, cpuset_cpus="9999")),
    Probe("Update running, no such node", _UPDATE, lambda s: _update(s.running, cpuset_mems="63")),
    Probe("Update running, empty set", _UPDATE, lambda s: _update(s.running, cpuset_cpus="")),
    Probe("Update created, malformed", _UPDATE, lambda s: _update(s.created, cpuset_cpus="0-")),
    Probe("Start malformed", RUNTIME + "StartContainer", lambda s: pb.StartContainerRequest(container_id=s.created)),
    Probe("Start again", RUNTIME + "StartContainer", lambda s: pb.StartContainerRequest(container_id=s.created)),
    Probe("Remove running", RUNTIME + "RemoveContainer", lambda s: pb.RemoveContainerRequest(container_id=s.running)),
    Probe("Stop removed", RUNTIME + "StopContainer", lambda s: pb.StopContainerRequest(container_id=s.running)),
    Probe(
        "Remove running pod",
        RUNTIME + "RemovePodSandbox",
        lambda s: pb.RemovePodSandboxRequest(pod_sandbox_id=s.sandbox),
    ),
    Probe(
        "Remove pod again", RUNTIME + "RemovePodSandbox", lambda s: pb.RemovePodSandboxRequest(pod_sandbox_id=s.sandbox)
    ),
    Probe(
        "Start in removed pod", RUNTIME + "StartContainer", lambda s: pb.StartContainerRequest(container_id=s.created)
    ),
]

PROBES = [*CONTAINER_PROBES, *POD_PROBES, *IMAGE_PROBES, *UNKNOWN_METHOD_PROBES, *LAST_PROBES]


async def ask(channel: RuntimeChannel, scene: Scene, probe: Probe) -> dict[str, object]:
    """What the runtime answers to one probe: the code, and the message with ids replaced by names."""
    try:
        await channel.unary(probe.method, probe.build(scene).SerializeToString(), timeout_seconds=TIMEOUT_SECONDS)
    except CallFailed as failed:
        return {"code": failed.code, "message": _without_ids(failed.message, scene)}
    return {"code": 0, "message": ""}


def _without_ids(message: str, scene: Scene) -> str:
    for name in ("sandbox", "gone_sandbox", "created", "running", "exited"):
        value: str = getattr(scene, name)
        if value:
            message = message.replace(value, f"<{name}>")
    message = re.sub(r"write /sys/fs/cgroup\S*/(cpuset\.\w+):", r"write <cgroup>/\1:", message)
    return re.sub(r"\b[0-9a-f]{64}\b", "<id>", message).replace(scene.image, "<image>")


async def _call(channel: RuntimeChannel, method: str, message: Message) -> bytes:
    return await channel.unary(RUNTIME + method, message.SerializeToString(), timeout_seconds=TIMEOUT_SECONDS)


async def set_scene(channel: RuntimeChannel, image: str, cgroup_parent: str) -> Scene:
    """Make the pod and its containers; ``image`` must be there already and hold /bin/sleep."""

    async def pod(name: str) -> str:
        request = pb.RunPodSandboxRequest(config=sandbox_config(Scene(image, cgroup_parent), name))
        return pb.RunPodSandboxResponse.FromString(await _call(channel, "RunPodSandbox", request)).pod_sandbox_id

    sandbox, gone = await pod("probe"), await pod("gone")
    await _call(channel, "StopPodSandbox", pb.StopPodSandboxRequest(pod_sandbox_id=gone))
    scene = Scene(image, cgroup_parent, sandbox, gone)
    ids = {}
    for name in ("created", "running", "exited"):
        reply = await _call(channel, "CreateContainer", create(scene, name))
        ids[name] = pb.CreateContainerResponse.FromString(reply).container_id
    for name in ("running", "exited"):
        await _call(channel, "StartContainer", pb.StartContainerRequest(container_id=ids[name]))
    await _call(channel, "StopContainer", pb.StopContainerRequest(container_id=ids["exited"]))
    return Scene(image, cgroup_parent, sandbox, gone, **ids)


async def strike_scene(channel: RuntimeChannel, scene: Scene) -> None:
    """Remove what ``set_scene`` made, as far as the probes left it."""
    for sandbox in (scene.sandbox, scene.gone_sandbox):
        try:
            await _call(channel, "StopPodSandbox", pb.StopPodSandboxRequest(pod_sandbox_id=sandbox))
        except CallFailed as failed:
            if failed.code != 5:  # NOT_FOUND: a probe removed it
                raise
        await _call(channel, "RemovePodSandbox", pb.RemovePodSandboxRequest(pod_sandbox_id=sandbox))


async def ask_all(channel: RuntimeChannel, image: str, cgroup_parent: str = "/probes") -> dict[str, dict[str, object]]:
    """Every probe's answer by its name."""
    scene = await set_scene(channel, image, cgroup_parent)
    try:
        return {probe.name: await ask(channel, scene, probe) for probe in PROBES}
    finally:
        await strike_scene(channel, scene)
