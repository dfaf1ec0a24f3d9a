"""``Finding``, and every code of one with severity and meaning, in the order in which to act (``make docs``). Pure."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Severity(StrEnum):
    """``must``: containers are not pinned, or the node is in danger, until it is mended. ``note``: nothing to do."""

    MUST = "must"
    SHOULD = "should"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class FindingCode:
    """A row: the name, and what it means that it is found."""

    name: str
    severity: Severity
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to change or to know: a code, a sentence that names the thing and its value, what to do about it."""

    code: str
    severity: Severity
    text: str
    remedy: str = ""


def finding(code: FindingCode, text: str, remedy: str = "") -> Finding:
    """Return a finding of this code."""
    return Finding(code.name, code.severity, text, remedy)


_M, _S, _N = Severity.MUST, Severity.SHOULD, Severity.NOTE

RUNTIME_SOCKET: Final = FindingCode("runtime-socket", _M, "Nothing listens on the runtime's socket")
CONFIG_INVALID: Final = FindingCode("config-invalid", _M, "The daemon does not run, and its configuration is not valid")
PROXY_STOPPED: Final = FindingCode("proxy-stopped", _M, "Nothing listens on cri-proxy's socket")
PROXY_SILENT: Final = FindingCode("proxy-silent", _M, "A call through cri-proxy's socket gets no answer of the runtime")
SOCKET_OWNER: Final = FindingCode("socket-owner", _M, "A process that is not cri-proxy listens on its socket")
SECOND_PROXY: Final = FindingCode(
    "second-proxy", _M, "Several daemons of cri-proxy run, which undo each other's pinning"
)
PROXY_NOT_READY: Final = FindingCode("proxy-not-ready", _M, "The daemon is not ready")
PROXY_DISABLED: Final = FindingCode("proxy-disabled", _M, "A boot starts the kubelet and not cri-proxy")
OPEN_ACCESS: Final = FindingCode(
    "open-access", _M, "Others than root can use a socket, or write the state or configuration"
)
NO_CPUSET: Final = FindingCode("no-cpuset", _M, "The kernel's cgroups have no cpuset controller")
CPUSET_WRITER: Final = FindingCode("cpuset-writer", _M, "Another program that writes the cpusets of containers runs")
NRI_PLUGIN: Final = FindingCode(
    "nri-plugin", _M, "An NRI plugin that writes cpusets is installed: containerd starts it"
)
KUBELET_FILE: Final = FindingCode("kubelet-file", _M, "The kubelet cannot read a file of its configuration")
CPU_MANAGER: Final = FindingCode("cpu-manager", _M, "The kubelet's CPU manager pins containers too")
MEMORY_MANAGER: Final = FindingCode("memory-manager", _M, "The kubelet's memory manager pins containers too")
ENDPOINT_HIDDEN: Final = FindingCode(
    "endpoint-hidden", _M, "An environment file takes the effect from the unit's drop-in"
)
ENDPOINT: Final = FindingCode("endpoint", _M, "The kubelet's next start uses another endpoint than cri-proxy's")
MANAGER_STATE: Final = FindingCode(
    "manager-state", _M, "A state file of a former manager keeps the kubelet from starting"
)
KUBELET_ELSEWHERE: Final = FindingCode("kubelet-elsewhere", _M, "The running kubelet is not connected to cri-proxy")
KUBEADM_ENDPOINT: Final = FindingCode("kubeadm-endpoint", _M, "`kubeadm upgrade` puts another endpoint back")
USES_PROXY: Final = FindingCode("uses-proxy", _M, "The kubelet depends on cri-proxy (`--before-removal` only)")
KUBELET_CHANGED: Final = FindingCode(
    "kubelet-changed", _S, "A file changed after the kubelet started: it may use other values"
)
COST_FILE: Final = FindingCode(
    "cost-file",
    _S,
    "A cost file or the inventory cannot be used: its devices are as before, or not allocated",
)
DEVICES_DISAGREE: Final = FindingCode(
    "devices-disagree",
    _S,
    "Two sources of devices state differently what or where one is: containers may be far from it",
)
CDI: Final = FindingCode("cdi", _S, "The runtime does not add CDI devices that it is asked for")
CLAIMS_IGNORED: Final = FindingCode(
    "claims-ignored", _S, "Another program chooses CPUs for containers, and cri-proxy lets others use them as well"
)
RESERVATION: Final = FindingCode("reservation", _S, "The kubelet offers pods more CPU than containers can be granted")
NODE_NAME: Final = FindingCode("node-name", _S, "The daemon and the kubelet have different names for the node")
CGROUP_DRIVER: Final = FindingCode("cgroup-driver", _S, "The kubelet and containerd use different cgroup drivers")
OLD_RUNC: Final = FindingCode("old-runc", _S, "runc before 1.1.6 makes systemd rewrite cpusets at a daemon-reload")
ISOLATED_UNUSED: Final = FindingCode("isolated-unused", _S, "Isolated CPUs that no container can get")
ISOLATED_RESERVED: Final = FindingCode("isolated-reserved", _S, "Reserved CPUs that the kernel isolates")
NO_UNIT: Final = FindingCode("no-unit", _S, "systemd has no unit of cri-proxy")
KUBELET_STOPPED: Final = FindingCode("kubelet-stopped", _N, "No kubelet runs: its settings are those of its next start")
KUBELET_EMBEDDED: Final = FindingCode(
    "kubelet-embedded", _N, "The kubelet is part of another program, whose settings are unknown"
)
OVERRIDE: Final = FindingCode("override", _N, "A stronger place overrides a value of the kubelet's configuration file")
TOPOLOGY_MANAGER: Final = FindingCode("topology-manager", _N, "The kubelet's Topology Manager aligns devices only")
RESERVATION_UNUSED: Final = FindingCode(
    "reservation-unused", _N, "The kubelet offers pods less CPU than can be granted"
)
NRI_UNKNOWN: Final = FindingCode("nri-unknown", _N, "An NRI plugin that cri-proxy does not know")
OLD_CGROUPS: Final = FindingCode("old-cgroups", _N, "cgroup v1, which the kubelet refuses from 1.35 on")
KUBEADM_ANNOTATION: Final = FindingCode(
    "kubeadm-annotation", _N, "An annotation of the node that cannot be seen from here"
)

CODES: Final[tuple[FindingCode, ...]] = tuple(
    value for value in tuple(globals().values()) if isinstance(value, FindingCode)
)
"""All of them, in the order in which to act."""
