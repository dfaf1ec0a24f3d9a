"""``NodeView``: status, explain, health and metrics of a node, read-only for HTTP."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, replace
from itertools import islice

from cri_proxy.config.model import Config
from cri_proxy.metrics.exposition import Sample
from cri_proxy.node.barrier import CLEAR_SECONDS
from cri_proxy.node.ledger.ledger import ACTIVE, Ledger
from cri_proxy.node.node import Node
from cri_proxy.node.status import containers, explain, model, names
from cri_proxy.node.status.decision_views import EventView, ExplainView, HistoryView
from cri_proxy.node.status.device_usage import held_twice_texts, inventory_views, misplaced_warning
from cri_proxy.node.status.explain_node import Explained, explanations
from cri_proxy.node.status.gauges import config_samples, cost_samples, health_samples, inventory_samples, node_samples
from cri_proxy.node.status.history import events_of, other_events
from cri_proxy.node.status.inventory import InventoryFileView
from cri_proxy.state.decisions import DecisionRecord, Outcome
from cri_proxy.steps import Steps, at_once, bunches
from cri_proxy.version import version
from policies.base import ContainerKey
from policies.container_name import ContainerName
from policies.policy import Policy
from sysfs.model import Machine
from sysfs.show.cpu_map import CpuMap, cpu_map

# How long a refusal is shown in the status.
LATELY_SECONDS = 3600.0
REFUSED_SHOWN = 5
GIVEN_UP_SHOWN = 5
NOT_RECOVERED = "the saved placements are not yet checked against the runtime"


class DaemonStatus:
    """A node without a daemon around it, as in the simulation; the daemon overrides what it knows more of."""

    def reaches_runtime(self) -> bool:
        """Return whether the runtime's socket answers."""
        return True

    def parts(self) -> Iterable[model.HealthPart]:
        """Return the health of the daemon's parts."""
        return ()

    def samples(self) -> Iterable[Sample]:
        """Return the daemon's metrics now."""
        return ()

    def configuration(self) -> model.ConfigurationView | None:
        """Return where the configuration stands; None where nothing can be reloaded."""
        return None

    def costs(self) -> model.CostFilesView | None:
        """Return where the cost files stand; None where none are watched."""
        return None

    def cdi(self) -> model.CdiView | None:
        """Return how containers get CDI devices; None without a runtime that runs containers."""
        return None

    def inventory(self) -> InventoryFileView | None:
        """Return where the inventory file stands; None where none is watched."""
        return None

    def warnings(self) -> tuple[str, ...]:
        """Return warnings for the operator, one sentence each."""
        return ()


class NodeView:
    """Read-only. Every answer shows one moment of the ledger."""

    def __init__(self, node: Node, *, name: str, daemon: DaemonStatus | None = None) -> None:
        """``name`` is the node's; ``daemon`` what runs around it."""
        self._node = node
        self._ledger = node.context.ledger
        self._name = name
        self._daemon = daemon or DaemonStatus()
        self._map: tuple[Policy, CpuMap] | None = None
        self._started_at_seconds = node.context.clock.now_seconds()

    def health(self) -> model.Health:
        """Return alive while this answers, and ready when decisions are made and nothing is degraded."""
        coordinator, store = self._node.coordinator, self._node.context.persistence.problem
        recovery = "" if coordinator.is_ready else coordinator.fault or NOT_RECOVERED
        runtime = "" if self._daemon.reaches_runtime() else "its socket does not answer"
        runtime = runtime or self._node.resync.problem
        return model.Health.of(
            model.HealthPart("recovery", recovery),
            model.HealthPart("runtime", f"the runtime is away: {runtime}" if runtime else ""),
            model.HealthPart("store", f"the store fails: {store}" if store else ""),
            *self._daemon.parts(),
        )

    def samples(self) -> Iterator[Sample]:
        """Return every metric's series now: counters, the node's state, the daemon's figures."""
        yield from health_samples(self.health())
        yield from config_samples(self._daemon.configuration())
        yield from cost_samples(self._daemon.costs())
        devices = inventory_views(self._ledger.policy.known, self._ledger.allocations)
        yield from inventory_samples(self._daemon.inventory(), devices)
        yield from self._node.context.journal.counters.samples()
        yield from node_samples(self._node)
        yield from self._daemon.samples()

    def status(self) -> model.StatusView:
        """Return pools and containers now."""
        return at_once(self.status_steps())

    def mark(self) -> object:
        """Return a value that differs after a change of a grant, pinning or record, of configuration or health."""
        versions = self._ledger.version, self._node.context.journal.records.version
        return *versions, self._daemon.configuration(), self.health().problems

    def status_steps(self) -> Steps[model.StatusView]:
        """Return pools and containers as of the first step: later changes do not show."""
        # Copies: the loop decides on others between two steps, and the view is of one moment.
        ledger, failures, drift = self._ledger.copy(), dict(self._node.effects.failures), self._node.drift
        escaped, kept_elsewhere = drift.escaped(), drift.left()
        left, policy = (*self._node.adoption.left(), *escaped), ledger.policy
        unanswered, health = tuple(self._node.effects.calls.longer_than(CLEAR_SECONDS)), self.health()
        misread = self._node.context.journal.records.misread()
        view = self._outline(ledger, health)
        yield
        fits = policy.largest_fit(ledger.allocations)
        yield
        moment = containers.Moment.of(
            ledger, view.pools, left=left, failures=failures, unanswered=unanswered, misread=misread
        )
        yield
        memory = containers.memory_views(policy.machine, ledger.allocations.grants)
        yield
        devices = containers.device_views(policy.known, ledger.allocations)
        inventory = inventory_views(policy.known, ledger.allocations)
        listed: list[model.ContainerView] = []
        for rows in bunches(sorted(ledger.active(), key=lambda row: astuple(row.name))):
            yield
            for row in rows:
                if moment.late.is_on(row):  # naming the others takes as long as a whole bunch
                    yield
                listed.append(containers.container_view(row, moment))
        yield
        broken = containers.violations(listed, escaped, kept_elsewhere)
        warnings = (*view.warnings, *containers.reserved_warning(listed, policy.reserved))
        warnings += misplaced_warning(policy.devices, policy.machine)
        twice = held_twice_texts(policy.known, ledger.allocations)
        warnings += tuple(f"devices: {each}" for each in (*policy.known.disagreements, *twice))
        shown = replace(view, containers=tuple(listed), memory=memory, violations=broken, warnings=warnings)
        return replace(shown, devices=devices, inventory=inventory, held_twice=twice, fits=fits, version=version())

    def _outline(self, ledger: Ledger, health: model.Health) -> model.StatusView:
        """Return what is at hand in the first step, without containers."""
        policy = ledger.policy
        refused, refused_count = self._refused()
        return model.StatusView(
            node=self._name,
            policy=policy.name,
            is_ready=health.is_ready,
            pools=policy.pools(ledger.allocations),
            containers=(),
            warnings=(*health.problems, *self._node.coordinator.config_warnings, *self._present_warnings()),
            refused=refused,
            refused_count=refused_count,
            configuration=self._daemon.configuration(),
            topology=self._node.coordinator.config.topology_manager,
            costs=self._daemon.costs(),
            cdi=self._daemon.cdi(),
            inventory_file=self._daemon.inventory(),
            map=self._cpu_map(policy),
        )

    def _cpu_map(self, policy: Policy) -> CpuMap:
        """Return the map of this policy's machine, which takes 12 ms to make for 1,792 CPUs: once for a policy."""
        if self._map is None or self._map[0] is not policy:
            shown = cpu_map(policy.machine, available=policy.available, reserved=policy.reserved)
            self._map = (policy, shown)
        return self._map[1]

    def explain(self, pod: str, container: str | None = None, namespace: str = "") -> ExplainView:
        """Return the last decision about each container that these words mean, refusals included."""
        return at_once(self.explain_steps(pod, container, namespace))

    def explain_steps(self, pod: str, container: str | None = None, namespace: str = "") -> Steps[ExplainView]:
        """Return the same as of the first step, but for records that are read later."""
        readings = names.in_namespace(names.readings_of(pod, container or ""), namespace)
        workloads = {row.key.pod_uid: row.grant.request.pod for row in self._ledger.active()}
        meant = names.resolved(self._names(), readings, self._name, workloads)
        ledger, effects = self._ledger.copy(), self._node.effects
        pools = ledger.policy.pools(ledger.allocations) if meant.keys else ()
        left = (*self._node.adoption.left(), *self._node.drift.escaped())
        admits = self._node.coordinator.config.on_shortage == "admit"
        calls = tuple(effects.calls.longer_than(CLEAR_SECONDS))
        misread = self._node.context.journal.records.misread()
        moment = containers.Moment.of(
            ledger, pools, left=left, failures=dict(effects.failures), unanswered=calls, misread=misread
        )
        records = []
        for key in meant.keys:
            yield
            records += [record] if (record := self._record(key, ledger)) is not None else []
        decisions = yield from explanations(Explained(ledger, moment, pools, records, admits))
        return ExplainView(decisions, meant.read_as)

    def _record(self, key: ContainerKey, ledger: Ledger) -> DecisionRecord | None:
        """Return the record of a container, or one of its row where none is left."""
        record, row = self._node.context.journal.records.get(key), ledger.get(key)
        if record is None and row is not None and row.state in ACTIVE:
            return DecisionRecord(row.grant.request, Outcome.RESTORED, None)
        return record

    def history_steps(self, since_seconds: float) -> Steps[HistoryView]:
        """Return what has happened since then, oldest first; each step reads a record."""
        journal, last = self._node.context.journal, self._daemon.configuration()
        others = list(other_events(journal.ended.newest, last.last if last is not None else None, since_seconds))
        found: list[EventView] = []
        for key in tuple(self._names()):
            yield
            if (record := journal.records.get(key)) is not None:
                found += events_of(record, since_seconds)
        events = sorted([*found, *others], key=lambda event: event.at_seconds)
        return HistoryView(tuple(events), self._started_at_seconds)

    def candidates(self, pod: str, container: str | None = None) -> Steps[tuple[str, ...]]:
        """Return the names that are near these words, best first, in all namespaces."""
        return names.candidates(self._names(), names.readings_of(pod, container or ""))

    def _names(self) -> Mapping[ContainerKey, ContainerName]:
        """Return every container that can be explained, by the names that people use."""
        return self._node.context.journal.records.names() | {row.key: row.name for row in self._ledger.active()}

    def topology(self) -> Machine:
        """Return the machine as discovered."""
        return self._ledger.policy.machine

    def config(self) -> Config:
        """Return the active configuration."""
        return self._node.coordinator.config

    def _refused(self) -> tuple[tuple[model.RefusedView, ...], int]:
        """Return the newest refused containers of the last hour that hold nothing, and how many there are in all."""
        records, since_seconds = (
            self._node.context.journal.records,
            self._node.context.clock.now_seconds() - LATELY_SECONDS,
        )
        keys = [
            key
            for key in records.refused_since(since_seconds)
            if (row := self._ledger.get(key)) is None or row.state not in ACTIVE
        ]
        shown = (record for key in keys[:REFUSED_SHOWN] if (record := records.get(key)) is not None)
        return explain.refused_views(shown), len(keys)

    def _present_warnings(self) -> tuple[str, ...]:
        notes = [
            f"container {container_id[:12]} runs unplaced: deciding failed when it was created, see the log"
            for container_id in self._node.adoption.unplaced()
        ]
        remnants = {row.container_id for row in self._ledger.remnants()}
        notes += [
            f"{call}; it may still come alive on CPUs {call.row.known.cpus}, which no other container gets alone"
            for call in self._node.effects.calls.longer_than()
            if call.row.container_id in remnants
        ]
        left = (each for each in self._node.adoption.left() if each.reason)
        notes += [f"container {e.name} is left on its CPUs: {e.reason}" for e in islice(left, GIVEN_UP_SHOWN)]
        given_up = self._node.adoption.given_up()
        notes += [f"container {each.name} is not pinned: {each.reason}" for each in given_up[:GIVEN_UP_SHOWN]]
        if len(given_up) > GIVEN_UP_SHOWN:
            notes.append(f"{len(given_up) - GIVEN_UP_SHOWN} more containers are not pinned for such reasons")
        notes += [
            f"{row.grant.request.full_name}: the runtime rejected its update: {failure}"
            for key, failure in sorted(self._node.effects.failures.items())
            if (row := self._ledger.get(key)) is not None
        ]
        return (*notes, *self._node.warnings(), *self._daemon.warnings())
