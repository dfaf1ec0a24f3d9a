"""Allocate the devices that a container asks for: read the request, find what can serve, search, or say what lacks.

Source: Koordinator, "Device Allocate Hint API". What it leaves open is settled in docs/devices.md.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from policies.device_grants import DeviceGrant, DeviceKey
from policies.devices.annotations import DEVICE_ALLOCATED, DeviceAnnotations, JointAllocate, RequiredScope
from policies.devices.candidates import (
    DeviceCandidate,
    FoundDevices,
    Preselected,
    find_candidates,
    is_share,
    least_used_first,
    most_used_first,
    named_only,
)
from policies.devices.demand import DeviceDemand, as_counted, read_demands
from policies.devices.device_types import DEVICE_TYPES, GPU
from policies.devices.joint import CandidateSet, JointChoice, JointPart, JointSearch, by_group, by_node
from policies.devices.link_choice import best_linked, cheapest_linked, counts_links, link_score, links_of
from policies.devices.links import GpuRequest, LinkMatrix, NodeDistance, cut_off
from policies.devices.model import DeviceInventory, PcieGroup, pcie_groups
from policies.devices.partitions import PartitionRule, partition_refusal, partition_rule, ranked_partitions
from policies.devices.refusals import joint_refusal, scope_refusal, shortage_text
from policies.devices.sources import JoinedDevices
from policies.devices.usage import Usage, usage_of

_NO_LABELS: Final[Mapping[str, str]] = {}
_NOT_ITS_OWN: Final = "not one of those that it had"
_NOT_NAMED: Final = f"not one of those of {DEVICE_ALLOCATED}"
_NOTHING_KEPT: Final[Mapping[DeviceKey, str]] = {}


@dataclass(frozen=True, slots=True)
class DeviceQuestion:
    """The request of a container: amounts by full resource name, and the annotations of its pod.

    ``node_labels`` stand beside those of the inventory, and come first. ``spreads``: shares of GPUs are given of those
    least in use, not of those most in use.
    """

    requests: Mapping[str, int]
    annotations: DeviceAnnotations = field(default_factory=DeviceAnnotations)
    node_labels: Mapping[str, str] = field(default_factory=lambda: _NO_LABELS)
    spreads: bool = False


@dataclass(frozen=True, slots=True)
class DeviceAllocation:
    """The devices for a container, by type and minor, and how they were chosen: a choice for types that go together."""

    grants: tuple[DeviceGrant, ...]
    choices: tuple[JointChoice, ...] = ()

    def of(self, kind: str) -> tuple[DeviceGrant, ...]:
        """Return the grants of a type by minor."""
        return tuple(grant for grant in self.grants if grant.kind == kind)


@dataclass(frozen=True, slots=True)
class CannotAllocate:
    """Why the devices cannot be granted: a sentence that names what is missing, and where."""

    problem: str


class DeviceAllocator:
    """Allocates from an inventory. It keeps nothing: what containers hold is an argument of each question."""

    def __init__(
        self,
        inventory: DeviceInventory,
        joined: JoinedDevices | None = None,
        distance: NodeDistance | None = None,
    ) -> None:
        """Group the devices by PCIe. ``joined`` are those of this inventory, None: they are joined here.

        ``distance`` is that of two NUMA nodes of the machine, None where it is not known.
        """
        self.inventory = inventory
        self.distance = distance
        self.joined = joined or JoinedDevices(inventory)
        self.links = links_of(inventory.links, inventory.of(GPU))
        self.groups = pcie_groups(inventory.devices)
        self.group_of = {device.key: number for number, group in enumerate(self.groups) for device in group.devices}
        self.node_of = {key: self.groups[number].numa for key, number in self.group_of.items()}

    def demands(self, question: DeviceQuestion) -> tuple[DeviceDemand, ...]:
        """Return what is asked of each type. Raises DemandError."""
        return read_demands(question.requests, self.inventory, question.annotations)

    def allocate(
        self,
        question: DeviceQuestion,
        held: Sequence[DeviceGrant] = (),
        within: int | None = None,
        own: Sequence[DeviceGrant] = (),
    ) -> DeviceAllocation | CannotAllocate:
        """Return the devices for a container beside what others hold. Raises DemandError.

        ``within`` is a mask of NUMA nodes that all devices have to be on, if theirs is known. ``own`` is what the
        container, or another one of its pod, has already: a pod is not kept from its own PCIe (PCIeLevel).

        >>> from policies.devices.model import InventoryDevice
        >>> gpus = DeviceInventory(tuple(InventoryDevice("gpu", minor, numa=minor) for minor in (0, 1)))
        >>> answer = DeviceAllocator(gpus).allocate(DeviceQuestion({"nvidia.com/gpu": 1}), within=0b10)
        >>> answer.grants[0].minor
        1
        """
        attempt = DeviceAttempt(self, question, self.usage(held, own), within)
        answer = attempt.run()
        return answer if isinstance(answer, CannotAllocate) else attempt.cheapest(answer)

    def usage(self, held: Iterable[DeviceGrant], own: Iterable[DeviceGrant] = ()) -> Usage:
        """Return what other pods hold, and the container's own."""
        # By whatever name it is held: a device that was asked for by its cost file's type is the same hardware here.
        joined = self.joined
        return usage_of(joined.of_inventory(held), self.inventory, self.groups, joined.of_inventory(own))


class DeviceAttempt:
    """The answer to one question."""

    def __init__(
        self,
        allocator: DeviceAllocator,
        question: DeviceQuestion,
        usage: Usage,
        within: int | None = None,
        only: Mapping[DeviceKey, str] | None = None,
        *,
        kept: Mapping[DeviceKey, str] = _NOTHING_KEPT,
    ) -> None:
        """Find what can serve, of ``only`` these devices, each with a VF or ''. Raises DemandError.

        All of ``kept`` are taken, or of types that join another one those that are there: its pod keeps them.
        """
        self._groups: Sequence[PcieGroup] = allocator.groups
        self._usage = usage
        self._links, self._distance = allocator.links, allocator.distance
        self._joined = allocator.joined
        self._joint = question.annotations.joint or JointAllocate(())
        self._spreads = question.spreads
        self._kept = kept
        self._demands: dict[str, DeviceDemand] = {}
        self._candidates: dict[str, FoundDevices] = {}
        named = named_only(allocator.inventory, question.annotations)
        if named is not None:
            only = named if only is None else {key: vf or named[key] for key, vf in only.items() if key in named}
        beyond = _NOT_NAMED if named is not None else _NOT_ITS_OWN
        for demand in allocator.demands(question):
            found = find_candidates(demand, self._groups, usage, within, Preselected(only, beyond, kept))
            self._demands[demand.kind] = as_counted(demand, found.matching)
            self._candidates[demand.kind] = found
        labels = {**allocator.inventory.node_labels, **question.node_labels}
        spec = question.annotations.partition
        self._rule = partition_rule(allocator.inventory, labels, spec) if labels or spec is not None else None

    @property
    def found(self) -> Mapping[str, tuple[int, tuple[DeviceCandidate, ...]]]:
        """By type: how many devices are asked for, and those that can serve."""
        return {kind: (demand.count, self._candidates[kind].usable) for kind, demand in self._demands.items()}

    @property
    def is_constrained(self) -> bool:
        """Whether enough devices may still be a refusal: a place or a partition is required of them."""
        scopes = {demand.hint.scope for demand in self._demands.values()}
        is_partitioned = self._rule is not None and self._rule.is_required and GPU in self._demands
        is_bound = self._joint.is_same_pcie or is_partitioned
        return is_bound or bool(scopes - {RequiredScope.DEFAULT, RequiredScope.NODE})

    def run(self) -> DeviceAllocation | CannotAllocate:
        """Allocate the types of the joint annotation together, the others one by one."""
        for kind, demand in self._demands.items():
            # ApplyForAll of which nothing matches counts 0: all of none is a refusal, and no empty grant.
            if len(self._candidates[kind].usable) < max(demand.count, 1):
                return CannotAllocate(shortage_text(demand, self._candidates[kind]))
            # A refusal, after which the caller chooses again without the kept devices.
            if self._kept_of(kind).keys() - {candidate.device.key for candidate in self._candidates[kind].usable}:
                return CannotAllocate(f"{kind}: not all that the pod keeps can be given")
        together = tuple(kind for kind in self._joint.types if kind in self._demands)
        alone = [(kind,) for kind in self._demands if kind not in together]
        grants: list[DeviceGrant] = []
        choices = []
        for kinds in ([together] if together else []) + alone:
            choice = self._choose(kinds)
            if isinstance(choice, CannotAllocate):
                return choice
            grants += (c.grant(self._demands[kind]) for kind, found in choice.devices.items() for c in found)
            choices.append(choice)
        in_order = sorted(grants, key=lambda g: (DEVICE_TYPES.index(g.kind), g.minor))
        return DeviceAllocation(tuple(in_order), tuple(choices))

    def _kept_of(self, kind: str) -> Mapping[DeviceKey, str]:
        return {key: vf for key, vf in self._kept.items() if key[0] == kind}

    def _choose(self, kinds: Sequence[str]) -> JointChoice | CannotAllocate:
        """Return the devices of types that go together; partitions first, and without them where that may be."""
        rule = self._rule if GPU in kinds and self._is_partitioned() else None
        if rule is not None:
            chosen = self._search(kinds, rule)
            if not isinstance(chosen, CannotAllocate):
                return replace(chosen, partition=chosen.minors)
            if rule.is_required:
                return chosen
        chosen = self._search(kinds, None)
        if isinstance(chosen, CannotAllocate):
            return chosen
        return self._linked(self._of_first_gpus(kinds, chosen) if GPU in kinds else chosen)

    def _of_first_gpus(self, kinds: Sequence[str], chosen: JointChoice) -> JointChoice:
        """Return a choice whose place is as good, of the GPUs that are to be given first."""
        for part in self._first_gpus():
            found = self._search(kinds, None, part)
            # Use decides among equal places only: a share does not leave the PCIe of its NIC for a fuller GPU.
            if isinstance(found, JointChoice) and self._place(found) <= self._place(chosen):
                return found
        return chosen

    def _first_gpus(self) -> Iterable[Sequence[DeviceCandidate]]:
        """Return the GPUs to be given first, in ever larger parts: for shares by use, alone those with NVLinks."""
        demand, usable = self._demands[GPU], self._candidates[GPU].usable
        if is_share(demand) and self._spreads:
            return least_used_first(usable, demand.count, self._usage, self._groups)
        if is_share(demand):
            return most_used_first(usable, demand.count)
        # Sets of several GPUs avoid one whose NVLinks are down by their link score; a single GPU has none.
        last = cut_off(self._links) if self._links is not None and demand.count == 1 else frozenset()
        others = [candidate for candidate in usable if candidate.device.minor not in last]
        return [others] if 0 < len(others) < len(usable) else []

    def _place(self, choice: JointChoice) -> tuple[object, ...]:
        """Return how good the place of GPUs is: their partner's, then NUMA nodes, then PCIe; lower is better."""
        groups = {candidate.group for candidate in choice.devices[GPU]}
        return choice.rank, len({self._groups[group].numa for group in groups}), len(groups)

    def _linked(self, chosen: JointChoice) -> JointChoice:
        """Return GPUs that are asked for alone, wherever they are, with the best links among them, where known."""
        demand = self._demands[next(iter(chosen.devices))]
        # best_linked takes GPUs from anywhere on the nodes, and would leave the PCIe that the hint requires.
        is_anywhere = demand.hint.scope not in (RequiredScope.PCIE, RequiredScope.DEVICE)
        if self._links is None or len(chosen.devices) > 1 or not is_anywhere or not counts_links(demand):
            return chosen
        usable = self._candidates[GPU].usable
        linked = best_linked(self._links, self._groups, usable, chosen.devices[GPU], self._distance)
        chosen = replace(chosen, devices={GPU: linked})
        return replace(chosen, link_score=link_score(self._links, chosen.minors))

    def _links_beside(self, kinds: Sequence[str]) -> LinkMatrix | None:
        """Return the links that count among sets of GPUs with equal places: those that other devices go with."""
        if self._links is None or kinds[0] != GPU or len(kinds) == 1 or not counts_links(self._demands[GPU]):
            return None
        # A GPU that the matrix lacks has 0 points with all others, and would always be the last choice.
        is_known = self._links.indices.issuperset(c.device.minor for c in self._candidates[GPU].usable)
        return self._links if is_known else None

    def cheapest(self, answer: DeviceAllocation) -> DeviceAllocation:
        """Return the cheapest answer of those with the same NUMA nodes and as good links: an answer of ``run``."""
        linked = any(choice.link_score is not None and len(choice.devices) == 1 for choice in answer.choices)
        if self._links is None or not linked:
            return answer
        at = {c.device.minor: self._groups[c.group].numa for c in self._candidates[GPU].usable}
        minors = [grant.number for grant in answer.of(GPU)]
        nodes = {at[minor] for minor in minors}
        kept = frozenset(minor for _, minor in self._kept_of(GPU) if isinstance(minor, int))
        # NUMA nodes and links decide before costs: only GPUs on the nodes of the answer may take the place of its own.
        here = GpuRequest(len(minors), frozenset(minor for minor, node in at.items() if node in nodes), kept)
        joined, demand = self._joined, self._demands[GPU]
        cheapest = cheapest_linked(self._links, joined.inventory.costs, joined.gpu_names, here, minors)
        gpus = [c.grant(demand) for c in self._candidates[GPU].usable if c.device.minor in cheapest]
        others = [grant for grant in answer.grants if grant.kind != GPU]
        return replace(answer, grants=(*sorted(gpus, key=lambda grant: grant.number), *others))

    def _is_partitioned(self) -> bool:
        """Return whether partitions apply: to whole GPUs, and not where a hint asks for all of them."""
        demand = self._demands[GPU]
        return demand.is_whole and not demand.is_all

    def _search(
        self, kinds: Sequence[str], rule: PartitionRule | None, gpus: Sequence[DeviceCandidate] | None = None
    ) -> JointChoice | CannotAllocate:
        """Return the best devices of these types, of these GPUs (None: all that can serve) or partitions of a rule."""
        usable = {kind: self._candidates[kind].usable for kind in kinds}
        if gpus is not None:
            kept = [candidate for candidate in usable[GPU] if candidate.is_kept and candidate not in gpus]
            usable[GPU] = tuple(sorted((*kept, *gpus), key=lambda c: (c.group, not c.is_kept)))  # of a group kept first
        parts = []
        asks_for_partition = rule.origin if rule is not None else ""
        for kind in kinds:
            demand = self._demands[kind]
            sets = self._partitions(rule) if kind == GPU and rule else [CandidateSet(usable[kind])]
            if not sets and rule:
                return CannotAllocate(partition_refusal(rule, demand.count, self._gpu_reasons()))
            scoped = [part for found in sets for part in self._scoped(demand, found)]
            if not scoped:
                partition = asks_for_partition if kind == GPU else ""
                return CannotAllocate(scope_refusal(demand, usable[kind], self._groups, partition))
            parts.append(JointPart(kind, demand.count, tuple(scoped)))
        is_same_pcie = self._joint.is_same_pcie and len(kinds) > 1
        is_spread = GPU in kinds and is_share(self._demands[GPU]) and self._spreads
        # The search prefers PCIe groups in use, to keep others whole, which would undo the spreading.
        used = frozenset() if gpus is not None and is_spread else self._usage.used
        links = self._links_beside(kinds) if rule is None else None
        search = JointSearch(self._groups, parts, used, is_same_pcie=is_same_pcie, links=links)
        chosen = search.choose()
        if chosen is not None:
            return chosen
        demands, found = [self._demands[kind] for kind in kinds], [self._candidates[kind] for kind in kinds]
        return CannotAllocate(joint_refusal(demands, found, self._groups, asks_for_partition))

    def _partitions(self, rule: PartitionRule) -> list[CandidateSet]:
        """Return the candidates of each partition that can be given."""
        usable = self._candidates[GPU].usable
        minors = frozenset(candidate.device.minor for candidate in usable)
        return [
            CandidateSet(tuple(c for c in usable if c.device.minor in found.minors), found.by_score, found.by_rest)
            for found in ranked_partitions(rule, self._demands[GPU].count, minors, self._idle_gpus())
            if all(minor in found.minors for _, minor in self._kept_of(GPU))
        ]

    def _idle_gpus(self) -> frozenset[int]:
        """Return the GPUs that are free for anybody, whatever this container may have of them."""
        # A partition counts as left to others only if some pod could get each of its GPUs.
        groups = [group for number, group in enumerate(self._groups) if (number, GPU) not in self._usage.exclusive]
        gpus = (device for group in groups for device in group.devices if device.kind == GPU and device.is_healthy)
        return frozenset(device.minor for device in gpus if self._usage.of(device).is_idle)

    def _gpu_reasons(self) -> Mapping[int, str]:
        """Return for each GPU why it cannot be given."""
        found = self._candidates[GPU]
        return {minor: reason for reason, minors in found.reasons.items() for minor in minors}

    def _scoped(self, demand: DeviceDemand, found: CandidateSet) -> list[CandidateSet]:
        """Return the parts of a set that are each within the scope that the hint requires, and large enough."""
        match demand.hint.scope:
            case RequiredScope.DEVICE:
                # Other types than the first may join in a larger number than is asked for (policies.devices.joint).
                # Of a PCIe group the first one: others there are as good.
                parts = [part[:1] for part in by_group(found.candidates).values()] if demand.count == 1 else []
            case RequiredScope.PCIE:
                parts = [*by_group(found.candidates).values()]
            case RequiredScope.NUMA_NODE:
                parts = [*by_node(found.candidates, self._groups).values()]
            case _:
                parts = [list(found.candidates)]
        # A container that asks for less than its pod keeps cannot have all of it.
        kept = self._kept_of(demand.kind).keys() if len(self._kept_of(demand.kind)) <= demand.count else frozenset()
        return [
            replace(found, candidates=tuple(part))
            for part in parts
            if len(part) >= demand.count and kept <= {candidate.device.key for candidate in part}
        ]
