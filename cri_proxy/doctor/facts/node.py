"""``look_at_node``: gather the facts of the node below a root. Reads only, changes nothing."""

import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from cri_proxy.cri.claim import VARIABLE_PREFIX
from cri_proxy.device_files.cdi import CdiFiles
from cri_proxy.doctor.facts import model
from cri_proxy.doctor.facts import processes as process_list
from cri_proxy.doctor.facts.proxy import ask_daemon, is_enabled, node_cpus, read_access, refusal_of, silence_of
from cri_proxy.doctor.facts.runtime import program_version, read_affinity, read_containerd
from cri_proxy.doctor.facts.unix_sockets import client_pids, file_inode, list_unix_sockets, parse_socket_table
from cri_proxy.errors import ConfigError
from cri_proxy.kubelet.distribution_files import distribution_of, distribution_words
from cri_proxy.kubelet.distributions import KubernetesDistribution
from cri_proxy.kubelet.files import ASSUMED, configuration_files, read_file, read_settings
from cri_proxy.kubelet.reservation import NodeCpus
from cri_proxy.kubelet.settings import ROOT_DIRECTORY, Word, merge_settings
from cri_proxy.kubelet.unit import KUBEADM_FLAGS, KUBEADM_INSTANCE, read_unit
from cri_proxy.node.drift.kubelet_state import read_managers
from cri_proxy.unix_socket import socket_path
from sysfs.errors import SysfsBaseError

NRI_SOCKET: Final = "var/run/nri/nri.sock"
NRI_PLUGINS: Final = "opt/nri/plugins"
_SOCKET_TABLE: Final = Path("/proc/net/unix")
_EMBEDDED_RUNTIME: Final = "embedded"


@dataclass(frozen=True, slots=True)
class Places:
    """Where to look: the system's ``root``, the daemon's admin socket, its configuration, its socket ('': theirs)."""

    root: Path
    admin: Path
    config: Path
    listen: str = ""


@dataclass(frozen=True, slots=True)
class Connections:
    """The kernel's sockets, and the processes that hold them; ``unseen``: why they are not known, '' where they are.

    ``is_partial``: only clients of our daemons are known, and no files.
    """

    sockets: tuple[model.UnixSocket, ...]
    processes: tuple[model.ProcessFacts, ...]
    unseen: str = ""
    is_partial: bool = False

    def owners(self, inodes: Iterable[int]) -> tuple[model.ProcessFacts, ...]:
        """Return the processes that hold one of these sockets."""
        wanted = frozenset(inodes)
        return tuple(process for process in self.processes if process.sockets and process.sockets & wanted)

    def peers(self, process: model.ProcessFacts) -> tuple[model.UnixSocket, ...]:
        """Return the other ends of a process's sockets; of one that is not accepted yet, the one that listens."""
        held = process.sockets or frozenset()
        by_inode = {each.inode: each for each in self.sockets}
        # The kernel knows a client that waits for accept(2) by the listening socket alone: where the daemon stands
        # still, the kubelet would count as not connected, and a removal be let pass.
        there = (by_inode[each.peer] for each in self.sockets if each.inode in held and each.peer in by_inode)
        return (*there, *(each for each in self.sockets if not held.isdisjoint(each.waiting)))


def look_at_node(places: Places) -> model.HostFacts:
    """Return the facts of the node. Blocks, for some seconds where sockets do not answer."""
    root = places.root
    answers = ask_daemon(root, places.admin, places.config)
    config = answers.config
    listen = str(socket_path(places.listen or config.listen))
    processes = process_list.list_processes(root)
    connections = connections_of(root, processes, list_unix_sockets)
    daemons = _daemons(connections, root / listen.lstrip("/"), root, config.runtime_endpoint)
    kubelet = _kubelet(root, connections, file_inode(root / listen.lstrip("/")), daemons)
    proxy = replace(
        answers.proxy,
        listen=listen,
        silence=silence_of(root / listen.lstrip("/")),
        node_name=answers.proxy.node_name or config.node_name,
        processes=daemons,
        holders=_holders(connections, root / listen.lstrip("/")),
        is_enabled=is_enabled(root, kubelet.unit.files),
    )
    try:
        found: tuple[NodeCpus | None, model.HardwareFacts] = node_cpus(root, config)
        no_cpus = ""
    except (ConfigError, SysfsBaseError) as error:
        found, no_cpus = (None, model.HardwareFacts()), str(error)
    return model.HostFacts(
        proxy,
        kubelet,
        runtime=_runtime(root, config.runtime_endpoint, processes, kubelet.distribution),
        cgroups=_cgroups(root),
        nri=_nri(root, connections),
        cpus=found[0],
        hardware=found[1],
        processes=processes,
        claims=model.ClaimFacts(config.claims == "honour", CdiFiles(root).with_variables(VARIABLE_PREFIX)),
        access=tuple(read_access(root, config, answers.config_file)),
        host_name=_host_name(root),
        no_cpus=no_cpus,
        no_connections=_no_connections(kubelet, connections),
        kernel=_kernel(root),
        kubevirt=_kubevirt(root, kubelet),
    )


def connections_of(
    root: Path, processes: tuple[model.ProcessFacts, ...], list_sockets: Callable[[], tuple[model.UnixSocket, ...]]
) -> Connections:
    """Return the sockets with their processes; of a kernel without unix_diag those of our daemons' clients alone."""
    try:
        return Connections(list_sockets(), processes)
    except OSError as missing:
        try:
            return _of_our_clients(root, processes)
        except OSError as error:
            return Connections(
                (),
                processes,
                f"the kernel's module unix_diag does not answer ({missing.strerror or missing}), load it with "
                f"`modprobe unix_diag`; and sockets of the daemon cannot be borrowed ({error.strerror or error})",
            )


def _of_our_clients(root: Path, processes: tuple[model.ProcessFacts, ...]) -> Connections:
    """Return our daemons' accepted sockets with the processes of their clients, whose own sockets get numbers < 0."""
    table = {each.inode: each for each in parse_socket_table(_SOCKET_TABLE.read_text(errors="replace"))}
    found, ends = dict(table), dict[int, set[int]]()
    for daemon in filter(process_list.is_proxy, processes):
        files = process_list.socket_files(root / "proc" / str(daemon.pid))
        accepted = {inode: fd for inode, fd in files.items() if inode in table and not table[inode].is_listening}
        for inode, pid in client_pids(daemon.pid, accepted).items():
            found[-inode] = model.UnixSocket(-inode, inode)
            found[inode] = replace(table[inode], peer=-inode)
            ends.setdefault(pid, set()).add(-inode)
    named = (
        replace(each, sockets=each.sockets | ends.get(each.pid, set())) if each.sockets is not None else each
        for each in processes
    )
    return Connections(tuple(found.values()), tuple(named), is_partial=True)


def _daemons(connections: Connections, listen: Path, root: Path, runtime: str) -> tuple[model.ProcessFacts, ...]:
    """Return the daemons that serve this socket or this runtime: others on the machine have a runtime of their own.

    Where connections are not seen, all of them.
    """
    found = tuple(process for process in connections.processes if process_list.is_proxy(process))
    files = {file_inode(listen), file_inode(root / str(socket_path(runtime)).lstrip("/"))} - {None}
    held = {each.inode for each in connections.sockets if each.is_listening and each.file in files}
    return tuple(
        process
        for process in found
        if process.sockets is None
        or connections.unseen
        or connections.is_partial
        or process.sockets & held
        or any(peer.file in files for peer in connections.peers(process))
    )


def _holders(connections: Connections, path: Path) -> tuple[model.ProcessFacts, ...] | None:
    """Return the processes that listen at this path, () for none; None where that cannot be seen."""
    inode = file_inode(path)
    listening = [each.inode for each in connections.sockets if each.is_listening and each.file == inode]
    if connections.unseen or connections.is_partial or inode is None:
        return None
    return connections.owners(listening) or (() if not listening else None)


def _kubelet(
    root: Path, connections: Connections, listen: tuple[int, int] | None, daemons: Sequence[model.ProcessFacts]
) -> model.KubeletFacts:
    """Return the kubelet's facts: its process, and what its files say of its next start."""
    process = _kubelet_process(connections.processes)
    unit = read_unit(root)
    is_of_kubeadm = any((root / path.lstrip("/")).exists() for path in (KUBEADM_FLAGS, KUBEADM_INSTANCE))
    distribution = distribution_of(root)
    own_words = distribution_words(root, distribution)
    now_words: Sequence[Word] = [Word(word, f"process {process.pid}") for word in process.words] if process else []
    if process and process_list.is_embedded(process):  # its words are those of the program around it
        now_words = own_words
    now_files = configuration_files(root, now_words)
    # A kubelet that something else than kubelet.service starts is started again with the words that it has.
    is_known = bool(unit.files) or any(variable.where != ASSUMED for variable in unit.variables)
    next_words = own_words or (unit.words if is_known or process is None else now_words)
    now, coming = merge_settings(now_words, now_files), read_settings(root, next_words)
    is_client, others = _clients(connections, process, listen, daemons)
    instance = read_file(root, KUBEADM_INSTANCE)
    directory = (now if process else coming).get(ROOT_DIRECTORY).value
    return model.KubeletFacts(
        process,
        now=now,
        files=now_files,
        is_client=is_client,
        others=others,
        next=coming,
        unit=unit,
        instance=merge_settings((), [instance]) if instance else None,
        is_of_kubeadm=is_of_kubeadm,
        managers=read_managers(root / directory.lstrip("/")),
        version=program_version(root, unit.words[0].text if unit.words else process_list.KUBELET),
        distribution=distribution,
    )


def _kubelet_process(processes: Iterable[model.ProcessFacts]) -> model.ProcessFacts | None:
    """Return the kubelet's process: one of its own before a program that holds it, the oldest first."""
    found = [process for process in processes if process_list.is_kubelet(process)]
    return min(found, key=lambda p: (process_list.is_embedded(p), p.started_seconds, p.pid), default=None)


def _clients(
    connections: Connections,
    process: model.ProcessFacts | None,
    listen: tuple[int, int] | None,
    daemons: Sequence[model.ProcessFacts],
) -> tuple[bool | None, tuple[str, ...]]:
    """Return whether the process is connected to the proxy, and the paths of its other peers."""
    if process is None or process.sockets is None or connections.unseen:
        return None, ()
    # By the socket's file, and by who is at the other end: a restarted proxy has a new file.
    ours = frozenset[int]().union(*(daemon.sockets or () for daemon in daemons))
    peers = connections.peers(process)
    is_client = any((each.file is not None and each.file == listen) or each.inode in ours for each in peers)
    return is_client, tuple(sorted({each.path for each in peers if each.path and each.inode not in ours}))


def _runtime(
    root: Path, endpoint: str, processes: tuple[model.ProcessFacts, ...], distribution: KubernetesDistribution
) -> model.RuntimeFacts:
    if endpoint == _EMBEDDED_RUNTIME:
        return model.RuntimeFacts()
    path = str(socket_path(endpoint))
    found = read_containerd(root, processes, distribution.containerd)
    affinity, affinity_file = read_affinity(root, distribution.units)
    return replace(
        found,
        socket=path,
        silence=refusal_of(root / path.lstrip("/")),
        runc=program_version(root, found.runc or "runc"),
        affinity=affinity,
        affinity_file=affinity_file,
    )


def _cgroups(root: Path) -> model.CgroupFacts:
    mount = root / "sys/fs/cgroup"
    controllers = read_file(mount, "cgroup.controllers")
    if controllers is not None:
        return model.CgroupFacts(2, "cpuset" in (controllers.text or "").split())
    if mount.is_dir() and any(mount.iterdir()):
        return model.CgroupFacts(1, any((mount / name).is_dir() for name in ("cpuset", "cpuset,cpu")))
    return model.CgroupFacts()


def _nri(root: Path, connections: Connections) -> model.NriFacts:
    file = file_inode(root / NRI_SOCKET)
    accepted = [each.peer for each in connections.sockets if each.peer and each.file is not None and each.file == file]
    directory = root / NRI_PLUGINS
    installed = sorted(f"/{NRI_PLUGINS}/{path.name}" for path in directory.glob("*"))
    return model.NriFacts(connections.owners(accepted), tuple(installed))


def _host_name(root: Path) -> str:
    """Return the name that a kubelet without ``--hostname-override`` gives its node."""
    name = read_file(root, "/etc/hostname") if root != Path("/") else None
    return (name.text or "" if name else socket.gethostname()).strip().lower()


def _kernel(root: Path) -> tuple[int, int] | None:
    file = read_file(root, "/proc/sys/kernel/osrelease")
    return model.major_and_minor(file.text or "") if file else None


def _kubevirt(root: Path, kubelet: model.KubeletFacts) -> str:
    """Return the socket with which KubeVirt's device plugin is registered, '' for none."""
    path = f"{kubelet.next.get(ROOT_DIRECTORY).value}/device-plugins/kubevirt-kvm.sock"
    return path if (root / path.lstrip("/")).exists() else ""


def _no_connections(kubelet: model.KubeletFacts, connections: Connections) -> str:
    if kubelet.process is None or kubelet.is_client is not None:
        return ""
    return connections.unseen or f"the file descriptors of {kubelet.process} may not be read"
