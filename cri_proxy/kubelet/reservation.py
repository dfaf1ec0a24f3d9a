"""Compare the CPU that the kubelet lets pods request with what can be granted; say which keys make both agree. Pure.

The kubelet's rule (Kubernetes, "Reserve Compute Resources for System Daemons"): allocatable = capacity - kubeReserved -
systemReserved, and the size of ``reservedSystemCPUs`` in place of both where it is set. Capacity counts every online
CPU, those too that the kernel isolates.
"""

from dataclasses import dataclass

from sysfs.cpuset import CpuSet

_KEY = "reservedSystemCPUs"


@dataclass(frozen=True, slots=True)
class KubeletReserve:
    """The CPU that a KubeletConfiguration keeps from pods. ``cpus`` takes the place of both amounts where it is set.

    ``has_cgroups``: it names a cgroup of system or kubelet, with which the kubelet takes no ``reservedSystemCPUs``.
    """

    cpus: CpuSet = CpuSet()  # reservedSystemCPUs
    system_mcpu: int = 0  # systemReserved.cpu
    kube_mcpu: int = 0  # kubeReserved.cpu
    has_cgroups: bool = False

    @property
    def mcpu(self) -> int:
        """How much is kept from pods in all."""
        return 1000 * len(self.cpus) if self.cpus else self.system_mcpu + self.kube_mcpu

    def __str__(self) -> str:
        if self.cpus:
            return f'{_KEY}: "{self.cpus}"'
        amounts = (("systemReserved", self.system_mcpu), ("kubeReserved", self.kube_mcpu))
        return " and ".join(f"{key}: {{cpu: {mcpu}m}}" for key, mcpu in amounts if mcpu) or "no CPU reserved"


@dataclass(frozen=True, slots=True)
class NodeCpus:
    """The node's CPUs as cri-proxy sees them. It grants those ``available`` and not ``reserved``.

    Of these, ``isolated`` ones are for containers that want an isolated CPU, and never shared. Those ``kept`` beside
    accelerators are shared by all, and owned by containers with devices alone.
    """

    online: CpuSet
    available: CpuSet
    reserved: CpuSet
    isolated: CpuSet
    kept: CpuSet = CpuSet()


@dataclass(frozen=True, slots=True)
class ReservationGap:
    """The kubelet lets pods request more, or less, CPU than cri-proxy can grant to any container.

    ``text`` states it, ``remedy`` names the keys; both are sentences without an end. ``key`` and ``value`` are what the
    remedy sets in the kubelet's configuration, '' for nothing.
    """

    allocatable_mcpu: int
    shared_mcpu: int  # can be granted to any container
    text: str
    remedy: str
    key: str = ""
    value: str = ""

    def __str__(self) -> str:
        return f"{self.text}: {self.remedy}"

    @property
    def excess_mcpu(self) -> int:
        """How much pods may request beyond what any container can be granted; negative: how much less."""
        return self.allocatable_mcpu - self.shared_mcpu


def reservation_gap(reserve: KubeletReserve, node: NodeCpus) -> ReservationGap | None:
    """Return how the two differ; None where they agree."""
    grantable = (node.available & node.online) - node.reserved
    isolated = grantable & node.isolated
    shared = grantable - isolated
    allocatable_mcpu = max(0, 1000 * len(node.online) - reserve.mcpu)
    if allocatable_mcpu == 1000 * len(shared):
        return None
    agreed, excess_mcpu = node.online - shared, allocatable_mcpu - 1000 * len(shared)
    key, value, why = _change(reserve, agreed, excess_mcpu)
    remedy = f"set {key}: {value} in the kubelet's configuration, {why}" if key else why
    if key and excess_mcpu < 0:
        remedy = f"{remedy}, or raise reservedResources.cpu here"
    elif key and isolated:
        remedy = f"{remedy}; leave {isolated} out where pods ask for isolated CPUs"
    text = _text(reserve, node, allocatable_mcpu, 1000 * len(shared))
    return ReservationGap(allocatable_mcpu, 1000 * len(shared), text, remedy, key, value.strip('"'))


def _change(reserve: KubeletReserve, agreed: CpuSet, excess_mcpu: int) -> tuple[str, str, str]:
    """Return the key to set, its value, and a remark; without a key where the kubelet's reservation is best kept.

    A reservation is never taken away: the node's own processes need the time, and a static CPU manager does not start
    without one.
    """
    if not agreed or (reserve.has_cgroups and excess_mcpu < 0):
        return "", "", "keep it for the node's own processes; reservedResources.cpu keeps CPUs for them here too"
    if not reserve.has_cgroups:
        return _KEY, f'"{agreed}"', "which replaces the cpu of its other reservations"
    why = f"as {_KEY} and the cgroups that it names for reserved resources exclude each other"
    return "kubeReserved.cpu", f"{1000 * len(agreed) - reserve.system_mcpu}m", why


def _text(reserve: KubeletReserve, node: NodeCpus, allocatable_mcpu: int, shared_mcpu: int) -> str:
    sets = (
        (node.online - node.available, "not available"),
        (node.available & node.reserved, "reserved"),
        ((node.available & node.isolated) - node.reserved, "isolated by the kernel"),
    )
    kept = ", ".join(f"{cpus} ({why})" for cpus, why in sets if cpus)
    ours = f"keeps CPUs {kept} from shared use" if kept else "keeps none from shared use"
    beside = f"; pods without devices own none of {len(node.kept)} beside accelerators" if node.kept else ""
    return (
        f"pods may request {allocatable_mcpu}m CPU (the kubelet has {reserve}), and cri-proxy can grant {shared_mcpu}m "
        f"to any container (it {ours}{beside})"
    )
