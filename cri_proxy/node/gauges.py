"""The node's state as metrics, read at each scrape: nothing is remembered, so nothing that is gone can linger."""

from collections import Counter
from collections.abc import Iterator, Sequence

from cri_proxy import metrics
from cri_proxy.exposition import Sample
from cri_proxy.http.view import ConfigurationView, Health
from cri_proxy.metrics import Metric
from cri_proxy.node.ledger import Ledger
from cri_proxy.node.node import Node
from cri_proxy.node.reachable import reachable_by, unpinned
from cri_proxy.node.showing import memory_views, sits_on
from policies.base import Grant, PoolView
from sysfs.cpuset import CpuSet


def health_samples(health: Health) -> Iterator[Sample]:
    """What /healthz and /readyz say."""
    yield Sample(metrics.LIVE, health.is_alive)
    yield Sample(metrics.READY, health.is_ready)
    for part in health.parts:
        yield Sample(metrics.PART_HEALTHY, not part.problem, (part.name,))


def config_samples(view: ConfigurationView | None) -> Iterator[Sample]:
    """What became of changed configurations; nothing where none can change."""
    if view is None:
        return
    counts = {"applied": view.applied, "unchanged": view.unchanged, "rejected": view.rejected}
    yield from (Sample(metrics.RELOADS, count, (outcome,)) for outcome, count in counts.items())
    yield Sample(metrics.CONFIG_GENERATION, 1 + view.applied)
    yield Sample(metrics.RELOAD_SUCCESSFUL, view.last is None or view.last.outcome != "rejected")
    yield Sample(metrics.CONFIG_IS_KEPT, view.is_kept)
    yield Sample(metrics.CONFIG_APPLIED, round(view.since_seconds, 3))


def node_samples(node: Node) -> Iterator[Sample]:
    """Who holds what now, and what is not as it should be."""
    ledger = node.context.ledger
    pools, grants = ledger.policy.pools(ledger.allocations), ledger.allocations.grants
    yield from _cpu_samples(pools, grants)
    yield from _memory_samples(ledger)
    yield from _container_samples(node)
    yield from _count_samples(node)


def _cpu_samples(pools: Sequence[PoolView], grants: Sequence[Grant]) -> Iterator[Sample]:
    exclusive = CpuSet.of_masks(grant.exclusive.mask for grant in grants)
    isolated = CpuSet.of_masks(grant.isolated.mask for grant in grants)
    for pool in pools:
        by_kind = _by_kind(pool, exclusive, isolated)
        if not pool.parent:
            yield from (Sample(metrics.CPUS, count, (kind,)) for kind, count in by_kind)
        yield from (Sample(metrics.POOL_CPUS, count, (pool.name, kind)) for kind, count in by_kind)
        yield Sample(metrics.POOL_SHARED_FREE, pool.shared_free_mcpu / 1000, (pool.name,))
        yield Sample(metrics.POOL_SHARED_GRANTED, pool.shared_granted_mcpu / 1000, (pool.name,))
        yield Sample(metrics.POOL_MEMORY, pool.memory_bytes, (pool.name,))
        yield Sample(metrics.POOL_MEMORY_FREE, pool.memory_free_bytes, (pool.name,))


def _by_kind(pool: PoolView, exclusive: CpuSet, isolated: CpuSet) -> list[tuple[str, int]]:
    """How many of a pool's CPUs are of each kind. One that is owned is of no other kind, whatever else it may be."""
    left, counts = pool.cpus, []
    sets = (exclusive, isolated, pool.isolated_free, pool.shared, pool.reserved)
    for kind, cpus in zip(metrics.CPU_KINDS, sets, strict=False):
        counts.append((kind, len(left & cpus)))
        left = left - cpus
    return [*counts, ("unused", len(left))]


def _memory_samples(ledger: Ledger) -> Iterator[Sample]:
    for view in memory_views(ledger.policy.machine, ledger.allocations.grants):
        values: tuple[tuple[Metric, int], ...] = (
            (metrics.NODE_MEMORY, view.memory_bytes),
            (metrics.NODE_PROMISED, view.promised_bytes),
            (metrics.NODE_WIDELY_PROMISED, view.widely_promised_bytes),
            (metrics.NODE_CONTAINERS, view.containers),
        )
        yield from (Sample(metric, value, (str(view.node), view.kind)) for metric, value in values)


def _container_samples(node: Node) -> Iterator[Sample]:
    rows = tuple(node.context.ledger.active())
    counts = Counter[tuple[str, str]]((row.state, row.grant.kind.value) for row in rows)
    states, kinds = metrics.CONTAINERS.labels
    for state in states.values:
        for kind in kinds.values:
            yield Sample(metrics.CONTAINERS, counts[state, kind], (state, kind))
    late = node.context.ledger.unmet()
    running = [row for row in rows if row.state == "running"]
    fled, unheld = node.drift.fled(), unpinned(node.context.ledger, (*node.adoption.left(), *node.drift.fled()))
    violated = sum(
        any(sits_on(node.context.ledger, other, row) for other in late) or bool(reachable_by(row, fled))
        for row in running
    )
    dead = CpuSet.of_masks(row.grant.owned.mask for row in rows if row.container_id in node.resync.ended_ids)
    yield Sample(metrics.LATE, len(late))
    yield Sample(metrics.VIOLATED, violated)
    yield Sample(metrics.REACHABLE, sum(bool(reachable_by(row, unheld)) for row in running))
    yield Sample(metrics.FLED, len(fled))
    yield Sample(metrics.DEAD_CPUS, len(dead))


def _count_samples(node: Node) -> Iterator[Sample]:
    """What other parts of the node count themselves."""
    telling = node.telling
    yield Sample(metrics.UNPLACED, len(node.adoption.unplaced()))
    yield Sample(metrics.LEFT_ALONE, len(node.adoption.left()), ("adopt",))
    yield Sample(metrics.LEFT_ALONE, len(node.drift.left()), ("other_manager",))
    yield Sample(metrics.UPDATE_REFUSED, len(node.effects.failures))
    yield Sample(metrics.UPDATE_CALLS, node.effects.sent)
    yield Sample(metrics.SAVES_FAILED, node.context.persistence.failures)
    yield Sample(metrics.TOLD, telling.written)
    yield Sample(metrics.TELLING_FAILED, telling.failed)
    yield Sample(metrics.COMMANDS, telling.notifier.run, ("ran",))
    yield Sample(metrics.COMMANDS, telling.notifier.failed, ("failed",))
