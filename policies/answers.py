"""Frozen values of what a policy answers about requests and room, beside its decisions."""

from dataclasses import dataclass

from sysfs.cpuset import NodeSet


@dataclass(frozen=True, slots=True)
class Default:
    """An option that decided, as no annotation did. ``field`` is one of ``Preferences``, ``value`` is in words."""

    field: str
    value: str
    option: str  # the option's key with its value, as in the configuration


@dataclass(frozen=True, slots=True)
class Condition:
    """A reason against CPUs of a container's own: a ``code`` of a bounded set, a sentence, and what to change."""

    code: str
    text: str
    remedy: str


@dataclass(frozen=True, slots=True)
class NodeFit:
    """The most ordinary CPUs that one container could own on this NUMA node: others stay, or sharers may move."""

    node: int
    cpus: int
    cpus_with_moves: int


@dataclass(frozen=True, slots=True)
class LargestFit:
    """The most CPUs that a container could own: ``cpus`` while others stay, ``cpus_with_moves`` if sharers may move.

    ``free_cpus`` are all ordinary CPUs that could be owned, ``free_isolated`` the kernel-isolated ones without an
    owner. ``nodes`` are the fits within one NUMA node.
    """

    free_cpus: int
    free_isolated: int
    cpus: int
    cpus_with_moves: int
    nodes: tuple[NodeFit, ...] = ()


@dataclass(frozen=True, slots=True)
class FreeOnNode:
    """The most that one more Guaranteed container could have on this NUMA node alone, of each resource by itself.

    ``cpu_mcpu``: with so many whole CPUs it may own them, and with any part of it share them. ``memory_bytes`` and
    ``huge_pages``, (bytes of a page, bytes in all) by ascending size, are of the nodes ``mems``: the node's own memory,
    and that of nodes without CPUs that are nearest to it.
    """

    node: int
    mems: NodeSet
    cpu_mcpu: int
    memory_bytes: int
    huge_pages: tuple[tuple[int, int], ...] = ()
