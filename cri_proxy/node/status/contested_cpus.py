"""Who may be on CPUs that were granted to somebody alone: whose cpuset is not ours to write, or not yet written."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Self

from cri_proxy.node.ledger.ledger import Ledger
from cri_proxy.node.sync.adoption import Left
from cri_proxy.state.decisions import name_of
from cri_proxy.state.rows import Row
from policies.base import ContainerKey

ANYWHERE: Final = -1
"""The mask of all CPUs that there can be."""


@dataclass(frozen=True, slots=True)
class Other:
    """A container and where it may be, as a mask. ``key`` is None for those that we know by name only."""

    name: str
    mask: int
    key: ContainerKey | None = None

    def is_of(self, row: Row) -> bool:
        """Whether this is the same container."""
        return self.key == row.key if self.key is not None else self.name == str(name_of(row.grant.request))


@dataclass(frozen=True, slots=True)
class Others:
    """Containers that may be on CPUs of somebody else, asked about every container of the node.

    ``mask`` is where they may be together: who owns nothing of that is done with, however many they are.
    """

    members: tuple[Other, ...] = ()
    mask: int = 0

    @classmethod
    def of(cls, members: Iterable[Other]) -> Self:
        """These containers."""
        all_of_them, mask = tuple(members), 0
        for other in all_of_them:
            mask |= other.mask
        return cls(all_of_them, mask)

    @classmethod
    def of_left(cls, left: Iterable[Left]) -> Self:
        """Containers that are left alone, each where it says."""
        return cls.of(Other(each.name, ANYWHERE if each.cpus is None else each.cpus.mask) for each in left)

    def on(self, row: Row) -> tuple[str, ...]:
        """Names of those that may be on CPUs which this container owns."""
        owned = self._met(row)
        return tuple([m.name for m in self.members if m.mask & owned and not m.is_of(row)]) if owned else ()

    def is_on(self, row: Row) -> bool:
        """Whether there is anybody."""
        owned = self._met(row)
        return bool(owned) and any(m.mask & owned and not m.is_of(row) for m in self.members)

    def _met(self, row: Row) -> int:
        """Those CPUs that the container owns and any of these may be on."""
        return (row.grant.exclusive.mask | row.grant.isolated.mask) & self.mask


def unpinned(ledger: Ledger, left: Sequence[Left]) -> tuple[Left, ...]:
    """Containers whose cpuset we do not write: preserved ones, and ``left`` alone ones, each with its own CPUs."""
    desired = ledger.desired()
    ours = [
        Left(str(name_of(row.grant.request)), row.acknowledged.cpus if row.acknowledged is not None else None)
        for row in ledger.active()
        if (pinning := desired.get(row.grant.request.container)) is not None and pinning.cpus is None
    ]
    return (*ours, *left)


def reachable_by(row: Row, others: Sequence[Left]) -> tuple[str, ...]:
    """Names of those among ``others`` that can run on CPUs which this container owns."""
    return Others.of_left(others).on(row)


def late(ledger: Ledger, unmet: Sequence[Row]) -> tuple[Other, ...]:
    """Those of the ``unmet`` that are ours to move, each where the runtime may have it: anywhere if it has not said."""
    desired, found = ledger.desired(), []
    for row in unmet:
        wanted, known = desired.get(row.key), row.acknowledged
        if wanted is not None and wanted.cpus is not None:
            cpus = ANYWHERE if known is None else known.cpus.mask if known.cpus is not None else 0
            found.append(Other(str(name_of(row.grant.request)), cpus, row.key))
    return tuple(found)
