"""``Finding``, and every code of one with severity and meaning, in the order in which to act (``make docs``). Pure."""

from dataclasses import dataclass
from enum import Enum, StrEnum

from cri_proxy.kubelet.edits import Edit


class Severity(StrEnum):
    """``must``: containers are not pinned, or the node is in danger, until it is mended. ``note``: nothing to do."""

    MUST = "must"
    SHOULD = "should"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to change or to know: a code, a sentence that names the thing and its value, what to do about it.

    ``edits`` are the changes of the kubelet's files that the remedy names, for programs.
    """

    code: str
    severity: Severity
    text: str
    remedy: str = ""
    edits: tuple[Edit, ...] = ()


_M, _S, _N = Severity.MUST, Severity.SHOULD, Severity.NOTE


class FindingCode(Enum):
    """A row for each code, in the order in which to act: its severity, and what it means that it is found."""

    UNSUPPORTED = _M, "The distribution leaves no place between the kubelet and the runtime"
    RUNTIME_ELSEWHERE = _M, "The distribution's own containerd has another socket than runtimeEndpoint names"
    RUNTIME_SOCKET = _M, "Nothing listens on the runtime's socket"
    CONFIG_INVALID = _M, "The daemon does not run, and its configuration is not valid"
    PROXY_STOPPED = _M, "Nothing listens on cri-proxy's socket"
    PROXY_SILENT = _M, "A call through cri-proxy's socket gets no answer of the runtime"
    SOCKET_OWNER = _M, "A process that is not cri-proxy listens on its socket"
    SECOND_PROXY = _M, "Several daemons of cri-proxy run, which undo each other's pinning"
    PROXY_NOT_READY = _M, "The daemon is not ready"
    PROXY_DISABLED = _M, "A boot starts the kubelet and not cri-proxy"
    OPEN_ACCESS = _M, "Others than root can use a socket, or write the state or configuration"
    NO_CPUSET = _M, "The kernel's cgroups have no cpuset controller"
    CPUSET_WRITER = _M, "Another program that writes the cpusets of containers runs"
    NRI_PLUGIN = _M, "An NRI plugin that writes cpusets is installed: containerd starts it"
    KUBELET_FILE = _M, "The kubelet cannot read a file of its configuration"
    CPU_MANAGER = _M, "The kubelet's CPU manager pins containers too"
    MEMORY_MANAGER = _M, "The kubelet's memory manager pins containers too"
    ENDPOINT_HIDDEN = _M, "An environment file takes the effect from the unit's drop-in"
    ENDPOINT = _M, "The kubelet's next start uses another endpoint than cri-proxy's"
    MANAGER_STATE = _M, "A manager's state file, of a former policy or damaged, keeps the kubelet from starting"
    KUBELET_REFUSES = (
        _M,
        "The kubelet's next start ends with an error: values that exclude each other, or that it lacks",
    )
    KUBELET_ELSEWHERE = _M, "The running kubelet is not connected to cri-proxy"
    KUBEADM_ENDPOINT = _M, "`kubeadm upgrade` puts another endpoint back"
    USES_PROXY = _M, "The kubelet depends on cri-proxy (`--before-removal` only)"
    KUBELET_CHANGED = _S, "A file changed after the kubelet started: it may use other values"
    COST_FILE = _S, "A cost file or the inventory cannot be used: its devices are as before, or not allocated"
    DEVICES_DISAGREE = (
        _S,
        "Two sources of devices state differently what or where one is: containers may be far from it",
    )
    DEVICE_HELD_TWICE = _S, "Several containers hold a device that they should not share"
    DEVICE_HEALTH = _S, "The health of devices cannot be read: one that has failed since may be given to a container"
    VISIBLE_GPUS = _S, "Containers without a GPU may see those of others by their own NVIDIA_VISIBLE_DEVICES"
    CDI = _S, "The runtime does not add CDI devices that it is asked for"
    CLAIMS_IGNORED = _S, "Another program chooses CPUs for containers, and cri-proxy lets others use them as well"
    RESERVATION = _S, "The kubelet offers pods more CPU than containers can be granted"
    NODE_NAME = _S, "The daemon and the kubelet have different names for the node"
    CGROUP_DRIVER = _S, "The kubelet and containerd use different cgroup drivers"
    CPU_AFFINITY = _S, "Containers inherit the runtime's CPU affinity, and run on a part of their CPUs only"
    KUBEVIRT = _S, "KubeVirt places no VM with dedicated CPUs on a node without the kubelet's static CPU manager"
    OLD_RUNC = _S, "runc before 1.1.6 makes systemd rewrite cpusets at a daemon-reload"
    ISOLATED_UNUSED = _S, "Isolated CPUs that no container can get"
    ISOLATED_RESERVED = _S, "Reserved CPUs that the kernel isolates"
    NO_UNIT = _S, "systemd has no unit of cri-proxy"
    KUBELET_STOPPED = _N, "No kubelet runs: its settings are those of its next start"
    KUBELET_EMBEDDED = _N, "The kubelet is part of another program, whose settings are unknown"
    OVERRIDE = _N, "A stronger place overrides a value of the kubelet's configuration file"
    TOPOLOGY_MANAGER = _N, "The kubelet's Topology Manager aligns devices only"
    RESERVATION_UNUSED = _N, "The kubelet offers pods less CPU than can be granted"
    NRI_UNKNOWN = _N, "An NRI plugin that cri-proxy does not know"
    OLD_CGROUPS = _N, "cgroup v1, which the kubelet refuses from 1.35 on"
    DISTRIBUTION = _N, "Where the node's distribution keeps the kubelet's settings"
    KUBEADM_ANNOTATION = _N, "An annotation of the node that cannot be seen from here"

    def __init__(self, severity: Severity, text: str) -> None:
        self.severity, self.text = severity, text

    def __str__(self) -> str:
        return self.name.lower().replace("_", "-")

    def finding(self, text: str, remedy: str = "", edits: tuple[Edit, ...] = ()) -> Finding:
        """Return a finding of this code."""
        return Finding(str(self), self.severity, text, remedy, edits)
