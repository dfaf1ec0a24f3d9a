"""The values of topology hints: what providers offer for each resource, the machine's nodes, and the merged affinity.

The words are those of the kubelet's Topology Manager (KEP-693). A set of NUMA nodes is a mask: bit n is node n.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

KUBELET_NODES: Final = 8
"""The most NUMA nodes that the kubelet manages without ``max-allowable-numa-nodes``; that option may only raise it."""
NO_RESOURCE = ""
"""The resource of an ``HintOrigin`` whose provider has no opinion about any."""


@dataclass(frozen=True, slots=True)
class Hint:
    """NUMA nodes that can serve a request: ``nodes`` is their mask, None = any node will do.

    ``preferred``: no smaller number of nodes could serve the request, even on an idle machine.
    """

    nodes: int | None
    preferred: bool


@dataclass(frozen=True, slots=True)
class Amount:
    """The amounts of one resource that several nodes have, in their order, and the amount that is asked."""

    has: Sequence[int]
    request: int


Hints = Sequence[Hint] | None
"""The hints for one resource. None: no preference. Empty: the request cannot be satisfied."""

Offers = Mapping[str, Hints] | None
"""The hints of one provider, by resource. None or empty: no opinion."""


@dataclass(frozen=True, slots=True)
class Nodes:
    """The NUMA nodes of the machine. ``distances[a][b]`` is the distance from node a to node b, None = not known."""

    mask: int
    distances: tuple[tuple[int, ...], ...] | None = None


@dataclass(frozen=True, slots=True)
class MergeOptions:
    """The options of the kubelet's Topology Manager that change a merge, by their names there."""

    prefer_closest_numa_nodes: bool = False
    max_allowable_numa_nodes: int | None = None


@dataclass(frozen=True, slots=True)
class HintOrigin:
    """The hint of one resource that a result rests on; ``provider`` is the position of its provider."""

    provider: int
    resource: str
    hint: Hint


@dataclass(frozen=True, slots=True)
class Merged:
    """The result of a merge.

    ``affinity`` is the mask of nodes; None: no affinity is recorded. ``has_hint`` is False where the policy yields no
    hint at all. ``rests_on`` has one hint of each resource: together they give the affinity. It is empty where no
    combination of hints does.
    """

    affinity: int | None
    preferred: bool
    admit: bool
    has_hint: bool = True
    rests_on: tuple[HintOrigin, ...] = ()
