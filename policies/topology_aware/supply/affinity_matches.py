"""Count the containers in each pool that affinities match, from one decision to the next."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from typing import Final

from policies.base import Affinity, Expression, Grant
from policies.expressions import Containers
from policies.hardware.pools import PoolTree
from sysfs.cpuset import changes_between, gathered

MOST_KEPT: Final = 64
_DIGITS = bytes.maketrans(b"01", b"\0\1")  # digits as truth values
_Scoped = tuple[Expression | None, Expression]
_Counts = Mapping[int, int]
_NONE: Final[tuple[tuple[Grant, ...], _Counts]] = ((), {})


class AffinityMatches:
    """The last counts of the affinities that were asked for last: the next ones differ by few grants.

    A cache: it decides nothing, and may be asked by several threads.
    """

    def __init__(self, tree: PoolTree) -> None:
        """Start without counts."""
        self._tree: Final = tree
        self._last: dict[_Scoped, tuple[tuple[Grant, ...], _Counts]] = {}

    def by_pool(self, affinities: Sequence[Affinity], others: tuple[Grant, ...]) -> list[_Counts]:
        """Return for each affinity, which has a scope, how many of the others in each pool it matches."""
        keys = [(affinity.scope, affinity.match) for affinity in affinities]
        last = {key: self._last.get(key, _NONE) for key in keys}
        now: dict[_Scoped, tuple[tuple[Grant, ...], _Counts]] = {}
        # Affinities that were counted for the same grants are brought up to date by one comparison.
        for group in gathered((id(grants), key) for key, (grants, _) in last.items()).values():
            gone, come = changes_between(last[group[0]][0], others)
            fewer, more = self._counted(group, gone), self._counted(group, come)
            for key, less, plus in zip(group, fewer, more, strict=True):
                now[key] = others, _changed(last[key][1], less, plus)
        kept = [each for each in self._last.items() if each[0] not in now][: max(0, MOST_KEPT - len(now))]
        # One assignment of a new dictionary: another thread may be looking at the one before.
        self._last = now | dict(kept)
        return [now[key][1] for key in keys]

    def _counted(self, keys: Sequence[_Scoped], grants: Sequence[Grant]) -> Iterator[_Counts]:
        """Yield for each of these how many of the grants in each pool match."""
        there = [grant for grant in grants if grant.is_in_pool]
        places = [self._tree.by_name.get(grant.pool, 0) for grant in there]
        together = Containers([grant.request for grant in there])
        for scope, match in keys:
            found = together.matching(match) if there else 0
            found = found and (found if scope is None else found & together.matching(scope))
            yield Counter(compress(places, digits(found, len(there)))) if found else {}


def _changed(counts: _Counts, less: _Counts, plus: _Counts) -> _Counts:
    """Return the counts with some fewer and some more; those that come to nothing are left out."""
    if not less and not plus:
        return counts
    result = dict(counts)
    for pool in less.keys() | plus.keys():
        count = result.get(pool, 0) + plus.get(pool, 0) - less.get(pool, 0)
        if count:
            result[pool] = count
        else:
            result.pop(pool, None)
    return result


def digits(mask: int, count: int) -> bytes:
    """Return a truth value for each of so many bits, the lowest first."""
    return f"{mask:0{count}b}"[::-1].encode().translate(_DIGITS)
