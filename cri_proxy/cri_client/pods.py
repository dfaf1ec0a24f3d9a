"""Pod and container specifications, and the CRI messages that a kubelet builds from them. Pure.

They are worded as by kubelet 1.35: cpu_shares, cpu_quota, cpu_period from requests and limits, oom_score_adj by QoS
class, the sums and the overhead of the pod in its sandbox, the pod's cgroup as cgroup_parent, the ``io.kubernetes.*``
labels, and the pod's annotations on the sandbox alone. They have no mounts and devices: a scenario attaches its own.
"""

import uuid
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from cri_proxy.cri.linux_resources import DEFAULT_PERIOD_US, burstable_oom_score_adj, quota_of, shares_of
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from policies.base import Labels, QosClass

IMAGE = "cri-proxy.local/busybox:1"

POD_NAMESPACE_UUID = uuid.UUID("a3a8f3a4-7f0e-4b0c-9c86-5c1a6f4d2b11")  # ours, made up once
FOREVER = ("/bin/sleep", "1000000")
GRACE_SECONDS = 30  # the API's default terminationGracePeriodSeconds
# Of every container that is not privileged (procMount: Default)
MASKED_PATHS = (
    *("/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats"),
    *("/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi"),
    *("/sys/firmware", "/sys/devices/virtual/powercap"),
)
READONLY_PATHS = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
SEEN = "2024-01-01T00:00:00.000000000Z"  # when the kubelet got the pod; one time, so that equal pods give equal bytes


class ContainerRole(StrEnum):
    """The role of a container in its pod. The kubelet starts init containers and sidecars before the others."""

    REGULAR = "regular"
    INIT = "init"  # runs to its end before the next container is created
    SIDECAR = "sidecar"  # an init container with restartPolicy Always: it keeps running
    EPHEMERAL = "ephemeral"  # as of ``kubectl debug``: joins later, and may request nothing


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """A container of a pod; 0 = not given. As in the API, a limit without a request is the request, too.

    ``huge_pages`` are pairs of a page's size as CRI has it and a limit in bytes.
    """

    name: str
    cpu_request_mcpu: int = 0
    cpu_limit_mcpu: int = 0
    memory_request_bytes: int = 0
    memory_limit_bytes: int = 0
    command: tuple[str, ...] = FOREVER
    role: ContainerRole = ContainerRole.REGULAR
    huge_pages: tuple[tuple[str, int], ...] = ()

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
class PodAmounts:
    """The resources of a pod as a whole (KEP-2837); 0 = not given.

    As in the API, a request that is not given is the sum of those of the containers, or the limit without any.
    """

    cpu_request_mcpu: int = 0
    cpu_limit_mcpu: int = 0
    memory_request_bytes: int = 0
    memory_limit_bytes: int = 0

    @property
    def are_given(self) -> bool:
        """True when the pod has resources of its own."""
        return self != PodAmounts()


@dataclass(frozen=True, slots=True)
class PodSpec:
    """A pod as a user writes it. ``uid`` '' = derived from namespace and name, so equal pods have equal uids.

    ``overhead_mcpu`` and ``overhead_bytes`` are the pod overhead of its RuntimeClass. A pod with a network of its own
    (``host_network`` False) takes a CNI plugin.
    """

    name: str
    containers: tuple[ContainerSpec, ...]
    namespace: str = "default"
    annotations: Labels = ()
    labels: Labels = ()
    uid: str = ""
    overhead_mcpu: int = 0
    overhead_bytes: int = 0
    host_network: bool = True
    amounts: PodAmounts = PodAmounts()

    @property
    def pod_uid(self) -> str:
        """The uid of the pod."""
        return self.uid or str(uuid.uuid5(POD_NAMESPACE_UUID, f"{self.namespace}/{self.name}"))

    @property
    def qos(self) -> QosClass:
        """The QoS class, by the rule of the Kubernetes documentation ("Pod Quality of Service Classes")."""
        if self.amounts.are_given:
            limits = self.amounts.cpu_limit_mcpu, self.amounts.memory_limit_bytes
            is_guaranteed = all(limits) and limits == (self.cpu_request_mcpu, self.memory_request_bytes)
            return QosClass.GUARANTEED if is_guaranteed else QosClass.BURSTABLE
        counted = [c for c in self.containers if c.role is not ContainerRole.EPHEMERAL]
        if all(c.requests_nothing for c in counted):
            return QosClass.BEST_EFFORT
        if all(c.requests_equal_limits for c in counted):
            return QosClass.GUARANTEED
        return QosClass.BURSTABLE

    @property
    def cpu_request_mcpu(self) -> int:
        """The CPU request of the pod without its overhead, after the API's defaulting."""
        asked = pod_sum(self, lambda c: c.effective_cpu_request_mcpu)
        return self.amounts.cpu_request_mcpu or asked or self.amounts.cpu_limit_mcpu

    @property
    def cpu_limit_mcpu(self) -> int:
        """The CPU limit of the pod without its overhead; 0 = no container has one."""
        return self.amounts.cpu_limit_mcpu or pod_sum(self, lambda c: c.cpu_limit_mcpu)

    @property
    def memory_request_bytes(self) -> int:
        """The memory request of the pod without its overhead, after the API's defaulting."""
        asked = pod_sum(self, lambda c: c.effective_memory_request_bytes)
        return self.amounts.memory_request_bytes or asked or self.amounts.memory_limit_bytes

    @property
    def memory_limit_bytes(self) -> int:
        """The memory limit of the pod without its overhead; 0 = no container has one."""
        return self.amounts.memory_limit_bytes or pod_sum(self, lambda c: c.memory_limit_bytes)


@dataclass(frozen=True, slots=True)
class KubeletNode:
    """A kubelet's knowledge of its node.

    ``cgroup_root`` is the kubelet's option of that name ('' = '/'); ``systemd_cgroups`` is its cgroupDriver.
    ``has_cgroup2``: the node has cgroup v2; ``has_swap``: the kernel counts swap by cgroup.
    """

    memory_capacity_bytes: int
    log_directory: str = "/var/log/pods"
    cgroup_root: str = ""
    image: str = IMAGE
    systemd_cgroups: bool = False
    has_cgroup2: bool = False
    has_swap: bool = False
    huge_page_sizes: tuple[str, ...] = ("2MB", "1GB")


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


def cpu_quota(limit_mcpu: int) -> int:
    """Return the quota in us per period of a limit, at least 1 ms; 0 = unlimited.

    >>> cpu_quota(0), cpu_quota(2500), cpu_quota(1)
    (0, 250000, 1000)
    """
    return quota_of(limit_mcpu) if limit_mcpu else 0


def oom_score_adj(qos: QosClass, memory_request_bytes: int, capacity_bytes: int) -> int:
    """Return the kubelet's score: the less of the node a Burstable container requests, the sooner it is killed.

    >>> oom_score_adj(QosClass.BURSTABLE, 1 << 30, 4 << 30)
    750
    """
    if qos is QosClass.GUARANTEED:
        return -997
    if qos is QosClass.BEST_EFFORT:
        return 1000
    return burstable_oom_score_adj(memory_request_bytes, max(capacity_bytes, 1))


def container_score(pod: PodSpec, container: ContainerSpec, capacity_bytes: int) -> int:
    """Return a container's oom_score_adj; a sidecar of a Burstable pod is not killed before a regular container."""
    left = _unrequested_bytes(pod)
    score = oom_score_adj(pod.qos, container.effective_memory_request_bytes + left, capacity_bytes)
    if container.role is not ContainerRole.SIDECAR or pod.qos is not QosClass.BURSTABLE:
        return score
    others = [c.effective_memory_request_bytes for c in pod.containers if c.role is ContainerRole.REGULAR]
    return min(score, oom_score_adj(pod.qos, min(others, default=0) + left, capacity_bytes))


def _unrequested_bytes(pod: PodSpec) -> int:
    """Return each container's part of the pod's memory request that no container has (KEP-2837, OOM score)."""
    if not pod.amounts.are_given:
        return 0
    lasting = [c for c in pod.containers if c.role in (ContainerRole.REGULAR, ContainerRole.SIDECAR)]
    left = pod.memory_request_bytes - sum(c.effective_memory_request_bytes for c in lasting)
    return max(0, left) // max(1, len(lasting))


def resources(pod: PodSpec, container: ContainerSpec, node: KubeletNode) -> pb.LinuxContainerResources:
    """Return the resources of one container, without a cpuset: a kubelet without CPU manager sets none.

    A limit that it lacks is the pod's, and a request that it lacks is its limit, wherever that is from (KEP-2837).
    """
    limit_mcpu = container.cpu_limit_mcpu or pod.amounts.cpu_limit_mcpu
    request_mcpu = container.effective_cpu_request_mcpu or limit_mcpu
    limit_bytes = container.memory_limit_bytes or pod.amounts.memory_limit_bytes
    found = linux_resources(request_mcpu, limit_mcpu, limit_bytes, node)
    found.oom_score_adj = container_score(pod, container, node.memory_capacity_bytes)
    for size, limit in (dict.fromkeys(node.huge_page_sizes, 0) | dict(container.huge_pages)).items():
        found.hugepage_limits.add(page_size=size, limit=limit)
    if node.has_swap and node.has_cgroup2:
        found.unified["memory.swap.max"] = "0"
    elif node.has_swap:
        found.memory_swap_limit_in_bytes = found.memory_limit_in_bytes
    return found


def linux_resources(
    request_mcpu: int, limit_mcpu: int, limit_bytes: int, node: KubeletNode
) -> pb.LinuxContainerResources:
    """Return these amounts as the kubelet words them, of a container and of a pod alike."""
    return pb.LinuxContainerResources(
        cpu_period=DEFAULT_PERIOD_US,
        cpu_quota=cpu_quota(limit_mcpu),
        cpu_shares=shares_of(request_mcpu),
        memory_limit_in_bytes=limit_bytes,
        unified={"memory.oom.group": "1"} if node.has_cgroup2 else {},
    )


def sandbox_config(pod: PodSpec, node: KubeletNode) -> pb.PodSandboxConfig:
    """Return the sandbox; in the host's network namespace by default, so that no CNI plugin is needed."""
    return pb.PodSandboxConfig(
        metadata=pb.PodSandboxMetadata(name=pod.name, uid=pod.pod_uid, namespace=pod.namespace),
        hostname="" if pod.host_network else pod.name,
        log_directory=node.log_directory and f"{node.log_directory}/{pod.namespace}_{pod.name}_{pod.pod_uid}",
        dns_config=_dns_config(pod),
        labels={**dict(pod.labels), **_pod_labels(pod)},
        annotations={**dict(pod.annotations), "kubernetes.io/config.seen": SEEN, "kubernetes.io/config.source": "api"},
        linux=pb.LinuxPodSandboxConfig(
            cgroup_parent=cgroup_parent(pod, node),
            security_context=pb.LinuxSandboxSecurityContext(
                namespace_options=_namespaces(pod), seccomp=_seccomp(pb.SecurityProfile.RuntimeDefault)
            ),
            overhead=_overhead(pod, node),
            resources=linux_resources(pod.cpu_request_mcpu, pod.cpu_limit_mcpu, pod.memory_limit_bytes, node),
        ),
    )


def create_request(
    pod: PodSpec, container: ContainerSpec, sandbox_id: str, *, node: KubeletNode, attempt: int = 0
) -> pb.CreateContainerRequest:
    """Return the CreateContainer request of one container in a running sandbox."""
    config = pb.ContainerConfig(
        metadata=pb.ContainerMetadata(name=container.name, attempt=attempt),
        image=pb.ImageSpec(image=node.image, user_specified_image=node.image),
        command=container.command,
        envs=[
            pb.KeyValue(key="KUBERNETES_SERVICE_HOST", value=b"10.96.0.1"),
            pb.KeyValue(key="KUBERNETES_SERVICE_PORT", value=b"443"),
        ],
        labels={**_pod_labels(pod), "io.kubernetes.container.name": container.name},
        annotations={
            "io.kubernetes.container.hash": f"{zlib.crc32(repr(container).encode()):x}",
            "io.kubernetes.container.restartCount": str(attempt),
            "io.kubernetes.container.terminationMessagePath": "/dev/termination-log",
            "io.kubernetes.container.terminationMessagePolicy": "File",
            "io.kubernetes.pod.terminationGracePeriod": str(GRACE_SECONDS),
        },
        log_path=f"{container.name}/{attempt}.log",
        linux=pb.LinuxContainerConfig(
            resources=resources(pod, container, node),
            security_context=pb.LinuxContainerSecurityContext(
                namespace_options=_namespaces(pod),
                run_as_user=pb.Int64Value(value=0),
                seccomp=_seccomp(pb.SecurityProfile.Unconfined),
                masked_paths=MASKED_PATHS,
                readonly_paths=READONLY_PATHS,
            ),
        ),
    )
    return pb.CreateContainerRequest(pod_sandbox_id=sandbox_id, config=config, sandbox_config=sandbox_config(pod, node))


def pod_sum(pod: PodSpec, amount: Callable[[ContainerSpec], int]) -> int:
    """Return an amount of the pod without its overhead; 0 where no container has one.

    That is the sum over regular containers and sidecars, or what an init container takes beside the sidecars before
    it, if that is more (KEP-753, "Resources calculation for scheduling and pod admission").
    """
    total = sum(amount(c) for c in pod.containers if c.role in (ContainerRole.REGULAR, ContainerRole.SIDECAR))
    sidecars = 0
    for container in pod.containers:
        if container.role is ContainerRole.SIDECAR:
            sidecars += amount(container)
        elif container.role is ContainerRole.INIT:
            total = max(total, sidecars + amount(container))
    return total


def _overhead(pod: PodSpec, node: KubeletNode) -> pb.LinuxContainerResources:
    """Return the overhead as request and limit alike; a message without fields where there is none."""
    if not (pod.overhead_mcpu or pod.overhead_bytes):
        return pb.LinuxContainerResources()
    return linux_resources(pod.overhead_mcpu, pod.overhead_mcpu, pod.overhead_bytes, node)


def _namespaces(pod: PodSpec) -> pb.NamespaceOption:
    return pb.NamespaceOption(network=pb.NODE if pod.host_network else pb.POD, pid=pb.CONTAINER, ipc=pb.POD)


def _seccomp(kind: pb.SecurityProfile.ProfileType) -> pb.SecurityProfile:
    return pb.SecurityProfile(profile_type=kind)


def _dns_config(pod: PodSpec) -> pb.DNSConfig:
    """Return the DNS configuration of a cluster (dnsPolicy: ClusterFirst, ClusterFirstWithHostNet)."""
    searches = (f"{pod.namespace}.svc.cluster.local", "svc.cluster.local", "cluster.local")
    return pb.DNSConfig(servers=["10.96.0.10"], searches=searches, options=["ndots:5"])


def _pod_labels(pod: PodSpec) -> dict[str, str]:
    return {
        "io.kubernetes.pod.name": pod.name,
        "io.kubernetes.pod.namespace": pod.namespace,
        "io.kubernetes.pod.uid": pod.pod_uid,
    }
