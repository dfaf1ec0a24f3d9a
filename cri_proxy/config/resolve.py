"""Resolve a configuration's CPUs and memory kinds on a machine and its cgroups: policy options, machine, warnings."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cri_proxy.config.cpus import AllBut, AvailableCpus, CgroupCpus, CpuList, CpuQuantity, ReservedCpus
from cri_proxy.config.memory_kinds import NodeMemory, NodeReserve, kind_by_node, reserved_by_node
from cri_proxy.config.model import Config
from cri_proxy.config.thread_variables import MAX_VARIABLES
from cri_proxy.errors import ConfigError
from policies.alignment import TopologyOptions, TopologyPolicy
from policies.errors import PolicyOptionsError
from policies.hardware.reserve import choose_reserved
from policies.hints import CLOSEST_POLICIES, MAX_LISTED_NODES
from policies.options import PolicyOptions
from policies.registry import registered
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet, CpuSetError, NodeSet
from sysfs.memory_kind import with_memory_kinds, with_reserved_memory
from sysfs.model import Machine
from sysfs.quantity import bytes_text

_AVAILABLE = "availableResources.cpu"
_RESERVED = "reservedResources.cpu"
_KINDS = "memoryKinds"
_RESERVED_MEMORY = "reservedResources.memory"
_VARIABLES = "threadCounts.variables"
_POLICY = "topologyManager.policy"
_CLOSEST = "topologyManager.prefer-closest-numa-nodes"
_MOST = "topologyManager.max-allowable-numa-nodes"
# Where the cpuset hierarchy is mounted: cgroup v2, then v1 on its own (cgroups(7)).
_MOUNTS = ("sys/fs/cgroup", "sys/fs/cgroup/cpuset")
# v2: cpuset.cpus.effective (also in the root); v1: effective_cpus behind the controller's prefix.
_FILES = ("cpuset.cpus.effective", "cpuset.effective_cpus", "effective_cpus")
# The kubelet's cgroup of all pods, by the cgroupfs and the systemd driver.
_PODS = ("kubepods", "kubepods.slice")


@dataclass(frozen=True, slots=True)
class Resolved:
    """The policy's options on this machine; ``warnings`` are sentences for the operator.

    ``machine`` is the one to place on: as discovered, with the memory kinds that the operator declares.
    """

    machine: Machine
    options: PolicyOptions
    warnings: tuple[str, ...] = ()


def policy_options(config: Config, machine: Machine, root: Path = Path("/")) -> Resolved:
    """Resolve this configuration on this machine; cgroup files are read below ``root``.

    Raises ConfigError (without a line) for CPUs that do not exist, for reserved ones that are not available, and for
    more thread counts than are set.
    """
    if len(config.thread_counts.variables) > MAX_VARIABLES:
        raise _fail(_VARIABLES, f"expected at most {MAX_VARIABLES} names, got {len(config.thread_counts.variables)}")
    available, notes = _available(config.available.cpu, machine, root)
    reserved = _reserved(config.reserved.cpu, machine, available)
    warnings = list(notes)
    if config.reserved.cpu is None and config.policy != "none":
        warnings.append(
            f"{_RESERVED} is not set: no CPU is kept for the system, kube-system shares with all others; "
            "set it to what the system needs, for example 750m"
        )
    chosen = config.of_policy(registered(config.policy).options)
    topology = config.topology_manager
    if topology.policy is not TopologyPolicy.NONE:
        warnings += _topology_notes(config.policy, topology, machine)
    options = replace(chosen, available=available, reserved=reserved, topology=topology)
    notes = (
        *warnings,
        *_resize_notes(config.of_policy(TopologyAwareOptions)),
        *_memory_notes(config.memory_kinds, machine),
        *_absent_nodes(_RESERVED_MEMORY, config.reserved.memory, machine),
    )
    if config.memory_kinds:
        machine = with_memory_kinds(machine, kind_by_node(config.memory_kinds))
    if config.reserved.memory:
        machine = with_reserved_memory(machine, reserved_by_node(config.reserved.memory, machine))
        for node in machine.nodes:
            if node.reserved_bytes and node.memory_bytes and not node.ordinary_bytes:
                free_bytes = replace(node, reserved_bytes=0).ordinary_bytes
                problem = (
                    f"{bytes_text(node.reserved_bytes)} is all of node {node.id} outside huge pages "
                    f"({bytes_text(free_bytes)}) or more: leave containers some"
                )
                raise _fail(_RESERVED_MEMORY, problem)
    return Resolved(machine, options, notes)


def _resize_notes(chosen: TopologyAwareOptions) -> tuple[str, ...]:
    """Warn of each option that makes the runtime report CPU figures different from those that the kubelet sent."""
    set_here = (("LiftQuota", chosen.lift_quota), ("FractionShares", chosen.fraction_shares))
    return tuple(
        f"topologyAware.{key} is on: a kubelet that compares a container's figures with the runtime's (in-place "
        "resize) can take ours for a resize that is not done, and ask for it again and again"
        for key, is_on in set_here
        if is_on
    )


def _topology_notes(policy: str, options: TopologyOptions, machine: Machine) -> Iterator[str]:
    """Yield what of a topology policy has no effect, a sentence each; ``policy`` is the one that places containers.

    Raises ConfigError on a machine of more NUMA nodes than are allowed.
    """
    most, nodes = options.most_nodes, len(machine.nodes)
    if most and nodes > most:
        problem = f"{most} is less than the {nodes} NUMA nodes of this machine; allow {nodes}, or set {_POLICY} to none"
        raise ConfigError("configuration", 0, _MOST, problem)
    if policy == "none":
        yield f"{_POLICY} is {options.policy}, and has no effect: policy none places no container"
        return
    count = sum(1 for node in machine.nodes if node.cpus)
    if count > MAX_LISTED_NODES:
        does = (
            "has no effect" if options.policy is TopologyPolicy.BEST_EFFORT else "refuses what it would have to align"
        )
        yield (
            f"{_POLICY} is {options.policy}, and {does}: hints list the sets of at most {MAX_LISTED_NODES} NUMA nodes, "
            f"and this machine has {count} with CPUs"
        )
    if count <= 1:
        can = "it can only refuse" if options.policy is not TopologyPolicy.BEST_EFFORT else "it changes nothing for"
        yield (
            f"{_POLICY} is {options.policy}, but this machine has not more than one NUMA node with CPUs: {can} "
            "containers that the node has no room for"
        )
    if options.prefers_closest and options.policy.value not in CLOSEST_POLICIES:
        yield f"{_CLOSEST} is on, and has no effect with {_POLICY} {options.policy}: it takes a single node"


def _memory_notes(declared: Sequence[NodeMemory], machine: Machine) -> tuple[str, ...]:
    """Warn of nodes that this machine lacks: one file may serve many. Raises ConfigError for two kinds of one node."""
    for i, entry in enumerate(declared):
        for other in declared[:i]:
            both = entry.nodes & other.nodes
            if both and entry.kind is not other.kind:
                raise _fail(_KINDS, f"node {both} is declared as {other.kind} and {entry.kind}: keep one")
    return _absent_nodes(_KINDS, declared, machine)


def _absent_nodes(key: str, declared: Sequence[NodeMemory | NodeReserve], machine: Machine) -> tuple[str, ...]:
    missing = NodeSet.of_masks(entry.nodes.mask for entry in declared) - NodeSet.of(node.id for node in machine.nodes)
    return (f"{key}: node {missing} is not on this machine",) if missing else ()


def available_now(config: Config, root: Path = Path("/")) -> str:
    """Return the CPUs of the cgroup that the available CPUs follow, or what is wrong with it, to notice a change.

    Returns '' where they follow no cgroup.
    """
    spec = config.available.cpu
    if isinstance(spec, CpuList):
        return ""
    try:
        found = _cgroup_cpus(spec, root) if isinstance(spec, CgroupCpus) else _in_root_cgroup(root)
    except ConfigError as error:
        return error.problem
    return "" if found is None else str(found)


def _fail(key: str, problem: str) -> ConfigError:
    return ConfigError("configuration", 0, key, problem)


def _available(spec: AvailableCpus | None, machine: Machine, root: Path) -> tuple[CpuSet, tuple[str, ...]]:
    """Return the available CPUs, all online, and warnings."""
    match spec:
        case CpuList():
            wanted, notes = spec.cpus, _offline_notes(spec.cpus, machine)
        case CgroupCpus():
            wanted, notes = _cgroup_cpus(spec, root), ()
        case AllBut():
            wanted, notes = _root_cpus(machine, root) - spec.cpus, _pods_notes(machine, root)
        case None:
            wanted, notes = _root_cpus(machine, root), _pods_notes(machine, root)
    available = wanted & machine.online
    if not available:
        raise _fail(_AVAILABLE, f"{spec or 'the root cgroup'} leaves no CPU; online are {machine.online}")
    return available, notes


def _offline_notes(cpus: CpuSet, machine: Machine) -> tuple[str, ...]:
    """Warn of CPUs that are listed and offline. Raises ConfigError for CPUs that do not exist."""
    unknown = cpus - machine.online - machine.offline
    if unknown:
        raise _fail(_AVAILABLE, f"CPU {unknown} does not exist; online are {machine.online}")
    offline = cpus & machine.offline
    return (f"{_AVAILABLE}: CPU {offline} is offline and not used",) if offline else ()


def _root_cpus(machine: Machine, root: Path) -> CpuSet:
    """Return the root cgroup's effective cpuset; the online CPUs where there are no cgroups below this root."""
    found = _in_root_cgroup(root)
    return machine.online if found is None else found


def _in_root_cgroup(root: Path) -> CpuSet | None:
    """Return the root cgroup's effective cpuset inside that of the pods' cgroup; None without cgroups."""
    found = _first_set(root / mount / name for mount in _MOUNTS for name in _FILES)
    pods = _pods_cpus(root)
    if found is None or pods is None:
        return found
    return found & pods or found


def _pods_cpus(root: Path) -> CpuSet | None:
    """Return the cpuset of the kubelet's cgroup of all pods: no container can use a CPU outside it."""
    return _first_set(root / mount / pods / name for mount in _MOUNTS for pods in _PODS for name in _FILES)


def _pods_notes(machine: Machine, root: Path) -> tuple[str, ...]:
    """Warn of online CPUs that the pods' cgroup lacks: v1 removes a CPU that goes offline for good."""
    found, pods = _first_set(root / mount / name for mount in _MOUNTS for name in _FILES), _pods_cpus(root)
    usable = (found or machine.online) & machine.online
    missing = usable - pods if pods is not None else CpuSet()
    if not missing or missing == usable:
        return ()
    return (
        f"{_AVAILABLE}: CPU {missing} is online, but the pods' cgroup ({' or '.join(_PODS)}) cannot use it; "
        "on cgroup v1, where it stays so after the CPU was offline, write it back to cpuset.cpus there and below",
    )


def _cgroup_cpus(spec: CgroupCpus, root: Path) -> CpuSet:
    directory = spec.directory.lstrip("/")
    # An absolute directory is taken below the root as well, so that captured machines work.
    places = [root / directory] if spec.directory.startswith("/") else []
    places += [root / mount / directory for mount in _MOUNTS]
    found = _first_set(place / name for place in places for name in _FILES)
    if found is None:
        raise _fail(_AVAILABLE, f"{spec.directory} is no cgroup with a cpuset: name one that has {_FILES[0]}")
    return found


def _first_set(paths: Iterable[Path]) -> CpuSet | None:
    """Return the CPUs of the first of these files that exists and is not empty."""
    for path in paths:
        try:
            text = path.read_text().strip()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise _fail(_AVAILABLE, f"{path}: cannot read: {error.strerror}") from error
        # On v1 a cgroup has no CPUs until some are written (cpuset(7)): it bounds nothing yet.
        if not text:
            continue
        try:
            return CpuSet.parse(text)
        except CpuSetError as error:
            raise _fail(_AVAILABLE, f"{path}: {error}") from error
    return None


def _reserved(spec: ReservedCpus | None, machine: Machine, available: CpuSet) -> CpuSet:
    match spec:
        case None:
            return CpuSet()
        case CpuList():
            if not spec.cpus <= available:
                raise _fail(_RESERVED, f"CPU {spec.cpus - available} is not available; available are {available}")
            return spec.cpus
        case AllBut():
            if spec.cpus >= available:
                raise _fail(_RESERVED, f"{spec} leaves none of the available CPUs {available}")
            return available - spec.cpus
        case CpuQuantity():
            try:
                return choose_reserved(machine, available, spec.mcpu)
            except PolicyOptionsError as error:
                raise _fail(_RESERVED, f"cannot reserve {spec}: {error.remedy}") from error
