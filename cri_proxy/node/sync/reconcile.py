"""Reconcile saved rows with the runtime's lists: what is kept, what is gone, what is unknown (pure)."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, cast

from cri_proxy.node.sync.runtime_state import LiveContainer, LiveNode
from cri_proxy.state.rows import Row
from policies.base import ContainerKey


@dataclass(frozen=True, slots=True)
class Reconciled:
    """The result, each part sorted by container.

    ``rows`` are kept, with the runtime's state and id; the pinning of those without ``acknowledged`` must be read.
    ``dropped`` are gone. ``unknown`` are live containers without a row.
    """

    rows: tuple[Row, ...]
    dropped: tuple[ContainerKey, ...]
    unknown: tuple[LiveContainer, ...]


def reconcile(saved: Iterable[Row], node: LiveNode) -> Reconciled:
    """Compare the saved rows with the runtime's lists.

    Of two live containers of one name the newer counts; the older is a remnant that the kubelet collects.
    """
    newest = newest_by_key(node.containers)
    sandboxes = {sandbox_id for sandbox_id, _ in node.sandboxes}
    kept: list[Row] = []
    dropped: list[ContainerKey] = []
    for row in sorted(saved, key=lambda r: r.key):
        match = _reconciled(row, newest.get(row.key), row.sandbox_id in sandboxes)
        if match is None:
            dropped.append(row.key)
        else:
            kept.append(match)
    held = {row.container_id for row in kept if row.state != "exited"}
    # A container that was stopped before it ran is still listed as created; it holds nothing until it is started.
    released = {row.container_id for row in kept if row.state == "exited"}
    unknown = tuple(
        container
        for _, container in sorted(newest.items())
        if container.id not in held and (container.id not in released or container.state == "running")
    )
    return Reconciled(tuple(kept), tuple(dropped), unknown)


def newest_by_key(containers: Iterable[LiveContainer]) -> dict[ContainerKey, LiveContainer]:
    """Return the live containers, one a name, without remnants of older attempts."""
    newest: dict[ContainerKey, LiveContainer] = {}
    for container in containers:
        other = newest.get(container.key)
        if container.is_live and (
            other is None or (container.created_at_ns, container.id) > (other.created_at_ns, other.id)
        ):
            newest[container.key] = container
    return newest


def _reconciled(row: Row, live: LiveContainer | None, sandbox_exists: bool) -> Row | None:
    state = cast(Literal["created", "running"], live.state) if live is not None else None
    # Four cases: known and alive; created while we were away; gone but its pod is still there; gone.
    if live is not None and state is not None and row.container_id == live.id and row.state != "exited":
        # Its start was not observed: what was written during it may be lost and is sent again.
        unseen = row.acknowledged if (row.state, state) == ("created", "running") else None
        return replace(row, state=state, unconfirmed=row.unconfirmed or unseen)
    if live is not None and state is not None and not row.container_id and row.sandbox_id == live.sandbox_id:
        return replace(row, state=state, container_id=live.id, acknowledged=None, unconfirmed=None, displaced=())
    if row.container_id and sandbox_exists:
        return replace(row, state="exited", acknowledged=None, unconfirmed=None)
    return None
