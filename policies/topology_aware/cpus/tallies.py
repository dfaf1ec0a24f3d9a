"""Count what every hardware domain can give: CPUs, those of them on wholly free cores, and odd threads. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from policies.hardware.domains import Domain, Level
from policies.hardware.pools import Pool, PoolTree


class Cost(NamedTuple):
    """The cost of own CPUs, less is better: domains in addition to those that the container is in, and siblings."""

    packages: int
    nodes: int
    caches: int
    strangers: int  # threads on cores that are shared with other containers
    siblings: int  # of these threads: 0 on cores that are broken already, 1 an idle core is broken, 2 beside reserved


@dataclass(frozen=True, slots=True)
class Tallies:
    """Per domain: CPUs that can be given, those on wholly free cores, and those on cores that have another owner.

    The sibling of a reserved CPU is in none of the last two: it is given last. ``threads``: of a wholly free core.
    """

    free: int
    give: Sequence[int]
    whole: Sequence[int]
    loose: Sequence[int]
    threads: int

    def of(self, domain: Domain) -> tuple[int, int, int]:
        """Return what this domain can give: all, on wholly free cores, on cores that are broken already."""
        i = domain.index
        return self.within(domain, self.give[i], self.whole[i], self.loose[i])

    def within(self, domain: Domain, total: int, whole: int, loose: int) -> tuple[int, int, int]:
        """Return what of this the domain can give within its limit."""
        limit = self.give[domain.index]
        return min(total, limit), min(whole, limit - limit % self.threads), min(loose, limit)

    def siblings_cost(self, domain: Domain, count: int) -> tuple[int, int]:
        """Return the last fields of ``Cost`` for this many CPUs of one domain."""
        _, whole, loose = self.of(domain)
        return siblings_cost(count, whole, loose, self.threads)


def siblings_cost(count: int, whole: int, loose: int, threads: int) -> tuple[int, int]:
    """Return (threads on shared cores, kind of the worst of them) as ``Cost`` has them: whole cores are used first."""
    used = min(whole, count) // threads * threads
    strangers = count - used
    if strangers <= loose:
        return strangers, 0
    # With no idle core left to break, only siblings of reserved CPUs remain.
    return strangers, 1 if whole > used else 2


def tallies_of(tree: PoolTree, top: Domain, pool: Pool, free: int, limits: Sequence[int]) -> Tallies:
    """Count the free CPUs below this domain; each pool below ``pool`` gives at most its limit."""
    give, whole, loose = ([0] * tree.domains.count for _ in range(3))
    last = tree.beside_reserved  # what runs on the reserved CPUs disturbs an owner
    threads = 1

    def visit(domain: Domain) -> None:
        nonlocal threads
        i, here = domain.index, domain.cpus & free
        if not here:
            return
        if domain.level is Level.CORE:
            give[i] = here.bit_count()
            if here == domain.cpus:
                whole[i] = give[i]
                threads = max(threads, give[i])
            else:
                loose[i] = (here & ~last).bit_count()
        else:
            for child in domain.children:
                visit(child)
                give[i] += give[child.index]
                whole[i] += whole[child.index]
                loose[i] += loose[child.index]
        # The limit of the pool itself is for callers, which know what else it is to give.
        owner = tree.by_hardware.get(domain.cpus)
        if owner is not None and owner != pool.index:
            give[i] = min(give[i], limits[owner])

    visit(top)
    return Tallies(free, give, whole, loose, threads)
