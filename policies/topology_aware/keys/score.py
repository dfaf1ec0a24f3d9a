"""The key by which pools are compared, and the meaning of its fields for operators in ``explain``."""

from typing import NamedTuple


class Key(NamedTuple):
    """How good a pool is for a request, field by field; larger is better (docs/placement.md, Choosing the pool)."""

    # Is it possible and asked for?
    fits: int  # 1: the pool can give what is asked and every pool keeps what it owes
    previous: int  # the container's earlier pool (deepest), or one above it with the earlier CPUs free
    isolated: int  # 1: has the kernel-isolated CPUs that are preferred
    # Is it near what it should be near?
    affinity: float  # weights of containers that attract, minus those that repel
    hints: float  # nearness to the container's devices, 0 to 1; the deeper of equals: 1/10000 a level
    hint_distance: int  # minus the NUMA distance from the devices that it is not near
    # Is the memory there?
    memory: int  # 2: its nodes have the requested memory; 1: only with more nodes; 0: it is not there
    hugepages: int  # 2: its nodes have the huge pages; 1: only with more nodes; 0: they are not there
    memory_suits: int  # 2: its memory is of exactly the wanted kinds; 1 more: it could hold the memory limit
    # Is there room to share?
    width: int  # has this much of the CPU limit, or all that can be expected; without one minus levels from what suits
    crowded: int  # minus how much busier than the machine's average, from a fifth of a CPU per CPU on, in tenths
    # Is everything close together?
    near_memory: float  # minus how much farther the memory it would use is than the nearest: local memory first
    priority: int  # 1: can give all CPUs to be owned from those of the preferred priority
    depth: int  # deeper pools are smaller and closer
    cpu_domains: float  # minus the NUMA nodes, and 1/1000 of the L3 domains, of the CPUs to be owned; 0: not compared
    # What does it take from others?
    undisturbed: int  # 1: no other container has to get more memory nodes
    cores: float  # CPUs to be owned on wholly free cores; others: -0.1 breaks an idle core, -0.2 beside reserved ones
    # How does the machine fill up?
    choice: int  # pack: minus what is left; balanced: what is left of CPUs and memory, in 1/1000; spread: 0
    squeezed: int  # minus the CPUs that containers with a limit lose below it, where CPUs are to be owned
    pod: int  # the levels that it shares with the pools of its pod's others; 0: not compared, or much busier
    expected: int  # CPU time up to the limit beside what others ask for there, where it shares
    spares: int  # -1: has CPUs beside accelerators, and the container asks for no device
    quiet: int  # minus the CPU time requested afterwards for each shared CPU, in 1/1000; where CPUs are owned, in 250s
    used: tuple[int, ...]  # minus what is in use, from the packages down; (): what is full counts, or isolated CPUs
    full: int  # minus what is left in it, for owners on a machine more than half full; pack: in the pool above
    left: tuple[int, ...]  # isolated CPUs, from the packages down; beside ``full`` the room above; else CPUs to share
    first: int  # minus the pool's index: the lowest id wins the last tie


MOST_SHOWN = 16
"""Pools whose keys are told, the best ones: on a machine with 169 pools the rest would take a quarter of a decision."""

# For operators: the meaning of a field's value, and why a pool with a smaller value loses.
_FIELDS = {
    "fits": ("1: can give what is asked", "cannot give what is asked"),
    "previous": ("the container's earlier place", "is not where the container was before"),
    "isolated": ("1: has the kernel-isolated CPUs that are wanted", "has too few isolated CPUs free"),
    "affinity": ("pull of other containers, minus push", "attracts less by affinity"),
    "hints": (
        "nearness to the container's devices, 0 to 1; of equal pools the deeper, 1/10000 a level",
        "is farther from the devices, or larger",
    ),
    "hint_distance": ("minus the distance from devices that it is not near", "is on a node farther from the devices"),
    "memory": (
        "2: its nodes have the requested memory; 1: only with more nodes; 0: it is not there",
        "has less memory left than is requested",
    ),
    "hugepages": (
        "2: its nodes have the huge pages; 1: only with more nodes; 0: they are not there",
        "has fewer of the huge pages on its nodes",
    ),
    "memory_suits": (
        "2: its memory is of the wanted kinds; 1 more: it can hold the memory limit",
        "has memory of other kinds, or less than the memory limit",
    ),
    "width": (
        "how much of the CPU limit it is wide enough for, in 1/1000 CPU, seven eighths count as all; without one "
        "minus the levels from what suits",
        "is not as wide as suits its bursts",
    ),
    "crowded": (
        "minus how much busier its CPUs are than the machine's on average, beyond 0.2, in tenths",
        "is crowded: more CPU is requested for each of its shared CPUs",
    ),
    "near_memory": ("minus how much farther its memory is than the nearest", "has its memory farther away"),
    "priority": ("1: has enough CPUs of the preferred priority", "has fewer CPUs of the preferred priority free"),
    "depth": ("deeper pools are smaller and closer", "is larger"),
    "cpu_domains": (
        "minus the NUMA nodes of its own CPUs, and their L3 domains in 1/1000; 0: not compared",
        "has its own CPUs only on more NUMA nodes or L3 domains",
    ),
    "undisturbed": (
        "1: no other container has to get more memory nodes",
        "has memory only when others get more memory nodes",
    ),
    "cores": (
        "how many of its own CPUs can be on wholly free cores; for others -0.1: on a core that was idle, -0.2: beside "
        "a reserved CPU",
        "would share more cores with others",
    ),
    "choice": (
        "PoolChoice pack: minus what is left in it; balanced: what is left of CPUs and memory, in 1/1000",
        "suits the pool choice less",
    ),
    "squeezed": (
        "minus the CPUs that others lose below their limits",
        "would leave others fewer CPUs than their limits",
    ),
    "pod": (
        "the levels that it shares with the pools of its pod's other containers; 0 where it is much busier than others",
        "is farther from the other containers of its pod",
    ),
    "expected": (
        "the CPU time that it can expect up to its limit, beside what others ask for there",
        "leaves less CPU time up to the limit, beside what others ask for",
    ),
    "spares": (
        "-1: has CPUs of NUMA nodes with accelerators, and the container asks for no device",
        "has CPUs beside accelerators, which are left to containers with devices",
    ),
    "quiet": (
        "minus the CPU requested afterwards for each of its shared CPUs, in 1/1000",
        "has more CPU requested for each of its shared CPUs",
    ),
    "used": ("minus what is in use, the widest pool first", "lies where more is in use"),
    "full": (
        "minus what is left, so that whole domains stay: for owners on a machine more than half full, and with "
        "PoolChoice pack in the pool above",
        "lies where more is left, which stays whole for larger containers",
    ),
    "left": (
        "its CPUs that are not reserved; isolated ones: those left, the widest pool first; for owners on a machine "
        "more than half full: what is left in the pool above",
        "has fewer CPUs, in it or around it",
    ),
    "first": ("minus its place in the tree: decides the last tie", "is equal but comes later"),
}
MEANINGS = {name: meaning for name, (meaning, _) in _FIELDS.items()}
WHY_WORSE = {name: why for name, (_, why) in _FIELDS.items()}
