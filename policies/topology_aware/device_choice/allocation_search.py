"""Search the devices of the inventory for one container: those that it had, else the best beside free CPUs. Pure.

How good a choice is by itself, ``policies.devices`` says. Of choices that are equally good, the one on the fewest NUMA
nodes is taken, and of these one whose nodes have room for the container's CPUs and memory.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_
from typing import Final

from policies.device_grants import DeviceGrant, DeviceKey
from policies.devices.allocate import (
    CannotAllocate,
    DeviceAllocation,
    DeviceAllocator,
    DeviceAttempt,
    DeviceQuestion,
)
from policies.devices.usage import Usage
from policies.topology_aware.device_choice.allocation_places import DevicePlaces, places_on
from policies.topology_aware.device_choice.allocation_supply import NodeRoom, Shortage, node_room, sets_by_room
from policies.topology_aware.supply.context import PlacementContext
from sysfs.cpuset import NodeSet

MOST_SETS: Final = 24
"""Sets of NUMA nodes that are tried for a choice with more room: one takes up to a millisecond."""


@dataclass(frozen=True, slots=True)
class FoundAllocation:
    """What was found. ``passed_over``: the nodes of the first choice, which had too little room, as a mask; 0: none."""

    answer: DeviceAllocation
    is_earlier: bool = False
    passed_over: int = 0


@dataclass(frozen=True)
class AllocationSearch:
    """The search for one container beside what other pods hold, and its own, of which it was given some itself."""

    context: PlacementContext
    allocator: DeviceAllocator
    question: DeviceQuestion
    held: tuple[DeviceGrant, ...]
    own: tuple[DeviceGrant, ...] = ()

    @cached_property
    def places(self) -> DevicePlaces:
        """Where the devices are."""
        return places_on(self.context.tree.machine, self.allocator)

    @cached_property
    def usage(self) -> Usage:
        """What is taken of them."""
        return self.allocator.usage(self.held, self.own)

    @cached_property
    def room(self) -> NodeRoom:
        """What the nodes could give the container."""
        return node_room(self.context, self.places.nodes)

    def find(self, within: int | None, earlier: Sequence[DeviceGrant]) -> FoundAllocation | CannotAllocate:
        """Return the devices on these nodes (a mask, None: anywhere): the earlier ones where they serve.

        Raises DemandError.
        """
        again = self._again(within, earlier) if earlier else None
        return FoundAllocation(again, is_earlier=True) if again is not None else self._best(within)

    def _run(self, nodes: int | None, only: Mapping[DeviceKey, str] | None = None) -> DeviceAllocation | CannotAllocate:
        return DeviceAttempt(self.allocator, self.question, self.usage, self.places.within(nodes), only).run()

    def _again(self, within: int | None, earlier: Sequence[DeviceGrant]) -> DeviceAllocation | None:
        """Return the earlier devices if they are a valid answer to the same question: free, healthy, as large."""
        answer = self._run(within, {grant.key: grant.vf for grant in earlier})
        is_same = isinstance(answer, DeviceAllocation) and set(answer.grants) == set(earlier)
        return answer if isinstance(answer, DeviceAllocation) and is_same else None

    def _best(self, within: int | None) -> FoundAllocation | CannotAllocate:
        attempt = DeviceAttempt(self.allocator, self.question, self.usage, self.places.within(within))
        first = attempt.run()
        if isinstance(first, CannotAllocate):
            return first
        touched = self.places.touched(first.grants)
        width, lacks = touched.bit_count(), self.room.shortage(touched)
        tried = 0
        for size in range(1, width + lacks.is_short):  # where it lacks nothing, only fewer nodes are better
            best: tuple[tuple[Shortage, tuple[int, ...]], DeviceAllocation] | None = None
            for shortage, nodes in self._sets(attempt, within, size):
                if tried == MOST_SETS or (best is not None and shortage > best[0][0]):
                    break
                tried += 1
                answer = first if nodes == touched else self._run(nodes)
                if isinstance(answer, DeviceAllocation) and _rank(answer) <= _rank(first):
                    key = shortage, (*self._spread(answer), nodes)
                    best = (key, answer) if best is None or key < best[0] else best
            if best is not None and (size < width or best[0][0] < lacks):
                return FoundAllocation(best[1], passed_over=touched if best[0][0] < lacks else 0)
        return FoundAllocation(first)

    def _sets(self, attempt: DeviceAttempt, within: int | None, size: int) -> list[tuple[Shortage, int]]:
        """Return the sets of so many nodes that have enough devices, those with the most room first."""
        found = [
            (count, [self.places.nodes_at(candidate.device.key) for candidate in usable])
            for count, usable in attempt.found.values()
        ]
        any_at = reduce(or_, (at for _, all_at in found for at in all_at), 0)
        useful = any_at if within is None else any_at & within

        def has_enough(nodes: int) -> bool:
            return all(sum(not at or bool(at & nodes) for at in all_at) >= count for count, all_at in found)

        return sets_by_room(self.room, tuple(NodeSet(useful)), size, has_enough)

    def _spread(self, answer: DeviceAllocation) -> Iterator[int]:
        """Yield what tells equally good choices apart: what stays of partitions, PCIe groups, those of them unused."""
        groups = {(self.allocator.group_of[grant.key], grant.kind) for grant in answer.grants}
        yield sum(choice.by_rest for choice in answer.choices)
        yield len({group for group, _ in groups})
        yield len(groups - self.usage.used)


def _rank(answer: DeviceAllocation) -> tuple[tuple[bool, int, int, int], ...]:
    return tuple(choice.choice_rank for choice in answer.choices)
