"""The kubelet's order among merged masks: which number of nodes, and which of the masks that have it."""

from collections.abc import Iterable
from dataclasses import dataclass

from policies.hints.search import Distances, distance_within


@dataclass(frozen=True, slots=True)
class MaskOrder:
    """The order on a machine whose nodes are ``full``; ``distances`` where closer nodes go first, else None."""

    full: int
    distances: Distances | None = None

    def rank(self, mask: int) -> tuple[int, int]:
        """Return the key among masks of the same number of nodes, least first."""
        return (0 if self.distances is None else distance_within(mask, self.distances)), mask

    def best(self, masks: Iterable[int]) -> int:
        """Return the one of fewest nodes, then of the lowest rank; 0 for no masks."""
        known = set(masks)
        size = min(map(int.bit_count, known), default=0)
        return self.best_of_size(known, size)

    def best_of_size(self, masks: Iterable[int], size: int) -> int:
        """Return the one of the lowest rank among those of this number of nodes; 0 where there is none."""
        fitting = [mask for mask in masks if mask.bit_count() == size]
        return min(fitting, default=0) if self.distances is None else min(fitting, key=self.rank, default=0)


def by_wanted_size(size: int, wanted: int) -> tuple[bool, int]:
    """Return the order of sizes where nothing is preferred: the wanted one, then smaller ones, then larger ones.

    >>> sorted(range(1, 6), key=lambda size: by_wanted_size(size, 3))
    [3, 2, 1, 4, 5]
    """
    return size > wanted, abs(size - wanted)
