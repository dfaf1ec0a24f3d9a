"""Pod and container specifications, and the CRI messages that a kubelet builds from them. Pure.

Everything that the proxy reads is as a kubelet writes it: cpu_shares, cpu_quota, cpu_period from requests and limits,
oom_score_adj by QoS class, the pod's cgroup as cgroup_parent, the ``io.kubernetes.*`` labels, and the pod's annotations
on the sandbox alone.
"""

import uuid
from dataclasses import dataclass

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from policies.base import Labels, QosClass

IMAGE = "cri-proxy.local/busybox:1"

PERIOD_US = 100_000  # the kubelet's default cpuCFSQuotaPeriod
MIN_SHARES, MAX_SHARES = 2, 262_144
MIN_QUOTA_US = 1_000
POD_NAMESPACE_UUID = uuid.UUID("a3a8f3a4-7f0e-4b0c-9c86-5c1a6f4d2b11")  # ours, made up once
NAMESPACES = pb.NamespaceOption(network=pb.NODE, pid=pb.CONTAINER, ipc=pb.POD)
FOREVER = ("/bin/sleep", "1000000")


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """A container of a pod; 0 = not given. As in the API, a limit without a request is the request, too."""

    name: str
    cpu_request_mcpu: int = 0
    cpu_limit_mcpu: int = 0
    memory_request_bytes: int = 0
    memory_limit_bytes: int = 0
    command: tuple[str, ...] = FOREVER

    @property
    def effective_cpu_request_mcpu(self) -> int:
        """The CPU request after the API's defaulting."""
        return self.cpu_request_mcpu or self.cpu_limit_mcpu

    @property
    def effective_memory_request_bytes(self) -> int:
        """The memory request after the API's defaulting."""
        return self.memory_request_bytes or self.memory_limit_bytes

    @property
    def requests_nothing(self) -> bool:
        """True when neither CPU nor memory is requested."""
        return not (self.effective_cpu_request_mcpu or self.effective_memory_request_bytes)

    @property
    def requests_equal_limits(self) -> bool:
        """True when CPU and memory have limits, and requests equal to them."""
        return (
            0 < self.cpu_limit_mcpu == self.effective_cpu_request_mcpu
            and 0 < self.memory_limit_bytes == self.effective_memory_request_bytes
        )


def guaranteed(name: str, cpu_mcpu: int, *, memory_bytes: int = 32 << 20) -> ContainerSpec:
    """Return a container with requests equal to its limits."""
    return ContainerSpec(name, cpu_mcpu, cpu_mcpu, memory_bytes, memory_bytes)


@dataclass(frozen=True, slots=True)
class PodSpec:
    """A pod as a user writes it. ``uid`` '' = derived from namespace and name, so equal pods have equal uids."""

    name: str
    containers: tuple[ContainerSpec, ...]
    namespace: str = "default"
    annotations: Labels = ()
    labels: Labels = ()
    uid: str = ""

    @property
    def pod_uid(self) -> str:
        """The uid of the pod."""
        return self.uid or str(uuid.uuid5(POD_NAMESPACE_UUID, f"{self.namespace}/{self.name}"))

    @property
    def qos(self) -> QosClass:
        """The QoS class, by the rule of the Kubernetes documentation ("Pod Quality of Service Classes")."""
        if all(c.requests_nothing for c in self.containers):
            return QosClass.BEST_EFFORT
        if all(c.requests_equal_limits for c in self.containers):
            return QosClass.GUARANTEED
        return QosClass.BURSTABLE


@dataclass(frozen=True, slots=True)
class KubeletNode:
    """A kubelet's knowledge of its node.

    ``cgroup_root`` is the kubelet's option of that name ('' = '/'); ``systemd_cgroups`` is its cgroupDriver.
    """

    memory_capacity_bytes: int
    log_directory: str = "/var/log/pods"
    cgroup_root: str = ""
    image: str = IMAGE
    systemd_cgroups: bool = False


def cgroup_parent(pod: PodSpec, node: KubeletNode) -> str:
    """Return the pod's cgroup; the QoS class is a level of its own, except for Guaranteed."""
    levels = {QosClass.BURSTABLE: ("burstable",), QosClass.BEST_EFFORT: ("besteffort",), QosClass.GUARANTEED: ()}
    root = tuple(part for part in node.cgroup_root.split("/") if part)
    path = (*root, "kubepods", *levels[pod.qos], f"pod{pod.pod_uid}")
    return systemd_slice(path) if node.systemd_cgroups else "/" + "/".join(path)


def systemd_slice(path: tuple[str, ...]) -> str:
    """Return a cgroup path as nested slices, each named by all above it (systemd.slice(5)); '-' becomes '_'.

    >>> systemd_slice(("kubepods", "pod1-2"))
    '/kubepods.slice/kubepods-pod1_2.slice'
    """
    names = [part.replace("-", "_") for part in path]
    return "".join(f"/{'-'.join(names[: i + 1])}.slice" for i in range(len(names)))


def cpu_shares(request_mcpu: int) -> int:
    """Return the shares (cgroup v1) of a request: 1024 per CPU, rounded down, from 2 to 262144.

    >>> cpu_shares(0), cpu_shares(100), cpu_shares(1000)
    (2, 102, 1024)
    """
    return min(max(request_mcpu * 1024 // 1000, MIN_SHARES), MAX_SHARES)


def cpu_quota(limit_mcpu: int) -> int:
    """Return the quota in us per period of a limit, at least 1 ms; 0 = unlimited.

    >>> cpu_quota(0), cpu_quota(2500), cpu_quota(1)
    (0, 250000, 1000)
    """
    return max(limit_mcpu * PERIOD_US // 1000, MIN_QUOTA_US) if limit_mcpu else 0


def oom_score_adj(qos: QosClass, memory_request_bytes: int, capacity_bytes: int) -> int:
    """Return the kubelet's score: the less of the node a Burstable container requests, the sooner it is killed.

    >>> oom_score_adj(QosClass.BURSTABLE, 1 << 30, 4 << 30)
    750
    """
    if qos is QosClass.GUARANTEED:
        return -997
    if qos is QosClass.BEST_EFFORT:
        return 1000
    score = 1000 - 1000 * memory_request_bytes // max(capacity_bytes, 1)
    return min(max(score, 3), 999)


def resources(pod: PodSpec, container: ContainerSpec, node: KubeletNode) -> pb.LinuxContainerResources:
    """Return the resources of one container, without a cpuset: a kubelet without CPU manager sets none."""
    return pb.LinuxContainerResources(
        cpu_period=PERIOD_US,
        cpu_quota=cpu_quota(container.cpu_limit_mcpu),
        cpu_shares=cpu_shares(container.effective_cpu_request_mcpu),
        memory_limit_in_bytes=container.memory_limit_bytes,
        oom_score_adj=oom_score_adj(pod.qos, container.effective_memory_request_bytes, node.memory_capacity_bytes),
    )


def sandbox_config(pod: PodSpec, node: KubeletNode, *, attempt: int = 0) -> pb.PodSandboxConfig:
    """Return the sandbox, in the host's network namespace so that no CNI plugin is needed."""
    return pb.PodSandboxConfig(
        metadata=pb.PodSandboxMetadata(name=pod.name, uid=pod.pod_uid, namespace=pod.namespace, attempt=attempt),
        log_directory=node.log_directory and f"{node.log_directory}/{pod.namespace}_{pod.name}_{pod.pod_uid}",
        labels={**dict(pod.labels), **_pod_labels(pod)},
        annotations={**dict(pod.annotations), "kubernetes.io/config.source": "api"},
        linux=pb.LinuxPodSandboxConfig(
            cgroup_parent=cgroup_parent(pod, node),
            security_context=pb.LinuxSandboxSecurityContext(namespace_options=NAMESPACES),
            resources=_pod_sums(pod),
        ),
    )


def create_request(
    pod: PodSpec, container: ContainerSpec, sandbox_id: str, *, node: KubeletNode, attempt: int = 0
) -> pb.CreateContainerRequest:
    """Return the CreateContainer request of one container in a running sandbox."""
    config = pb.ContainerConfig(
        metadata=pb.ContainerMetadata(name=container.name, attempt=attempt),
        image=pb.ImageSpec(image=node.image),
        command=container.command,
        labels={**_pod_labels(pod), "io.kubernetes.container.name": container.name},
        annotations={
            "io.kubernetes.container.restartCount": str(attempt),
            "io.kubernetes.container.terminationMessagePath": "/dev/termination-log",
            "io.kubernetes.container.terminationMessagePolicy": "File",
            "io.kubernetes.pod.terminationGracePeriod": "30",
        },
        log_path=f"{container.name}/{attempt}.log",
        linux=pb.LinuxContainerConfig(
            resources=resources(pod, container, node),
            security_context=pb.LinuxContainerSecurityContext(namespace_options=NAMESPACES),
        ),
    )
    return pb.CreateContainerRequest(pod_sandbox_id=sandbox_id, config=config, sandbox_config=sandbox_config(pod, node))


def _pod_labels(pod: PodSpec) -> dict[str, str]:
    return {
        "io.kubernetes.pod.name": pod.name,
        "io.kubernetes.pod.namespace": pod.namespace,
        "io.kubernetes.pod.uid": pod.pod_uid,
    }


def _pod_sums(pod: PodSpec) -> pb.LinuxContainerResources:
    """Return the sums over the containers; a limit counts only when all have one (kubelet, ResourceConfigForPod)."""
    cpu_limits = [c.cpu_limit_mcpu for c in pod.containers]
    memory_limits = [c.memory_limit_bytes for c in pod.containers]
    return pb.LinuxContainerResources(
        cpu_period=PERIOD_US,
        cpu_quota=cpu_quota(sum(cpu_limits)) if all(cpu_limits) else 0,
        cpu_shares=cpu_shares(sum(c.effective_cpu_request_mcpu for c in pod.containers)),
        memory_limit_in_bytes=sum(memory_limits) if all(memory_limits) else 0,
    )
