"""Choose devices of several types by their place to each other: on the same PCIe, else NUMA node, else machine.

The first type is the primary one. Each PCIe on which a primary device is taken gets a device of every other type where
it has one; where it has none, one on its NUMA node joins. As many as were asked for are taken in any case. Sets of PCIe
groups are searched exactly: a request fails only where no choice meets it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from fractions import Fraction
from itertools import chain, combinations, groupby, islice, product
from typing import Final

from policies.devices.candidates import DeviceCandidate
from policies.devices.device_types import GPU
from policies.devices.links import LinkMatrix, points_between, set_points
from policies.devices.model import PcieGroup
from policies.devices.search import GroupCounts, GroupOffer, cheapest_spread, equal_spreads
from sysfs.cpuset import gathered

MOST_LINKED_SETS: Final = 1000
"""Sets of GPUs with equal places whose links are compared, in up to 40 ms. Of eight GPUs there are 70 at most."""


class Closeness(IntEnum):
    """How near all devices of the other types are to the primary ones."""

    SAME_PCIE = 0
    SAME_NUMA_NODE = 1
    SAME_MACHINE = 2


@dataclass(frozen=True, slots=True)
class CandidateSet:
    """Devices among which the choice is free, in the order of groups and minors.

    ``by_score`` and ``by_rest`` rank partitions, which have just as many as are asked for; lower is better.
    """

    candidates: tuple[DeviceCandidate, ...]
    by_score: int = 0
    by_rest: int = 0


@dataclass(frozen=True, slots=True)
class JointPart:
    """The devices to take of a type: ``count`` devices out of one of the ``sets``."""

    kind: str
    count: int
    sets: tuple[CandidateSet, ...]


@dataclass(frozen=True, slots=True)
class _PlacedSet:
    """A set, and how many of its candidates are in each PCIe group and on each node that has any.

    ``kept`` is how many of those in a group have to be taken: those that the pod keeps.
    """

    found: CandidateSet
    groups: Mapping[int, int]
    nodes: Mapping[int, int]
    kept: Mapping[int, int]


Chosen = Mapping[str, tuple[DeviceCandidate, ...]]


@dataclass(frozen=True, slots=True)
class JointChoice:
    """The devices of each type, how close they are, and how good the choice is; ``rank`` compares those of a request.

    ``by_score`` and ``by_rest`` are those of their partitions. ``partition`` are the GPUs of the partition that was
    chosen, empty where partitions do not matter or none was free. ``link_score`` is that of the GPUs among each other,
    None where it does not count.
    """

    devices: Chosen
    closeness: Closeness = Closeness.SAME_PCIE
    by_score: int = 0
    by_rest: int = 0
    partition: tuple[int, ...] = ()
    link_score: int | None = None

    @property
    def minors(self) -> tuple[int, ...]:
        """The minors of its GPUs."""
        return tuple(sorted(candidate.device.minor for candidate in self.devices.get(GPU, ())))

    @property
    def rank(self) -> tuple[bool, int, int, int]:
        """The rank of a choice, wherever its devices are: lower is better."""
        return not self.partition, self.by_score, int(self.closeness), -(self.link_score or 0)


def _rank(way: tuple[Sequence[_PlacedSet], Closeness]) -> tuple[int, Closeness, int]:
    """Return how good sets are with the other devices this close, apart from what the groups cost; lower is better."""
    sets, closeness = way
    return sum(placed.found.by_score for placed in sets), closeness, sum(placed.found.by_rest for placed in sets)


class JointSearch:
    """The search over the PCIe groups of a machine for devices of some types; ``parts`` begin with the primary one."""

    def __init__(
        self,
        groups: Sequence[PcieGroup],
        parts: Sequence[JointPart],
        used: frozenset[tuple[int, str]],
        *,
        is_same_pcie: bool = False,
        links: LinkMatrix | None = None,
    ) -> None:
        """``used`` are the groups, with the type, of which devices are in use; they are preferred.

        ``links`` are those between the primary devices where they tell equal places apart.
        """
        self._links = links
        self._parts = parts
        self._nodes = _node_numbers(groups)
        self._closeness = (Closeness.SAME_PCIE,) if is_same_pcie else tuple(Closeness)
        kinds = {part.kind for part in parts}
        # A group of which only other types are in use is as whole as an idle one for those that are asked for.
        self._used = frozenset(group for group, kind in used if kind in kinds)
        self._used_nodes = frozenset(self._nodes[group] for group in self._used)
        self._sets = [[self._placed(found) for found in part.sets] for part in parts]
        self._groups = tuple(sorted({group for placed in self._sets[0] for group in placed.groups}))
        # One width of the group numbers for all sets, or the costs of their spreads could not be compared.
        self._largest = max((count for placed in self._sets[0] for count in placed.groups.values()), default=0)

    def _placed(self, found: CandidateSet) -> _PlacedSet:
        groups = Counter(candidate.group for candidate in found.candidates)
        nodes: Counter[int] = Counter()
        for group, count in groups.items():
            nodes[self._nodes[group]] += count
        kept = Counter(candidate.group for candidate in found.candidates if candidate.is_kept)
        return _PlacedSet(found, groups, nodes, kept)

    def choose(self) -> JointChoice | None:
        """Return the best choice; None where there is none."""
        ways = sorted(product(product(*self._sets), self._closeness), key=_rank)
        # The first rank with any way is taken, however little one of a later rank costs.
        for (score, closeness, rest), same in groupby(ways, key=_rank):
            alike = [sets for sets, _ in same]
            spreads = ((spread, sets) for sets in alike if (spread := self._spread(sets, closeness)) is not None)
            best = min(spreads, key=lambda found: found[0].cost, default=None)
            if best is not None:
                spread, sets = best
                chosen = JointChoice(self._devices([placed.found for placed in sets], spread), closeness, score, rest)
                return chosen if self._links is None else self._best_linked(self._links, chosen, alike, spread.cost)
        return None

    def _best_linked(
        self, links: LinkMatrix, chosen: JointChoice, alike: Iterable[Sequence[_PlacedSet]], cost: int
    ) -> JointChoice:
        """Return the choice of these sets at this cost with the best links, of equal ones that of the lowest groups."""
        kind = self._parts[0].kind
        numbers = sorted({c.device.minor for placed in self._sets[0] for c in placed.found.candidates})
        row = {minor: i for i, minor in enumerate(numbers)}
        points = points_between(links, numbers)

        def score(devices: Sequence[DeviceCandidate]) -> int:
            return set_points(points, [row[candidate.device.minor] for candidate in devices])

        ways = ((sets, spread) for sets in alike for spread in self._equal_spreads(sets, chosen.closeness, cost))
        first = score(chosen.devices[kind]), -cost
        for sets, spread, primary in islice(self._with_devices(ways), MOST_LINKED_SETS):
            if (key := (score(primary), -spread.cost)) > first:
                first = key
                devices = self._devices([placed.found for placed in sets], spread)
                chosen = replace(chosen, devices={**devices, kind: primary})
        return replace(chosen, link_score=first[0])

    def _equal_spreads(self, sets: Sequence[_PlacedSet], closeness: Closeness, cost: int) -> Iterator[GroupCounts]:
        offers, needs = self._offers(sets, closeness)
        return equal_spreads(offers, self._parts[0].count, needs, self._largest, cost)

    def _with_devices(
        self, ways: Iterable[tuple[Sequence[_PlacedSet], GroupCounts]]
    ) -> Iterator[tuple[Sequence[_PlacedSet], GroupCounts, tuple[DeviceCandidate, ...]]]:
        """Yield each way with each set of primary devices that it can take."""
        for sets, spread in ways:
            on_group = by_group(sets[0].found.candidates)
            taken = [(group, n) for group, n in zip(self._groups, spread.counts, strict=True) if n]
            for parts in product(*(_with_kept(on_group[group], n) for group, n in taken)):
                yield sets, spread, tuple(chain.from_iterable(parts))

    def _spread(self, sets: Sequence[_PlacedSet], closeness: Closeness) -> GroupCounts | None:
        """Return the cheapest groups for the primary devices with the others this close."""
        primary, *others = sets
        # Without a place in common no spread can meet the needs: this spares the search.
        if closeness is Closeness.SAME_PCIE and any(primary.groups.keys().isdisjoint(o.groups) for o in others):
            return None
        if closeness is Closeness.SAME_NUMA_NODE and any(primary.nodes.keys().isdisjoint(o.nodes) for o in others):
            return None
        offers, needs = self._offers(sets, closeness)
        return cheapest_spread(offers, self._parts[0].count, needs, self._largest)

    def _offers(self, sets: Sequence[_PlacedSet], closeness: Closeness) -> tuple[list[GroupOffer], tuple[int, ...]]:
        """Return what each group offers, and how many devices of the other types the groups have to give."""
        primary, *others = sets
        # Anywhere on the machine there are enough: each set has as many as are asked for.
        needs = () if closeness is Closeness.SAME_MACHINE else tuple(part.count for part in self._parts[1:])
        return [self._offer(group, primary, others, closeness) for group in self._groups], needs

    def _offer(self, group: int, primary: _PlacedSet, others: Sequence[_PlacedSet], closeness: Closeness) -> GroupOffer:
        node = self._nodes[group]
        here = tuple(other.groups.get(group, 0) for other in others)
        around = tuple(other.nodes.get(node, 0) for other in others)
        # SamePCIe is about each PCIe that gives a primary device, not about enough of the others on all of them.
        is_open = closeness > Closeness.SAME_PCIE or all(here)
        return GroupOffer(
            node,
            primary.groups.get(group, 0) if is_open else 0,
            far=around.count(0),
            unmatched=here.count(0),
            is_used=group in self._used,
            gives=here if closeness is Closeness.SAME_PCIE else (),
            node_gives=around if closeness is Closeness.SAME_NUMA_NODE else (),
            least=primary.kept.get(group, 0),
            is_node_used=node in self._used_nodes,
        )

    def _devices(self, sets: Sequence[CandidateSet], spread: GroupCounts) -> Chosen:
        primary = by_group(sets[0].candidates)
        counts = {group: count for group, count in zip(self._groups, spread.counts, strict=True) if count}
        chosen = {self._parts[0].kind: tuple(d for group, count in counts.items() for d in primary[group][:count])}
        for part, found in zip(self._parts[1:], sets[1:], strict=True):
            chosen[part.kind] = self._companions(part.count, found, tuple(counts))
        return chosen

    def _companions(self, count: int, found: CandidateSet, touched: Sequence[int]) -> tuple[DeviceCandidate, ...]:
        """Return the devices of another type for the PCIe groups of the primary ones."""
        left = by_group(found.candidates)
        matched = [group for group in touched if group in left]
        # First the devices on the PCIe groups themselves: else a group without one could take the only one of another.
        taken = [left[group].pop(0) for group in matched]
        for group in touched:
            near = [other for other in left if self._nodes[other] == self._nodes[group] and left[other]]
            if group not in matched and near:
                taken.append(left[min(near, key=lambda other: _first(left[other][0]))].pop(0))
        nodes = {self._nodes[group] for group in touched}
        rest = sorted(
            (candidate for group in left for candidate in left[group]),
            key=lambda c: (not c.is_kept, c.group not in touched, self._nodes[c.group] not in nodes, c.in_use),
        )
        taken += islice(rest, max(0, count - len(taken)))
        return tuple(taken)


def _with_kept(candidates: Sequence[DeviceCandidate], count: int) -> Iterator[tuple[DeviceCandidate, ...]]:
    """Yield each set of so many candidates of a group with all that the pod keeps, which stand first."""
    kept = tuple(candidate for candidate in candidates if candidate.is_kept)
    return ((*kept, *others) for others in combinations(candidates[len(kept) :], count - len(kept)))


def _first(candidate: DeviceCandidate) -> tuple[bool, Fraction]:
    """Return a key that sorts what the pod keeps, then what has the least in use."""
    return not candidate.is_kept, candidate.in_use


def by_group(candidates: Iterable[DeviceCandidate]) -> dict[int, list[DeviceCandidate]]:
    """Return the candidates of each PCIe group."""
    return gathered((candidate.group, candidate) for candidate in candidates)


def by_node(candidates: Iterable[DeviceCandidate], groups: Sequence[PcieGroup]) -> dict[int, list[DeviceCandidate]]:
    """Return the candidates of each NUMA node; those of a PCIe whose node is not known are on one of their own."""
    nodes = _node_numbers(groups)
    return gathered((nodes[candidate.group], candidate) for candidate in candidates)


def _node_numbers(groups: Sequence[PcieGroup]) -> list[int]:
    """Return a number for the NUMA node of each group; one whose node is not known is on a node of its own."""
    # Negative, so that it is the number of no real node.
    return [~number if group.numa is None else group.numa for number, group in enumerate(groups)]
