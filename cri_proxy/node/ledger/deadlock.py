"""Find containers that wait for each other's CPUs in a cycle, and mark one of each to step aside; sends nothing.

After a forced re-plan two containers can each wait for CPUs that the other still holds, and neither update may be
sent. Then one of the cycle moves to CPUs that no container owns (the root's shared set, else the reserved CPUs) until
its own are free. Where it can stay on part of its CPUs, it stays and shares them. It blocks no other container
meanwhile, so every cycle ends.
"""

from collections.abc import Collection, Mapping

from cri_proxy.node.ledger.ledger import Ledger
from cri_proxy.state.rows import Row
from policies.base import ContainerKey


def break_deadlocks(ledger: Ledger) -> tuple[ContainerKey, ...]:
    """Let containers step aside until none waits in a cycle, as far as there are CPUs for it; return them."""
    kept, aside = ledger.settle_confirmed(), []
    while (row := _first_to_step_aside(ledger, kept)) is not None:
        ledger.step_aside(row.key)
        aside.append(row.key)
    return tuple(aside)


def _first_to_step_aside(ledger: Ledger, kept: Mapping[ContainerKey, Row]) -> Row | None:
    """Return the lowest container by key that waits in a cycle and has CPUs to move to; None when there is none.

    ``kept`` are where they should be, and have former CPUs alone until others have left those that they own now.
    """
    waiting = {**kept, **{row.key: row for row in ledger.unmet() if not ledger.due(row)}}
    if len(waiting) < 2:
        return None
    waits_for = {key: ledger.waits_for(row) for key, row in waiting.items()}
    waits_for |= {key: waits_for[key].union(other.key for other in ledger.occupants(row)) for key, row in kept.items()}
    for key in _in_cycles(waits_for):
        if ledger.can_step_aside(key):
            return waiting[key]
    return None


def _in_cycles(waits_for: Mapping[ContainerKey, Collection[ContainerKey]]) -> list[ContainerKey]:
    """Return the containers in a cycle, or between two cycles, ascending: of those whose waiting is known here."""
    left = set(waits_for)
    while True:  # peel off the containers that wait for none of the rest, or that none of the rest waits for
        waited_for = {key for waiter in left for key in waits_for[waiter] if key in left}
        inner = {key for key in waited_for if any(other in left for other in waits_for[key])}
        if inner == left:
            # In order: the same history lets the same container step aside.
            return sorted(left)
        left = inner
