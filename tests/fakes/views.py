"""A small node to look at: views built by hand, and a daemon that gives them."""

from dataclasses import replace

from cri_proxy.config.model import Config
from cri_proxy.metrics import catalog
from cri_proxy.metrics.exposition import Sample
from cri_proxy.node.status.decision_views import ExplainView, Explanation, FieldView, HistoryView
from cri_proxy.node.status.history import events_of
from cri_proxy.node.status.inventory import InventoryFileView
from cri_proxy.node.status.model import (
    CdiView,
    ConfigurationView,
    ContainerView,
    CostFilesView,
    Health,
    HealthPart,
    MemoryNodeView,
    StatusView,
)
from cri_proxy.node.status.names import candidates, in_namespace, readings_of, resolved
from cri_proxy.state.decisions import DecisionRecord, Granted, Outcome, PinningChange, RankedPool
from cri_proxy.steps import Steps
from policies.answers import Default, LargestFit, NodeFit
from policies.base import Affinity, ContainerKey, CpuKind, Expression, Pinning, Pod, PoolView, QosClass, Reason, Request
from policies.preferences import Preferences
from policies.topology_aware import MEANINGS, WHY_WORSE
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.descriptions.machine import describe
from sysfs.model import Machine
from sysfs.show.cpu_map import cpu_map
from tests.fakes.machines import small_machine


def pool(name: str, parent: str, shared: str, *, free_mcpu: int, mems: str, isolated: str = "") -> PoolView:
    """A pool; the root keeps CPU 0 for the system."""
    return PoolView(
        name=name,
        parent=parent,
        depth=1 if parent else 0,
        kind="package" if parent else "root",
        cpus=CpuSet.parse("0-7"),
        shared=CpuSet.parse(shared),
        isolated_free=CpuSet.parse(isolated),
        reserved=CpuSet() if parent else CpuSet.parse("0"),
        mems=NodeSet.parse(mems),
        shared_free_mcpu=free_mcpu,
        shared_granted_mcpu=500,
    )


def container(name: str, kind: str, cpus: str | None, **more: object) -> ContainerView:
    """A running container of the Guaranteed pod default/web."""
    view = ContainerView(
        namespace="default",
        pod="web",
        name=name,
        pod_uid="uid-web",
        container_id=f"id-{name}",
        qos="Guaranteed",
        state="running",
        kind=kind,
        pool="",
        cpus=None if cpus is None else CpuSet.parse(cpus),
        mems=NodeSet.of([0]),
    )
    return replace(view, **more)  # type: ignore[arg-type]  # fields of the view, by name


def status_view() -> StatusView:
    machine = describe({"packages": 2, "cores": 2, "threads": 2, "isolated": "7"})
    return StatusView(
        node="worker-1",
        policy="topology-aware",
        is_ready=True,
        pools=(
            pool("root", "", "1,4-7", free_mcpu=4500, mems="0-1"),
            replace(
                pool("socket #0", "root", "1", free_mcpu=500, mems="0"),
                memory_bytes=16 << 30,
                memory_free_bytes=15 << 30,
            ),
            pool("socket #1", "root", "4-6", free_mcpu=3000, mems="1", isolated="7"),
        ),
        containers=(
            container("c0", "exclusive", "2-3", pool="socket #0", exclusive=CpuSet.parse("2-3"), memory_bytes=1 << 30),
            container("c1", "shared", "1", pool="socket #0", shared_mcpu=500, state="created"),
            container("c2", "reserved", "0", namespace="kube-system", pod="dns", reserved_mcpu=100),
            container("c3", "preserve", None, mems=None, notes=("can reach the exclusive CPUs 2-3",)),
        ),
        warnings=("reservedResources.cpu is not set",),
        memory=(MemoryNodeView(0, "dram", 16 << 30, 1 << 30, 0, 2), MemoryNodeView(1, "pmem", 64 << 30, 0, 0, 0)),
        fits=LargestFit(4, 1, 3, 4, (NodeFit(0, 0, 1), NodeFit(1, 3, 3))),
        map=cpu_map(machine, available=machine.online, reserved=CpuSet.parse("0")),
    )


def ranked(name: str, outcome: str, why: str = "", /, **values: float) -> RankedPool:
    return RankedPool(name, tuple(values.items()), outcome, why)


def decision_record() -> DecisionRecord:
    """Two exclusive CPUs in the first socket, at the expense of another container."""
    request = Request(
        container=ContainerKey("uid-web", "c0"),
        pod=Pod("uid-web", "web", "default", QosClass.GUARANTEED),
        cpu_request_mcpu=2000,
        cpu_limit_mcpu=2000,
        memory_request_bytes=100 << 20,
        memory_limit_bytes=100 << 20,
        preferences=Preferences(prefer_isolated=False),
        affinities=(Affinity(Expression("name", "Equals", ("db",)), -5),),
        origins=(
            ("cpu_request_mcpu", "cpu_quota, cpu_period"),
            ("prefer_isolated", "cri-proxy.io/prefer-isolated-cpus"),
            ("qos", "cgroup_parent"),
        ),
    )
    return DecisionRecord(
        request=request,
        outcome=Outcome.PLACED,
        decided_at_seconds=1_700_000_000.0,
        duration_seconds=0.00084,
        reasons=(Reason("pool", "socket #0 is the deepest pool that has 2 exclusive CPUs free"),),
        ranking=(
            ranked("socket #0", "chosen", fits=1, affinity=0.0, depth=1, left=1000, first=-1),
            ranked("socket #1", "not tried", "would have less left", fits=1, affinity=0.0, depth=1, left=500, first=-2),
            ranked("root", "not tried", "is larger", fits=1, affinity=0.0, depth=0, left=4500, first=0),
        ),
        displaced=(
            PinningChange(
                "default", "web", "c1", CpuSet.parse("1"), NodeSet.of([0]), CpuSet.parse("1-3"), NodeSet.of([0])
            ),
        ),
        problems=("annotation cri-proxy.io/affinity: 'x': expected a list",),
        pools_considered=3,
        displaced_count=1,
        defaults=(Default("prefer_shared", "whole CPUs are exclusive", "topologyAware.PreferSharedCPUs=false"),),
        granted=Granted(
            "socket #0", CpuKind.EXCLUSIVE, Pinning(CpuSet.parse("2-3"), NodeSet.of([0])), exclusive=CpuSet.parse("2-3")
        ),
    )


def explanation(**changed: object) -> Explanation:
    record = replace(decision_record(), **changed)  # type: ignore[arg-type]  # fields of the record, by name
    names = ("fits", "affinity", "depth", "left", "first")
    fields = tuple(FieldView(name, MEANINGS[name], WHY_WORSE[name]) for name in names)
    return Explanation(record, status_view().containers[0], fields=fields)


class FixedDaemon:
    """Implements ``DaemonView`` with the values above; what is public may be changed."""

    def __init__(self, config: Config | None = None) -> None:
        self.is_ready = self.is_recovered = True
        self.configuration: ConfigurationView | None = None
        self.costs: CostFilesView | None = None
        self.cdi: CdiView | None = None
        self.inventory: InventoryFileView | None = None
        self._config = config if config is not None else Config()

    def health(self) -> Health:
        recovery, runtime = (
            "" if is_good else problem
            for is_good, problem in ((self.is_recovered, "not recovered"), (self.is_ready, "the runtime is away"))
        )
        return Health.of(HealthPart("recovery", recovery), HealthPart("runtime", runtime))

    def samples(self) -> tuple[Sample, ...]:
        return (Sample(catalog.READY, self.is_ready), Sample(catalog.POOL_MEMORY, 16 << 30, ("socket #0",)))

    def mark(self) -> object:
        return self.is_ready

    def status_steps(self) -> Steps[StatusView]:
        yield
        view = replace(status_view(), is_ready=self.is_ready)
        view = replace(view, configuration=self.configuration, costs=self.costs, cdi=self.cdi)
        return replace(view, inventory_file=self.inventory)

    def explain_steps(self, pod: str, container: str | None = None, namespace: str = "") -> Steps[ExplainView]:
        yield
        view = explanation()
        readings = in_namespace(readings_of(pod, container or ""), namespace)
        found = resolved({view.decision.key: view.decision.request.full_name}, readings, "")
        return ExplainView((view,) if found.keys else (), found.read_as)

    def candidates(self, pod: str, container: str | None = None) -> Steps[tuple[str, ...]]:
        decision = explanation().decision
        return candidates({decision.key: decision.request.full_name}, readings_of(pod, container or ""))

    def topology(self) -> Machine:
        return small_machine()

    def history_steps(self, since_seconds: float) -> Steps[HistoryView]:
        yield
        events = events_of(decision_record(), since_seconds)
        return HistoryView(tuple(sorted(events, key=lambda event: event.at_seconds)), 1_699_999_000.0)

    def config(self) -> Config:
        return self._config
