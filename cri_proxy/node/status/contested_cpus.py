"""Containers that may run on CPUs which another one owns: not pinned by cri-proxy, or not yet updated."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Final, Self

from cri_proxy.node.ledger.ledger import Ledger
from cri_proxy.node.sync.adoption import LeftAlone
from cri_proxy.state.decisions import name_of
from cri_proxy.state.rows import Row
from policies.base import ContainerKey

ANYWHERE: Final = -1
"""The mask of all possible CPUs."""


@dataclass(frozen=True, slots=True)
class Other:
    """A container and the CPUs it may use, as a mask. ``key`` is None for those known by name only."""

    name: str
    mask: int
    key: ContainerKey | None = None

    def is_of(self, row: Row) -> bool:
        """Return whether this is the same container."""
        return self.key == row.key if self.key is not None else self.name == str(name_of(row.grant.request))


@dataclass(frozen=True, slots=True)
class Others:
    """Containers that may be on CPUs of others. ``mask`` is the union of their masks.

    An owner whose CPUs are outside ``mask`` needs no look at the members, however many they are.
    """

    members: tuple[Other, ...] = ()
    mask: int = 0

    @classmethod
    def of(cls, members: Iterable[Other]) -> Self:
        """Combine these containers."""
        all_of_them = tuple(members)
        return cls(all_of_them, reduce(or_, (other.mask for other in all_of_them), 0))

    @classmethod
    def of_left(cls, left: Iterable[LeftAlone]) -> Self:
        """Combine containers that are left alone, each with its own CPUs."""
        return cls.of(Other(each.name, ANYWHERE if each.cpus is None else each.cpus.mask) for each in left)

    def on(self, row: Row) -> tuple[str, ...]:
        """Return the names of those that may be on CPUs which this container owns."""
        owned = self._met(row)
        return tuple([m.name for m in self.members if m.mask & owned and not m.is_of(row)]) if owned else ()

    def is_on(self, row: Row) -> bool:
        """Return whether any may be on CPUs which this container owns."""
        owned = self._met(row)
        return bool(owned) and any(m.mask & owned and not m.is_of(row) for m in self.members)

    def _met(self, row: Row) -> int:
        """Return the CPUs that the container owns and any of these may be on."""
        return (row.grant.exclusive.mask | row.grant.isolated.mask) & self.mask


def unpinned(ledger: Ledger, left: Sequence[LeftAlone]) -> tuple[LeftAlone, ...]:
    """Return containers whose cpuset is not written: preserved ones, and those ``left`` alone, with their CPUs."""
    desired = ledger.desired()
    ours = [
        LeftAlone(str(name_of(row.grant.request)), row.known.cpus)
        for row in ledger.active()
        if (pinning := desired.get(row.grant.request.container)) is not None and pinning.cpus is None
    ]
    return (*ours, *left)


def late(ledger: Ledger, unmet: Sequence[Row]) -> tuple[Other, ...]:
    """Return those of the ``unmet`` whose cpuset is written, with the CPUs they may be on: all if not confirmed."""
    desired, found = ledger.desired(), []
    for row in unmet:
        wanted, known = desired.get(row.key), row.acknowledged
        if wanted is not None and wanted.cpus is not None:
            cpus = ANYWHERE if known is None else known.cpus.mask if known.cpus is not None else 0
            found.append(Other(str(name_of(row.grant.request)), cpus, row.key))
    return tuple(found)
