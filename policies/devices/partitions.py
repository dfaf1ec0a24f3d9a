"""Choose among the partitions of a table: sets of GPUs that may be given together, as NVSwitch machines have them.

Source: Koordinator: the labels ``gpu-partition-policy`` and ``gpu-model`` of a node, and the annotation
``gpu-partition-spec`` of a pod.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from policies.devices.annotations import DOMAIN, PartitionSpec
from policies.devices.model import DeviceInventory, GpuPartition
from sysfs.cpuset import NodeSet

NODE_DOMAIN: Final = "node.koordinator.sh"
POLICY_LABEL: Final = "gpu-partition-policy"
MODEL_LABEL: Final = "gpu-model"
HONOR: Final = "Honor"
PREFER: Final = "Prefer"
_HOPPER: Final = frozenset({"H100", "H800", "H20"})
_HOPPER_SIZES: Final = (1, 2, 4, 8)
_HOPPER_GPUS: Final = 8
# What a partition that stays free is worth, by its size; larger ones cannot be put together from smaller ones.
_WORTH: Final[Mapping[int, int]] = {8: 10000, 4: 100, 2: 1}


@dataclass(frozen=True, slots=True)
class PartitionRule:
    """The table in force. ``is_required``: without a fitting partition there are no GPUs, else it is a preference."""

    table: tuple[GpuPartition, ...] | None
    is_required: bool
    spec: PartitionSpec = field(default_factory=PartitionSpec)
    origin: str = ""


@dataclass(frozen=True, slots=True)
class RankedPartition:
    """A partition that can be given. The lower the rank, the better: the score first, then what stays free."""

    minors: frozenset[int]
    by_score: int
    by_rest: int


def partition_rule(
    inventory: DeviceInventory, labels: Mapping[str, str], spec: PartitionSpec | None
) -> PartitionRule | None:
    """Return the rule that labels of the node and the pod's annotation make; None: partitions do not matter."""
    policy = _label(labels, POLICY_LABEL)
    if spec is None and policy not in (HONOR, PREFER):
        return None
    table = inventory.partitions
    # A driver's label has more words than the model: NVIDIA-H100-80GB-HBM3.
    if table is None and set(re.split(r"[^0-9A-Z]+", _label(labels, MODEL_LABEL).upper())) & _HOPPER:
        table = _hopper_table()
    origin = f"the pod's {DOMAIN}/gpu-partition-spec" if spec is not None else f"the node's {POLICY_LABEL} {policy}"
    return PartitionRule(table, spec is not None or policy == HONOR, spec or PartitionSpec(), origin)


def _label(labels: Mapping[str, str], name: str) -> str:
    # The node_labels of an inventory may leave the domain out.
    return labels.get(f"{NODE_DOMAIN}/{name}", labels.get(name, ""))


def _hopper_table() -> tuple[GpuPartition, ...]:
    """Return the partitions of eight GPUs on NVSwitches of the Hopper generation, as Koordinator knows them."""
    neighbours = (range(first, first + size) for size in _HOPPER_SIZES for first in range(0, _HOPPER_GPUS, size))
    return tuple(GpuPartition(tuple(minors), link="NVLink") for minors in neighbours)


def ranked_partitions(
    rule: PartitionRule, size: int, usable: frozenset[int], idle: frozenset[int]
) -> tuple[RankedPartition, ...]:
    """Return the partitions of this size that can be given, the best first.

    ``usable`` are the minors that may be given, ``idle`` all that are free, also those that others alone may have. Of
    partitions with the same score, the one is best that leaves the most behind: the sum over partitions of at least
    this size that are still idle, by their worth and score. Then those with the lowest minors.
    """
    table = rule.table or ()
    found = []
    for partition in _allowed(rule, size):
        minors = frozenset(partition.minors)
        if minors <= usable:
            rest = idle - minors
            idle_still = (other for other in table if len(other.minors) >= size and rest.issuperset(other.minors))
            worth = sum(_WORTH.get(len(other.minors), 0) * other.score for other in idle_still)
            found.append(RankedPartition(minors, -partition.score, -worth))
    return tuple(sorted(found, key=lambda p: (p.by_score, p.by_rest, sorted(p.minors))))


def _allowed(rule: PartitionRule, size: int) -> list[GpuPartition]:
    """Return the partitions of a size that the pod accepts: all, or those with the largest score."""
    of_size = [partition for partition in rule.table or () if len(partition.minors) == size]
    wanted = rule.spec.bandwidth
    if rule.spec.is_restricted:
        of_size = [p for p in of_size if p.score == max(other.score for other in of_size)]
    return of_size if wanted is None else [p for p in of_size if p.bandwidth is not None and p.bandwidth >= wanted]


def partition_refusal(rule: PartitionRule, size: int, shortage: Mapping[int, str]) -> str:
    """Return why no partition of this size can be given; ``shortage`` says for minors why they are not free."""
    sizes = sorted({len(partition.minors) for partition in rule.table or ()})
    begin = f"gpu: {rule.origin} asks for a partition of {size}"
    if not sizes:
        return f"{begin}, and the node has no partition table; add partitions to the inventory, or drop that"
    if size not in sizes:
        return f"{begin}; the partition table has sizes {', '.join(map(str, sizes))}"
    allowed = _allowed(rule, size)
    if not allowed:
        return f"{begin} with a ring bandwidth of {rule.spec.bandwidth}, which none has; ask for less"
    blocked = [f"{NodeSet.of(p.minors)} ({_blocked_text(p.minors, shortage)})" for p in allowed]
    score = " with the largest score" if rule.spec.is_restricted else ""
    return f"{begin}; none{score} can be given: {'; '.join(blocked)}"


def _blocked_text(minors: Sequence[int], shortage: Mapping[int, str]) -> str:
    found = [f"{minor}: {shortage[minor]}" for minor in minors if minor in shortage]
    return ", ".join(found) or "no valid place"
