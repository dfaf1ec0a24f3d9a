"""Words for people: numbers with their nouns, sets with their names, long lists cut. Pure."""

from collections.abc import Sequence

from sysfs.cpuset import IdSet


def plural(count: int, noun: str) -> str:
    """Return a number of things.

    >>> plural(1, "CPU"), plural(2, "CPU")
    ('1 CPU', '2 CPUs')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"


def numbered(noun: str, ids: IdSet) -> str:
    """Return a set with the name of what is in it.

    >>> numbered("CPU", IdSet.parse("3")), numbered("memory node", IdSet.parse("0-2"))
    ('CPU 3', 'memory nodes 0-2')
    """
    return f"{noun}{'' if len(ids) == 1 else 's'} {ids}"


def are(noun: str, ids: IdSet) -> str:
    """Return a set with the name of what is in it, and the verb.

    >>> are("CPU", IdSet.parse("3")), are("CPU", IdSet.parse("0-2"))
    ('CPU 3 is', 'CPUs 0-2 are')
    """
    return f"{numbered(noun, ids)} {'is' if len(ids) == 1 else 'are'}"


def some(names: Sequence[str], most: int, between: str = ", ") -> str:
    """Return the first of these names, and how many more there are.

    >>> some(["a", "b", "c", "d"], 3)
    'a, b, c and 1 more'
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return between.join(names[:most]) + more
