"""``HostFacts``: what was seen of a node, as frozen values. The rules judge these and look at nothing else. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from cri_proxy.kubelet.distributions import PLAIN, KubernetesDistribution
from cri_proxy.kubelet.edits import UNNAMED, Edit, edit_at
from cri_proxy.kubelet.reservation import NodeCpus
from cri_proxy.kubelet.settings import CONFIG, KubeletFile, KubeletSettings
from cri_proxy.kubelet.unit import KubeletUnit
from cri_proxy.node.drift.kubelet_state import KubeletManagers
from cri_proxy.unix_socket import socket_path
from sysfs.cpuset import CpuSet, NodeSet

_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})")
Inode = tuple[int, int]
"""The device and number of a file's inode."""


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """A process. ``sockets`` are the inodes of its sockets, None where they may not be seen.

    ``is_contained``: it is a container's, and its ``words`` are not read.
    """

    pid: int
    name: str
    words: tuple[str, ...] = ()
    started_seconds: float = 0.0  # since the epoch
    sockets: frozenset[int] | None = None
    is_contained: bool = False

    def __str__(self) -> str:
        return f"{self.name}, process {self.pid}"


@dataclass(frozen=True, slots=True)
class UnixSocket:
    """A Unix stream socket of the kernel. An accepted one has the ``path`` and ``file`` of the one that listens.

    ``inode`` is the socket's own, ``peer`` that of the socket it is connected to, 0 for none. ``path`` is the name that
    it was bound to, '' for none; ``file`` is the file of that name, None for none. ``waiting`` are the clients of one
    that listens which are not accepted yet: until then they have no peer.
    """

    inode: int
    peer: int = 0
    path: str = ""
    file: Inode | None = None
    is_listening: bool = False
    waiting: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class KubeletFacts:
    """The kubelet: ``now`` is what its process uses by its own command line, ``next`` what its next start will use.

    ``process`` is None where none runs. ``files`` are those that its process reads. ``is_client``: it is connected to
    cri-proxy; None where its connections cannot be seen, or no process runs. ``others`` are paths of other sockets that
    it is connected to. ``instance`` is kubeadm's configuration of this node alone. ``version`` is that of the program
    that the next start runs, '' when unknown. ``distribution`` says where settings last.
    """

    process: ProcessFacts | None = None
    now: KubeletSettings = KubeletSettings()  # noqa: RUF009 - frozen
    files: tuple[KubeletFile, ...] = ()
    is_client: bool | None = None
    others: tuple[str, ...] = ()
    next: KubeletSettings = KubeletSettings()  # noqa: RUF009 - frozen
    unit: KubeletUnit = KubeletUnit()  # noqa: RUF009 - frozen
    instance: KubeletSettings | None = None
    is_of_kubeadm: bool = False
    managers: KubeletManagers = KubeletManagers()  # noqa: RUF009 - frozen
    version: str = ""
    distribution: KubernetesDistribution = PLAIN

    def edit(self, key: str, value: str | None) -> Edit:
        """Return the edit of a key where the next start takes it from, in a place that lasts."""
        where = self.next.get(key).where or self.next.get(CONFIG).value or UNNAMED
        return self.distribution.lasting(edit_at(where, key, value))

    def lasting(self, edits: Iterable[Edit]) -> tuple[Edit, ...]:
        """Return these edits in places that last."""
        return tuple(dict.fromkeys(map(self.distribution.lasting, edits)))

    @property
    def minor(self) -> tuple[int, int] | None:
        """Return the version as numbers; None when unknown.

        >>> KubeletFacts(version="1.36.3").minor
        (1, 36)
        """
        return major_and_minor(self.version)


@dataclass(frozen=True, slots=True)
class ProxyFacts:
    """cri-proxy itself. ``processes`` are its daemons; ``holders`` the processes behind the socket file, None: unseen.

    ``silence`` is why a call through the socket gets no answer, '' when it gets one. ``is_running``: the daemon answers
    commands, else ``unreachable`` is why not, and ``unusable`` why its configuration is not valid. ``problems`` are why
    it is not ready, ``cost_problems`` of its cost files, ``cdi_problems`` of CDI devices, ``health_problem`` why the
    health of devices cannot be read; ``cdi`` is how containers get CDI devices, '' when unknown. ``disagreements`` are
    those of sources of devices, ``held_twice`` devices with several holders. ``shows_gpus``: containers without a GPU
    may see NVIDIA's. ``node_name``: '' when unknown. ``is_enabled``: a boot starts it; None where systemd has no such
    unit.
    """

    listen: str = ""
    silence: str = ""
    is_running: bool = False
    unreachable: str = ""
    problems: tuple[str, ...] = ()
    node_name: str = ""
    processes: tuple[ProcessFacts, ...] = ()
    holders: tuple[ProcessFacts, ...] | None = None
    is_enabled: bool | None = None
    unusable: str = ""
    cost_problems: tuple[str, ...] = ()
    disagreements: tuple[str, ...] = ()
    held_twice: tuple[str, ...] = ()
    shows_gpus: bool = False
    health_problem: str = ""
    cdi: str = ""
    cdi_problems: tuple[str, ...] = ()

    @property
    def endpoint(self) -> str:
        """Return the endpoint that the kubelet needs."""
        return f"unix://{self.listen}"

    def is_named_by(self, endpoint: str) -> bool:
        """Return whether this endpoint is ours, however it is written."""
        return str(socket_path(endpoint)).replace("/var/run/", "/run/") == self.listen.replace("/var/run/", "/run/")


@dataclass(frozen=True, slots=True)
class Access:
    """A file or directory that only root may change; ``problem`` is why others could, with the remedy. '' = fine."""

    path: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class RuntimeFacts:
    """The runtime behind the proxy, and runc as its configuration has it.

    ``silence`` is why its socket takes no connection, '' when it does. ``config`` is the file that was read, '' for
    none. ``is_systemd``: containers get systemd scopes; None where unknown. ``runc``: its version, '' if unknown.
    ``affinity`` are the CPUs to which systemd keeps it, None for all, and ``affinity_file`` says so.
    """

    socket: str = ""
    silence: str = ""
    config: str = ""
    is_systemd: bool | None = None
    runc: str = ""
    affinity: CpuSet | None = None
    affinity_file: str = ""


@dataclass(frozen=True, slots=True)
class CgroupFacts:
    """The cgroup hierarchy: version 0 where there is none to be seen."""

    version: int = 0
    has_cpuset: bool = False


@dataclass(frozen=True, slots=True)
class NriFacts:
    """Plugins of the Node Resource Interface: processes connected to its socket, and files that containerd starts."""

    clients: tuple[ProcessFacts, ...] = ()
    installed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClaimFacts:
    """CPUs that other allocators choose: ``is_honoured`` as configured, ``files`` of CDI that say which these are."""

    is_honoured: bool = True
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HardwareFacts:
    """The machine as the kubelet counts it: NUMA nodes, packages, memory; empty and 0 where unknown."""

    nodes: NodeSet = NodeSet()
    packages: int = 0
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class HostFacts:
    """Everything that was seen.

    ``no_cpus`` is why ``cpus`` are unknown, '' where they are known; ``no_connections`` is why it is unknown to whom
    the running kubelet is connected. ``kernel`` is the version of Linux, None when unknown; ``kubevirt`` the socket of
    KubeVirt's device plugin, '' for none.
    """

    proxy: ProxyFacts
    kubelet: KubeletFacts = KubeletFacts()
    runtime: RuntimeFacts = RuntimeFacts()
    cgroups: CgroupFacts = CgroupFacts()
    nri: NriFacts = NriFacts()
    cpus: NodeCpus | None = None
    hardware: HardwareFacts = HardwareFacts()
    processes: tuple[ProcessFacts, ...] = ()
    claims: ClaimFacts = ClaimFacts()
    access: tuple[Access, ...] = ()
    host_name: str = ""
    no_cpus: str = ""
    no_connections: str = ""
    kernel: tuple[int, int] | None = None
    kubevirt: str = ""


def major_and_minor(version: str) -> tuple[int, int] | None:
    """Return the first two numbers of a version; None where it does not begin with them."""
    match = _VERSION.match(version)
    return (int(match[1]), int(match[2])) if match else None


def listed(words: Iterable[object]) -> str:
    """Return words as a list in a sentence.

    >>> listed([1, 2, 3])
    '1, 2 and 3'
    """
    *first, last = [*map(str, words)] or [""]
    return f"{', '.join(first)} and {last}" if first else last
