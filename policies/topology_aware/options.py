"""The topology-aware policy's options: a dataclass with one field (default, key, help, flag) per option."""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from policies.options import PolicyOptions, option
from policies.preferences import BurstLevel, CpuDistribution, CpuPriority, PoolStrategy, Threads

# Reserved in any case (docs/placement.md, What a container asks for): the node's own pods live here.
SYSTEM_NAMESPACE = "kube-system"
# A move is a call to the runtime, and its memory is copied to other nodes: more of them at once are a disturbance.
MOST_MOVES = 64

SPILL = "spill"
AVOID, IGNORE, _KEEP = "avoid", "ignore", "keep"

# Far above what tells two resources apart; bounds what a score is multiplied with.
MOST_WEIGHT = 100


@dataclass(frozen=True, slots=True)
class PoolWeight:
    """How much one resource counts where pools are chosen by ``balanced``."""

    resource: str
    weight: int

    def __str__(self) -> str:
        return f"{self.resource}={self.weight}"


def parse_pool_weight(text: str) -> PoolWeight:
    """Read ``RESOURCE=WEIGHT``, which is how an entry ``RESOURCE: WEIGHT`` of the mapping arrives. Raises ValueError.

    >>> str(parse_pool_weight("CPU=3"))
    'cpu=3'
    """
    named, _, weight = (part.strip() for part in text.partition("="))
    resource = named.lower()
    if resource not in ("cpu", "memory"):
        raise ValueError(f"expected cpu or memory, got {named!r}")
    is_number = weight.isascii() and weight.isdigit() and len(weight) <= len(str(MOST_WEIGHT))
    if not is_number or int(weight) > MOST_WEIGHT:
        raise ValueError(f"expected a weight from 0 to {MOST_WEIGHT} for {resource}, got {weight!r}")
    return PoolWeight(resource, int(weight))


def parse_device_cpus(text: str) -> str:
    """Read ``avoid``, ``ignore`` or ``keep=N``, which is how the mapping ``{keep: N}`` arrives. Raises ValueError.

    >>> parse_device_cpus("Keep= 8")
    'keep=8'
    """
    rule, _, count = (part.strip() for part in text.lower().partition("="))
    # ``isdigit`` alone takes digits of other scripts, too.
    if rule == _KEEP and count.isascii() and count.isdigit() and len(count) < 5 and int(count):
        return f"{_KEEP}={int(count)}"
    if rule not in (AVOID, IGNORE) or count:
        raise ValueError(f"expected {AVOID}, {IGNORE} or {{{_KEEP}: N}} with N from 1 to 9999, got {text!r}")
    return rule


@dataclass(frozen=True, slots=True)
class TopologyAwareOptions(PolicyOptions):
    """The operator's options. Annotations override most of it."""

    pin_cpu: bool = option(True, "PinCPU", "Pin containers to the CPUs of their pool", flag="--topology-aware-pin-cpu")
    pin_memory: bool = option(
        True, "PinMemory", "Pin containers to the memory nodes of their pool", flag="--topology-aware-pin-memory"
    )
    prefer_isolated: bool = option(
        True,
        "PreferIsolatedCPUs",
        "Give a Guaranteed container that asks for exactly one CPU a kernel-isolated one where one is free, and a "
        "container of several CPUs kernel-isolated ones where too few others are left",
        flag="--topology-aware-prefer-isolated-cpus",
    )
    prefer_shared: bool = option(
        False,
        "PreferSharedCPUs",
        "Give shared CPUs only, no exclusive ones, unless an annotation asks for them",
        flag="--topology-aware-prefer-shared-cpus",
    )
    reserved_namespaces: tuple[str, ...] = option(
        (), "ReservedPoolNamespaces", "Namespaces (shell globs) on the reserved CPUs besides kube-system"
    )
    colocate_pods: bool = option(False, "ColocatePods", "Keep the containers of a pod near each other")
    colocate_namespaces: bool = option(
        False, "ColocateNamespaces", "Keep the containers of a namespace near each other"
    )
    l3_pools: Literal["auto", "true", "false"] = option(
        "auto", "L3Pools", "A pool per L3 cache domain. auto: where a node has several with two or more cores"
    )
    unlimited_burst: BurstLevel = option(
        BurstLevel.PACKAGE,
        "UnlimitedBurstable",
        "How wide a pool a best-effort container, or a Burstable one without a CPU limit, should get, unless an "
        "annotation decides",
    )
    threads: Threads = option(
        Threads.ANY,
        "Hyperthreads",
        "Thread siblings, unless an annotation decides. any: any container may have them; own-core: exclusive CPUs "
        "are whole cores; hide: as own-core, and only one thread of each core is used, of shared CPUs too",
    )
    strict_threads: bool = option(
        False,
        "StrictHyperthreads",
        "Refuse a container rather than do without the cores that Hyperthreads, or its annotation, asks for",
    )
    distribution: CpuDistribution = option(
        CpuDistribution.PACK,
        "CPUDistribution",
        "How exclusive CPUs lie to each other, unless an annotation decides. pack: close together; across-numa: in "
        "even parts over NUMA nodes where one does not suffice; across-cores: one thread of each core",
    )
    single_node: bool = option(
        False,
        "StrictSingleNUMANode",
        "Refuse a container with exclusive CPUs rather than give it CPUs of several NUMA nodes",
    )
    cpu_priority: CpuPriority = option(
        CpuPriority.NONE,
        "DefaultCPUPriority",
        "Which CPUs to prefer where base frequency, energy preference or core kind tell them apart, unless an "
        "annotation decides",
    )
    moves_per_check: int = option(
        2,
        "MovesPerCheck",
        "How many containers that share CPUs may move at each slow check (every 30 seconds), and with each "
        "placement that takes CPUs from them, to a place that a fresh decision would choose; 0: none",
        most=MOST_MOVES,
    )
    unlimited_memory: Literal["spill", "strict"] = option(
        "spill",
        "UnlimitedMemory",
        "Memory nodes of a container without a memory limit. spill: all nodes of its kinds of memory, of which the "
        "kernel uses the nearest first; strict: those of its zone, and it is OOM-killed when they are full",
    )
    pool_choice: PoolStrategy = option(
        PoolStrategy.SPREAD,
        "PoolChoice",
        "Which of the pools that suit equally, unless an annotation decides. spread: the one that is used least; "
        "pack: the one with the least left, so that whole domains stay idle; balanced: by what is left of CPUs and of "
        "memory",
    )
    device_cpus: str = option(
        AVOID,
        "DeviceCPUs",
        "The CPUs of NUMA nodes with accelerators (GPUs and FPGAs of the inventory, others by PCI class) that no "
        "container is known to hold. avoid: of pools that suit equally, a container that asks for no device gets one "
        "without them; keep: likewise, and so many CPUs beside each of them are owned by containers that ask for a "
        "device alone; ignore: no difference is made",
        values="`avoid`, `ignore` or `{keep: N}`",
        read=parse_device_cpus,
        takes_mapping=True,
    )
    pool_weights: tuple[PoolWeight, ...] = option(
        (PoolWeight("cpu", 3), PoolWeight("memory", 1)),
        "PoolWeights",
        "How much CPUs and memory count for PoolChoice balanced; what is not named does not count",
        values="a mapping of `cpu` and `memory` to numbers from 0 to 100: `{cpu: 3, memory: 1}`",
        read=parse_pool_weight,
        takes_mapping=True,
    )
    # The next two do not change a decision: the daemon follows them when it writes a grant into the call.
    lift_quota: bool = option(
        False,
        "LiftQuota",
        "Remove the CFS quota of containers that have exclusive CPUs only, so that they are never throttled",
    )
    fraction_shares: bool = option(
        False,
        "FractionShares",
        "Give a container that also has exclusive CPUs the CPU shares of its shared fraction only",
    )

    @property
    def kept_per_device(self) -> int:
        """How many CPUs beside each free accelerator are for containers that ask for a device."""
        rule, _, count = self.device_cpus.partition("=")
        return int(count) if rule == _KEEP else 0

    @property
    def weight_by_resource(self) -> dict[str, int]:
        """The weights of ``balanced``; a later entry wins over an earlier one."""
        return {entry.resource: entry.weight for entry in self.pool_weights}

    def is_reserved_namespace(self, namespace: str) -> bool:
        """Return whether containers of this namespace run on the reserved CPUs unless annotated otherwise."""
        return namespace == SYSTEM_NAMESPACE or any(fnmatchcase(namespace, glob) for glob in self.reserved_namespaces)
