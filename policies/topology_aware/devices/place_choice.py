"""Choose devices of the inventory: those that the container had, else the best beside free CPUs. Pure.

How good a choice is by itself, ``policies.devices`` says. Of choices that are equally good, the one on the fewest NUMA
nodes is taken, of these one whose nodes have room for the container's CPUs and memory, then one whose nodes are near
each other.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce
from itertools import combinations, starmap
from operator import or_
from typing import Final

from policies.base import Rejected
from policies.device_grants import DeviceGrant, DeviceKey, by_place
from policies.device_requests import DeviceAsk
from policies.devices import CannotAllocate, DeviceAllocation, DeviceAttempt, DeviceQuestion, read_annotations
from policies.preferences import PoolStrategy
from policies.topology_aware.devices import reasons
from policies.topology_aware.devices.held import HeldDevices, earlier_devices
from policies.topology_aware.devices.reasons import ChosenDevices
from policies.topology_aware.devices.supply import NodeRoom, Shortage, node_room, sets_by_room
from policies.topology_aware.supply.context import PlacementContext
from sysfs.cpuset import NodeSet

MOST_SETS: Final = 24
"""Sets of NUMA nodes that are tried for a choice with more room: one takes up to a millisecond."""


@lru_cache(maxsize=256)  # a request is decided several times: hints, nodes, overcommitment
def question_of(asked: DeviceAsk) -> DeviceQuestion:
    """Return what a container asks for. Raises AnnotationError."""
    return DeviceQuestion(dict(asked.requests), read_annotations(dict(asked.annotations)))


@dataclass(frozen=True, slots=True)
class FoundAllocation:
    """An allocation. ``passed_over``: the nodes of the first choice, which had too little room, as a mask; 0: none.

    ``left`` are those of these devices that ended containers of its pod had.
    """

    answer: DeviceAllocation
    is_earlier: bool = False
    left: tuple[DeviceGrant, ...] = ()
    passed_over: int = 0


class PlaceSearch:
    """The search for one container beside what is held. Raises AnnotationError and DemandError.

    The first answer anywhere is worked out once: it tells whether there is any, and is the first that is improved.
    """

    def __init__(self, held: HeldDevices, asked: DeviceAsk, only: Mapping[DeviceKey, str] | None = None) -> None:
        """Read the question, which is about ``only`` these devices where it is not about all."""
        self._held, self._node, self._only = held, held.node, only
        spreads = held.context.request.preferences.pool_choice is PoolStrategy.SPREAD
        self.question: Final = replace(question_of(asked), spreads=spreads)

    @cached_property
    def _anywhere(self) -> tuple[DeviceAttempt, DeviceAllocation | CannotAllocate]:
        return self._attempt(None)

    def _attempt(self, nodes: int | None) -> tuple[DeviceAttempt, DeviceAllocation | CannotAllocate]:
        within = self._node.within(nodes)
        attempt = DeviceAttempt(self._node.allocator, self.question, self._held.usage, within, self._only)
        return attempt, attempt.run()

    def lacking(self) -> Rejected | None:
        """Return why these devices cannot be granted, wherever the container is placed."""
        found = self._anywhere[1]
        return self._refused(found) if isinstance(found, CannotAllocate) else None

    def _refused(self, found: CannotAllocate) -> Rejected:
        problem = found.problem
        if not self._node.allocator.inventory.devices:
            problem += (
                "; name an inventory in devices.inventory, or set devices.scan;"
                " where one is named, `cri-proxy status` says why nothing of it counts"
            )
        return Rejected(reasons.refused(problem, self._kinds, self._held.claims))

    @property
    def _kinds(self) -> list[str]:
        return [demand.kind for demand in self._node.allocator.demands(self.question)]

    def choose(self, context: PlacementContext) -> ChosenDevices | Rejected:
        """Return the devices on the container's nodes, else where its topology policy allows it anywhere."""
        earlier = tuple(grant for grant in by_place(earlier_devices(context)) if not grant.is_given)
        alignment, warnings = context.request.alignment, self.question.annotations.warnings
        found = self.find(context, alignment.nodes.mask if alignment is not None else None, earlier)
        why = [reasons.read(warnings)] if warnings else []
        if isinstance(found, CannotAllocate) and alignment is not None:
            if alignment.is_strict:
                return Rejected(reasons.outside(found.problem, alignment, self._kinds, self._held.claims))
            why.append(reasons.beyond(alignment, found.problem))
            found = self.find(context, None, earlier)
        if isinstance(found, CannotAllocate):
            return self._refused(found)
        devices = found.answer.grants
        if found.is_earlier:
            return ChosenDevices(devices, (reasons.kept(devices, runs=False), *why))
        lost = [reasons.lost(earlier)] if earlier else []
        chosen = [reasons.allocated(self._node.allocator, found.answer, found.passed_over)] if devices else []
        left = [reasons.left_to_pod(found.left)] if found.left else []
        return ChosenDevices(devices, (*lost, *left, *chosen, *why))

    def find(
        self, context: PlacementContext, within: int | None, earlier: tuple[DeviceGrant, ...] = ()
    ) -> FoundAllocation | CannotAllocate:
        """Return the devices on these nodes (a mask, None: anywhere): the earlier ones where they serve."""
        again = self._again(within, earlier) if earlier else None
        if again is not None:
            return FoundAllocation(again, is_earlier=True)
        # An attempt with devices of its own takes none that an ended container of its pod left.
        left = None if earlier else self._of_pod(within)
        return self._best(context, within) if left is None else left

    def _again(self, nodes: int | None, earlier: tuple[DeviceGrant, ...]) -> DeviceAllocation | None:
        """Return the earlier devices if they are a valid answer to the same question: free, healthy, as large."""
        only: Mapping[DeviceKey, str] = {grant.key: grant.vf for grant in earlier}
        within = self._node.within(nodes)
        answer = DeviceAttempt(self._node.allocator, self.question, self._held.usage, within, only).run()
        # Among these alone the answer has to be all of them: the container may ask for fewer now.
        is_same = isinstance(answer, DeviceAllocation) and set(answer.grants) == set(earlier)
        return answer if isinstance(answer, DeviceAllocation) and is_same else None

    def _of_pod(self, nodes: int | None) -> FoundAllocation | None:
        """Return devices that ended containers of the pod had, and free ones of types of which those are too few."""
        counts = {kind: count for kind, (count, _) in self._anywhere[0].found.items()}
        usable = {found.device.key for _, candidates in self._anywhere[0].found.values() for found in candidates}
        left = {grant.key: grant.vf for grant in by_place(self._held.left_to_pod) if grant.key in usable}
        had = Counter(kind for kind, _ in left)
        if not had:
            return None
        is_enough = all(had[kind] >= counts[kind] for kind in had)
        found = self._with_left(nodes, left, frozenset(had)) if is_enough else None
        if found is not None:
            return found
        # Of types that join another one as many are taken as it has places: those that are left come first there.
        joining = [kind for kind in self._joint if kind in counts][1:]
        found = self._with_left(
            nodes, left, frozenset(kind for kind in had if had[kind] > counts[kind] and kind not in joining)
        )
        taken = Counter(grant.kind for grant in found.left) if found is not None else had
        return found if all(taken[kind] >= min(had[kind], counts[kind]) for kind in had) else None

    @property
    def _joint(self) -> tuple[str, ...]:
        joint = self.question.annotations.joint
        return () if joint is None else joint.types

    def _with_left(
        self, nodes: int | None, left: Mapping[DeviceKey, str], alone: Collection[str]
    ) -> FoundAllocation | None:
        """Return devices with those that are left: of the types ``alone`` no others, of the rest all of them.

        None where the place that is asked for does not let them stand beside each other.
        """
        kept = {key: vf for key, vf in left.items() if key[0] not in alone}
        only = self._only
        if alone:
            inventory = self._node.allocator.inventory.devices
            only = {device.key: "" for device in inventory if device.kind not in alone}
            only |= {key: vf for key, vf in left.items() if key[0] in alone}
            only = only if self._only is None else {key: vf for key, vf in only.items() if key in self._only}
        within = self._node.within(nodes)
        attempt = DeviceAttempt(self._node.allocator, self.question, self._held.usage, within, only, kept=kept)
        answer = attempt.run()
        if isinstance(answer, CannotAllocate):
            return None
        grants = attempt.cheapest(answer).grants if kept else answer.grants
        return FoundAllocation(replace(answer, grants=grants), left=tuple(g for g in grants if _is_one_of(g, left)))

    def _best(self, context: PlacementContext, within: int | None) -> FoundAllocation | CannotAllocate:
        attempt, first = self._anywhere if within is None else self._attempt(within)
        if isinstance(first, CannotAllocate):
            return first
        room = node_room(context, self._node.nodes)
        touched = self._node.touched(first.grants)
        width, lacks = touched.bit_count(), room.shortage(touched)
        found = lacks, self._apart(touched)
        tried = 0
        for size in range(1, width + (lacks.is_short or width > 1)):  # one node that lacks nothing is best
            best: tuple[tuple[Shortage, int], tuple[int, ...], DeviceAllocation] | None = None
            sets = (
                (shortage, self._apart(nodes), nodes) for shortage, nodes in self._sets(room, attempt, within, size)
            )
            for shortage, apart, nodes in sorted(sets):
                key = shortage, apart
                # In order of what they lack: once one has served, those that lack more are no better.
                if tried == MOST_SETS or (best is not None and key > best[0]) or (size == width and key >= found):
                    break
                tried += 1
                answer = self._attempt(nodes)[1]
                # Partition, closeness and links count before room (docs/adr/0016-device-allocation.md).
                if isinstance(answer, DeviceAllocation) and _rank(answer) <= _rank(first):
                    spread = (*self._spread(answer), nodes)
                    best = (key, spread, answer) if best is None or (key, spread) < best[:2] else best
            if best is not None:
                return FoundAllocation(attempt.cheapest(best[2]), passed_over=touched if best[0][0] < lacks else 0)
        return FoundAllocation(attempt.cheapest(first))

    def _apart(self, nodes: int) -> int:
        """Return how far these nodes, a mask, are from each other: the sum of the distances of each two of them."""
        return sum(starmap(self._node.distance, combinations(NodeSet(nodes), 2)))

    def _sets(
        self, room: NodeRoom, attempt: DeviceAttempt, within: int | None, size: int
    ) -> list[tuple[Shortage, int]]:
        """Return the sets of so many nodes that have enough devices, those with the most room first."""
        found = [
            (count, [self._node.nodes_at(candidate.device.key) for candidate in usable])
            for count, usable in attempt.found.values()
        ]
        any_at = reduce(or_, (at for _, all_at in found for at in all_at), 0)
        useful = any_at if within is None else any_at & within

        def has_enough(nodes: int) -> bool:
            return all(sum(not at or bool(at & nodes) for at in all_at) >= count for count, all_at in found)

        return sets_by_room(room, tuple(NodeSet(useful)), size, has_enough)

    def _spread(self, answer: DeviceAllocation) -> Iterator[int]:
        """Yield what tells equally good choices apart: what stays of partitions, PCIe groups, idle nodes and groups."""
        allocator, used = self._node.allocator, self._held.usage.used
        groups = {(allocator.group_of[grant.key], grant.kind) for grant in answer.grants}
        kinds = {kind for _, kind in groups}
        used_nodes = {allocator.groups[group].numa for group, kind in used if kind in kinds}
        yield sum(choice.by_rest for choice in answer.choices)
        yield len({group for group, _ in groups})
        yield len({allocator.groups[group].numa for group, _ in groups} - used_nodes)
        yield len(groups - used)


def _rank(answer: DeviceAllocation) -> tuple[tuple[bool, int, int, int], ...]:
    return tuple(choice.rank for choice in answer.choices)


def _is_one_of(grant: DeviceGrant, left: Mapping[DeviceKey, str]) -> bool:
    """Return whether a grant is of a device that is left: of another VF of it, it is not."""
    vf = left.get(grant.key)
    return vf is not None and (not vf or not grant.vf or grant.vf == vf)
