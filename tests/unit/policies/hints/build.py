"""Short forms of hints for tests: nodes as they are written, an exclamation mark for preferred."""

from collections.abc import Sequence

from policies.hints import Hints
from sysfs.cpuset import NodeSet


def shown(hints: Hints) -> list[str]:
    """Return each hint as its nodes, preferred ones with an exclamation mark: ``['0!', '0-1']``."""
    assert isinstance(hints, Sequence)
    return [f"{NodeSet(hint.nodes or 0)}{'!' if hint.preferred else ''}" for hint in hints]
