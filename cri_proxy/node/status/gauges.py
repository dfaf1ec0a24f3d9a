"""Compute the node's samples for /metrics at each scrape: health, configuration, CPUs, memory, containers, counters."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cri_proxy.in_force.report import FilesReport
from cri_proxy.metrics import catalog
from cri_proxy.metrics.exposition import Sample
from cri_proxy.metrics.metric import Metric
from cri_proxy.node.barrier import CLEAR_SECONDS
from cri_proxy.node.ledger.ledger import Ledger
from cri_proxy.node.node import Node
from cri_proxy.node.status.containers import Others, late, memory_views, unpinned
from cri_proxy.node.status.inventory import InventoryDeviceView, InventoryFileView, state_of
from cri_proxy.node.status.model import ConfigurationView, CostFilesView, Health
from cri_proxy.state.rows import Row
from cri_proxy.version import version
from policies.base import PoolView
from policies.topology_aware import held_twice


def health_samples(health: Health) -> Iterator[Sample]:
    """Return the results of /healthz and /readyz."""
    yield Sample(catalog.LIVE, health.is_alive)
    yield Sample(catalog.READY, health.is_ready)
    for part in health.parts:
        yield Sample(catalog.PART_HEALTHY, not part.problem, (part.name,))


def config_samples(view: ConfigurationView | None) -> Iterator[Sample]:
    """Return the state of the configuration; nothing where it cannot change."""
    if view is None:
        return
    yield from _reloads(catalog.RELOADS, view)
    yield Sample(catalog.CONFIG_INFO, 1, (view.digest or "none", version()))
    yield Sample(catalog.CONFIG_GENERATION, 1 + view.applied)
    yield Sample(catalog.RELOAD_SUCCESSFUL, view.last is None or view.last.outcome != "rejected")
    yield Sample(catalog.CONFIG_IS_KEPT, view.is_kept)
    yield Sample(catalog.CONFIG_APPLIED, round(view.since_seconds, 3))


def cost_samples(view: CostFilesView | None) -> Iterator[Sample]:
    """Return the state of the cost files; nothing where none are read."""
    if view is None or not view.directory:
        return
    states = Counter(str(file.state) for file in view.report.files)
    yield from (Sample(catalog.COST_FILES, states[state], (state,)) for state in catalog.COST_FILE_STATES)
    yield Sample(catalog.COST_DEVICES, view.device_count)
    yield from _reloads(catalog.COST_RELOADS, view.report)
    yield Sample(catalog.COST_RELOAD_SUCCESSFUL, view.report.is_good)


def inventory_samples(view: InventoryFileView | None, devices: Sequence[InventoryDeviceView]) -> Iterator[Sample]:
    """Return the state of the inventory, and of its file where one is read."""
    counts = Counter((device.type, state_of(device)) for device in devices)
    for kind in sorted({device.type for device in devices}):
        yield from (
            Sample(catalog.INVENTORY_DEVICES, counts[kind, state], (kind, state)) for state in catalog.INVENTORY_STATES
        )
    sick = Counter(device.type for device in devices if not device.is_healthy)
    yield from (Sample(catalog.UNHEALTHY_DEVICES, sick[kind], (kind,)) for kind in sorted({d.type for d in devices}))
    if view is not None:
        yield Sample(catalog.HEALTH_IS_KNOWN, not view.health_problem)
    if view is not None and view.file:
        yield from _reloads(catalog.INVENTORY_RELOADS, view.report)
        yield Sample(catalog.INVENTORY_IS_GOOD, view.report.is_good)


def _reloads(metric: Metric, view: ConfigurationView | FilesReport) -> Iterator[Sample]:
    counts = {"applied": view.applied, "unchanged": view.unchanged, "rejected": view.rejected}
    return (Sample(metric, count, (outcome,)) for outcome, count in counts.items())


@dataclass(frozen=True, slots=True)
class _Rows:
    """The figures of one walk over the ledger's active rows, CPUs as masks.

    ``dead`` are owned by containers that had ended in the runtime's last list.
    """

    kinds: Mapping[tuple[str, str], int]
    running_owners: tuple[Row, ...]
    exclusive: int
    isolated: int
    dead: int
    overcommitted: int


def node_samples(node: Node) -> Iterator[Sample]:
    """Return the node's grants, and what differs from them."""
    ledger = node.context.ledger
    rows = _walk(ledger.active(), node.resync.ended_ids)
    yield from _cpu_samples(ledger.policy.pools(ledger.allocations), rows)
    yield from _memory_samples(ledger)
    yield from _container_samples(node, rows)
    yield from _count_samples(node)


def _walk(active: Sequence[Row], ended_ids: Collection[str]) -> _Rows:
    kinds = Counter[tuple[str, str]]()
    owners, exclusive, isolated, dead, overcommitted = [], 0, 0, 0, 0
    for row in active:
        grant = row.grant
        kinds[row.state, grant.kind] += 1
        overcommitted += grant.is_overcommitted
        owned = grant.exclusive.mask | grant.isolated.mask
        if owned:
            exclusive |= grant.exclusive.mask
            isolated |= grant.isolated.mask
            if row.state == "running":
                owners.append(row)
            if row.container_id in ended_ids:
                dead |= owned
    return _Rows(kinds, tuple(owners), exclusive, isolated, dead, overcommitted)


def _cpu_samples(pools: Sequence[PoolView], rows: _Rows) -> Iterator[Sample]:
    for pool in pools:
        by_kind = _by_kind(pool, rows)
        if not pool.parent:
            yield from (Sample(catalog.CPUS, count, (kind,)) for kind, count in by_kind)
        yield from (Sample(catalog.POOL_CPUS, count, (pool.name, kind)) for kind, count in by_kind)
        yield Sample(catalog.POOL_SHARED_FREE, pool.shared_free_mcpu / 1000, (pool.name,))
        yield Sample(catalog.POOL_SHARED_GRANTED, pool.shared_granted_mcpu / 1000, (pool.name,))
        yield Sample(catalog.POOL_MEMORY, pool.memory_bytes, (pool.name,))
        yield Sample(catalog.POOL_MEMORY_FREE, pool.memory_free_bytes, (pool.name,))


def _by_kind(pool: PoolView, rows: _Rows) -> list[tuple[str, int]]:
    """Return how many of a pool's CPUs are of each kind. An owned CPU counts as owned only."""
    left, counts = pool.cpus.mask, []
    masks = (rows.exclusive, rows.isolated, pool.isolated_free.mask, pool.shared.mask, pool.reserved.mask)
    for kind, mask in zip(catalog.CPU_KINDS, masks, strict=False):
        counts.append((kind, (left & mask).bit_count()))
        left &= ~mask
    return [*counts, ("unused", left.bit_count())]


def _memory_samples(ledger: Ledger) -> Iterator[Sample]:
    for view in memory_views(ledger.policy.machine, ledger.allocations.grants):
        values: tuple[tuple[Metric, int], ...] = (
            (catalog.NODE_MEMORY, view.memory_bytes),
            (catalog.NODE_PROMISED, view.promised_bytes),
            (catalog.NODE_WIDELY_PROMISED, view.widely_promised_bytes),
            (catalog.NODE_CONTAINERS, view.containers),
        )
        yield from (Sample(metric, value, (str(view.node), view.kind)) for metric, value in values)
        for pages in view.huge_pages:
            labels = str(view.node), pages.page_size
            yield Sample(catalog.HUGE_PAGES, pages.capacity_bytes, labels)
            yield Sample(catalog.HUGE_PAGES_PROMISED, pages.promised_bytes, labels)
            yield Sample(catalog.HUGE_PAGES_WIDELY_PROMISED, pages.widely_promised_bytes, labels)


def _container_samples(node: Node, rows: _Rows) -> Iterator[Sample]:
    ledger = node.context.ledger
    states, kinds = catalog.CONTAINERS.labels
    for state in states.values:
        for kind in kinds.values:
            yield Sample(catalog.CONTAINERS, rows.kinds.get((state, kind), 0), (state, kind))
    escaped, unmet = node.drift.escaped(), ledger.unmet()
    left = node.drift.left()
    elsewhere = {each.name for each in left}
    moved, sitting = Others.of_left((*escaped, *left)), Others.of(late(ledger, unmet))
    unheld = unpinned(ledger, (*node.adoption.left(), *escaped))
    yield Sample(catalog.OVERCOMMITTED, rows.overcommitted)
    yield Sample(catalog.LATE, len(unmet))
    owners = rows.running_owners
    kept_elsewhere = {row.key for row in owners if str(row.name) in elsewhere} if elsewhere else ()
    violated = (sitting.is_on(row) or moved.is_on(row) or row.key in kept_elsewhere for row in owners)
    yield Sample(catalog.VIOLATED, sum(violated))
    yield Sample(catalog.REACHABLE, sum(unheld.is_on(row) for row in rows.running_owners))
    yield Sample(catalog.ESCAPED, len(escaped))
    yield Sample(catalog.MISREAD, node.drift.misread.count())
    yield Sample(catalog.NARROWED, node.drift.narrowed.count())
    yield Sample(catalog.DEAD_CPUS, rows.dead.bit_count())


def _count_samples(node: Node) -> Iterator[Sample]:
    """Return the figures that other parts of the node count."""
    resource_files = node.resource_files
    yield Sample(catalog.UNPLACED, len(node.adoption.unplaced()))
    left = node.adoption.left()
    claimed = sum(bool(each.reason) for each in left)
    yield Sample(catalog.LEFT_ALONE, len(left) - claimed, ("adopt",))
    yield Sample(catalog.LEFT_ALONE, claimed, ("claim",))
    yield Sample(catalog.LEFT_ALONE, len(node.drift.left()), ("other_manager",))
    ledger = node.context.ledger
    yield Sample(catalog.DEVICES_HELD_TWICE, sum(1 for _ in held_twice(ledger.allocations, ledger.policy.known)))
    yield Sample(catalog.UPDATE_REFUSED, len(node.effects.failures))
    unanswered = Counter(call.method for call in node.effects.calls.longer_than(CLEAR_SECONDS) if not call.is_presumed)
    (method,) = catalog.UNANSWERED.labels
    yield from (Sample(catalog.UNANSWERED, unanswered[name], (name,)) for name in method.values)
    yield Sample(catalog.UPDATE_CALLS, node.effects.sent)
    yield Sample(catalog.SAVES_FAILED, node.context.persistence.failures)
    yield Sample(catalog.RESOURCE_FILES, resource_files.written)
    yield Sample(catalog.RESOURCE_FILES_FAILED, resource_files.failed)
    yield Sample(catalog.COMMANDS, resource_files.notifier.run, ("ran",))
    yield Sample(catalog.COMMANDS, resource_files.notifier.failed, ("failed",))
