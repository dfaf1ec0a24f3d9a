"""Find the rows to put back after a decision that was not carried out, as they were before it. No I/O."""

from collections.abc import Iterable
from dataclasses import replace

from cri_proxy.node.ledger.ledger import ACTIVE, Ledger
from cri_proxy.state.rows import Row
from policies.base import ContainerKey


def rows_as_before(ledger: Ledger, before: Iterable[Row], own: ContainerKey) -> tuple[Row, ...]:
    """Return these rows as they were; none where others have been placed there meanwhile, and the present ones stay.

    ``own`` is the container of the decision, whose earlier attempt may be among them.
    """
    rows = tuple(restored for row in before if (restored := _as_before(ledger, row, own)) is not None)
    held = ledger.allocations.with_grants(*(row.grant for row in rows if row.state in ACTIVE))
    is_free = ledger.policy.reinstate(held).kept == tuple(grant.container for grant in held.grants)
    return rows if is_free else ()


def _as_before(ledger: Ledger, row: Row, own: ContainerKey) -> Row | None:
    """Return an earlier grant in the container's present row; None when that container is gone."""
    now = ledger.get(row.key)
    if now is None and row.key == own:
        # An earlier attempt whose own creation was under way too: the runtime is asked what became of it.
        return replace(row, state="pending") if row.state == "reserved" else row
    if now is None or now.created_order != row.created_order or now.state not in ACTIVE:
        return None
    # No decision about a container that exists changes its devices, but more of them may have become known.
    request = replace(row.grant.request, given=now.grant.request.given)
    if row.key != own and now.grant.request != request:
        return None  # resized meanwhile: what it was moved from is too little or too much
    return replace(now, grant=replace(row.grant, request=request, devices=now.grant.devices))
