"""A way through for containers that wait for each other's CPUs: one of them steps aside for a while.

After a forced re-plan two containers can each wait for CPUs that the other still holds, and no update of either may
go out, for ever. Then one of the circle is *aside*: it goes to CPUs that nobody owns (the root's shared set, else the
reserved CPUs) until its own are free, or stays where it is and no longer counts as alone there. A aside container is
in nobody's way, so every circle ends.
"""

from collections.abc import Collection, Mapping

from cri_proxy.node.ledger.ledger import Ledger
from cri_proxy.state.rows import Row
from policies.base import ContainerKey


def break_deadlocks(ledger: Ledger) -> tuple[ContainerKey, ...]:
    """Park as many as it takes until nobody waits in a circle, if there are CPUs to park on; gives who was aside."""
    ledger.settle_confirmed()
    aside = []
    while (row := _first_to_step_aside(ledger)) is not None:
        ledger.step_aside(row.key)
        aside.append(row.key)
    return tuple(aside)


def _first_to_step_aside(ledger: Ledger) -> Row | None:
    """Of those who wait in a circle the lowest by key that has somewhere to go; None when there is none."""
    waiting = {row.key: row for row in ledger.unmet() if not ledger.differs(row)}
    if len(waiting) < 2:
        return None
    for key in _in_cycles({key: ledger.waits_for(row) & waiting.keys() for key, row in waiting.items()}):
        if ledger.can_step_aside(key):
            return waiting[key]
    return None


def _in_cycles(waits_for: Mapping[ContainerKey, Collection[ContainerKey]]) -> list[ContainerKey]:
    """Those who wait in a circle, or between two circles, ascending: the others are peeled off from both ends."""
    left = set(waits_for)
    while True:
        waited_for = {key for waiter in left for key in waits_for[waiter] if key in left}
        inner = {key for key in left & waited_for if any(other in left for other in waits_for[key])}
        if inner == left:
            return sorted(left)
        left = inner
