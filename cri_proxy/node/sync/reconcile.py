"""Compare saved rows with the runtime's lists: what is kept, gone, unknown, and abandoned before its start. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from cri_proxy.cri.annotations.affinity import bounded_affinities
from cri_proxy.node.sync.runtime_state import LiveContainer, LiveNode
from cri_proxy.state.rows import Row
from policies.base import ContainerKey

# How long after the creation of a container its kubelet asks for its start: as soon as the creation is answered. For
# that answer it waits runtimeRequestTimeout (2 minutes by default), for the start's as long again.
START_WITHIN_SECONDS = 240.0


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
    rows = sorted(saved, key=lambda r: r.key)
    matches = [_reconciled(row, newest.get(row.key), node) for row in rows]
    kept = tuple(_bounded(match) for match in matches if match is not None)
    dropped = tuple(row.key for row, match in zip(rows, matches, strict=True) if match is None)
    held = {row.container_id for row in kept if row.state != "exited"}
    # A created container that was stopped, or replaced by an attempt that has ended, holds nothing until it runs.
    remembered = {row.key for row in kept if row.container_id}
    unknown = tuple(
        container
        for key, container in sorted(newest.items())
        if container.id not in held and (container.state == "running" or key not in remembered)
    )
    return Reconciled(kept, dropped, unknown)


def _bounded(row: Row) -> Row:
    """Return a saved row without affinities that no container could have today."""
    request = row.grant.request
    affinities = bounded_affinities(request.affinities)
    if affinities == request.affinities:
        return row
    return replace(row, grant=replace(row.grant, request=replace(request, affinities=affinities)))


def with_abandoned(node: LiveNode, now_seconds: float, is_starting: Callable[[str], bool]) -> LiveNode:
    """Return the lists with those created containers marked that no kubelet starts any more.

    A kubelet starts what it has created at once (kuberuntime, startContainer); one that it finds created it replaces by
    another attempt (ShouldContainerBeRestarted). So these are containers with a newer attempt, whatever became of that,
    and those of START_WITHIN_SECONDS ago; ``is_starting``: whether one is being started all the same.
    """
    newest_ns: dict[ContainerKey, int] = {}
    for container in node.containers:
        newest_ns[container.key] = max(newest_ns.get(container.key, 0), container.created_at_ns)

    def is_abandoned(container: LiveContainer) -> bool:
        if container.state != "created" or is_starting(container.id):
            return False
        return newest_ns[container.key] > container.created_at_ns or not _may_be_started(container, now_seconds)

    marked = (replace(c, is_abandoned=True) if is_abandoned(c) else c for c in node.containers)
    return replace(node, containers=tuple(marked))


def _may_be_started(container: LiveContainer, now_seconds: float) -> bool:
    """Return whether a created container is new enough, or its age is not known.

    A creation in the future was timed by a clock that has been set back since: that tells no age below the bound.
    """
    age_seconds = now_seconds - container.created_at_ns / 1e9
    return container.created_at_ns <= 0 or abs(age_seconds) < START_WITHIN_SECONDS


def newest_by_key(containers: Iterable[LiveContainer]) -> dict[ContainerKey, LiveContainer]:
    """Return the live containers, one a name, without remnants of older attempts."""
    # By id last: two of the same moment are in the same order after a restart.
    live = sorted((c for c in containers if c.is_live), key=lambda c: (c.created_at_ns, c.id))
    return {container.key: container for container in live}


def _reconciled(row: Row, live: LiveContainer | None, node: LiveNode) -> Row | None:
    # Five cases: known and alive; created while we were away; perhaps one that cannot be read; gone, or never created
    # and with devices, but its pod is still there; gone.
    if live is not None and row.container_id == live.id and row.state != "exited":
        # Its start was not observed: what was written during it may be lost and is sent again.
        unseen = row.acknowledged if (row.state, live.state) == ("created", "running") else None
        return replace(row, state=live.state, unconfirmed=row.unconfirmed or unseen)
    if live is not None and not row.container_id and row.sandbox_id == live.sandbox_id:
        return replace(row, state=live.state, container_id=live.id, acknowledged=None, unconfirmed=None, displaced=())
    if live is None and node.unreadable and row.state != "exited":
        return row if row.container_id else replace(row, state="pending")
    if (row.container_id or row.grant.devices) and row.sandbox_id in node.sandboxes:
        # One that was never created keeps its devices for its pod, and no container for it.
        displaced = row.displaced if row.container_id else ()
        return replace(row, state="exited", acknowledged=None, unconfirmed=None, displaced=displaced)
    return None
