from collections import Counter
from dataclasses import replace
from pathlib import Path

from cri_proxy.cri_client.pods import ContainerSpec, guaranteed
from cri_proxy.in_force.report import FilesReport, FileState, JudgedFile
from cri_proxy.metrics import catalog
from cri_proxy.metrics.exposition import Distribution, Sample
from cri_proxy.metrics.metric import Metric, Values
from cri_proxy.node.drift.cgroups import Cgroups
from cri_proxy.node.drift.drift import Drift, DriftProbes
from cri_proxy.node.effects import BACKOFF_SECONDS
from cri_proxy.node.status.gauges import config_samples, cost_samples, health_samples, inventory_samples, node_samples
from cri_proxy.node.status.inventory import HolderView, InventoryDeviceView, InventoryFileView
from cri_proxy.node.status.model import ConfigurationView, CostFilesView, Health, HealthPart, ReloadView
from cri_proxy.node.status.view import NodeView
from cri_proxy.version import VERSION
from policies.builder import build_policy
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe
from tests.fakes.cgroup_tree import CgroupTree
from tests.fakes.site import Site
from tests.unit.cri_proxy.node.stage import background, created, entered

SHARES = ContainerSpec("c", cpu_request_mcpu=500)
EXPECTED = {("exclusive",): 2, ("shared",): 5, ("reserved",): 1}


def shown(site: Site, metric: Metric) -> dict[Values, float]:
    found = [s for s in (*node_samples(site.node), *site.journal.counters.samples()) if s.metric is metric]
    return {s.labels: s.value for s in found if s.value and not isinstance(s.value, Distribution)}


async def test_every_available_cpu_is_of_one_kind(site: Site) -> None:
    assert shown(site, catalog.CPUS) == {("shared",): 7, ("reserved",): 1}
    await site.run("a", guaranteed("c", 2000))
    assert shown(site, catalog.CPUS) == EXPECTED
    root = {labels[1:]: value for labels, value in shown(site, catalog.POOL_CPUS).items() if labels[0] == "root"}
    assert root == EXPECTED


async def test_in_every_pool_the_kinds_add_up_to_its_cpus_isolated_ones_too() -> None:
    machine = describe({"packages": 2, "cores": 6, "memory": "2Gi", "isolated": "4-5,10"})
    options = TopologyAwareOptions(machine.online, CpuSet.parse("0"))
    site = Site(build_policy("topology-aware", machine, options))
    await site.open()
    for mcpu in (1000, 2000, 1500, 3000):
        await site.run(f"p{mcpu}", guaranteed("c", mcpu))
    series = shown(site, catalog.POOL_CPUS)
    for pool in site.policy.pools(site.node.context.ledger.allocations):
        assert sum(count for (name, _), count in series.items() if name == pool.name) == len(pool.cpus)
    assert (series["root", "isolated"], series["root", "isolated_free"]) == (1, 2)


async def test_containers_with_no_cpu_time_booked_are_counted(site: Site) -> None:
    for pod in "ab":
        await site.run(pod, ContainerSpec("c", cpu_request_mcpu=3600))
    assert shown(site, catalog.OVERCOMMITTED) == {(): 1}
    assert shown(site, catalog.DECISIONS) == {("placed", "pool"): 1, ("placed", "overcommitted"): 1}


async def test_a_policy_that_pins_nobody_is_shown_as_well() -> None:
    machine = describe({"packages": 2, "cores": 2, "memory": "2Gi"})
    site = Site(build_policy("none", machine, TopologyAwareOptions(machine.online, CpuSet())))
    await site.open()
    await site.run("a", guaranteed("c", 2000))
    assert shown(site, catalog.CONTAINERS) == {("running", "preserve"): 1}
    assert sum(shown(site, catalog.CPUS).values()) == 4
    assert shown(site, catalog.DECISIONS) == {("placed", "not-managed"): 1}


async def test_what_is_gone_does_not_linger(site: Site) -> None:
    before = [s for s in node_samples(site.node) if s.metric.kind == "gauge"]
    pod = await site.run("a", guaranteed("c", 2000))
    assert shown(site, catalog.CONTAINERS) == {("running", "exclusive"): 1}
    await site.kubelet.remove_pod(pod.sandbox_id)
    await site.node.settle()
    assert [s for s in node_samples(site.node) if s.metric.kind == "gauge"] == before


async def test_a_pool_tells_what_it_granted_and_what_is_left(site: Site) -> None:
    await site.run("a", SHARES)
    granted, free = shown(site, catalog.POOL_SHARED_GRANTED), shown(site, catalog.POOL_SHARED_FREE)
    assert granted["root",] == 0.5
    assert free["root",] == 6.5


async def test_a_memory_node_tells_its_size_and_what_it_promised(site: Site) -> None:
    await site.run("a", guaranteed("c", 2000, memory_bytes=64 << 20))
    assert sum(shown(site, catalog.NODE_PROMISED).values()) == 64 << 20
    assert set(shown(site, catalog.NODE_MEMORY)) == {("0", "dram"), ("1", "dram")}


async def test_a_memory_node_tells_its_huge_pages_and_what_of_them_it_promised() -> None:
    machine = describe({"packages": 2, "cores": 4, "memory": "2Gi", "hugepages": {"2Mi": [64, 0]}})
    site = Site(build_policy("topology-aware", machine, TopologyAwareOptions(machine.online, CpuSet.parse("0"))))
    await site.open()
    await site.run("a", replace(guaranteed("c", 2000), huge_pages=(("2MB", 4 << 20),)))
    assert shown(site, catalog.HUGE_PAGES) == {("0", "2Mi"): 128 << 20}
    assert shown(site, catalog.HUGE_PAGES_PROMISED) == {("0", "2Mi"): 4 << 20}
    assert shown(site, catalog.HUGE_PAGES_WIDELY_PROMISED) == {}


async def test_one_that_has_the_rest_of_the_shared_cpus_once_it_runs_waits_for_no_update() -> None:
    machine = describe({"cores": 8})
    site = Site(build_policy("topology-aware", machine, TopologyAwareOptions(machine.online, CpuSet.parse("0"))))
    await site.open()
    container = await created(site, "a", SHARES)
    assert (site.cpus(container), shown(site, catalog.LATE)) == ("1-5", {})
    site.runtime.faults.fail_next("UpdateContainerResources", 2, "no", times=len(BACKOFF_SECONDS) + 1)
    await site.kubelet.start(container)
    await site.node.settle()
    assert (site.cpus(container), shown(site, catalog.LATE)) == ("1-5", {(): 1})


async def test_an_update_that_the_runtime_refuses_is_seen_as_such_and_as_waiting(site: Site) -> None:
    await site.run("a", SHARES)
    pod = await site.run("x", guaranteed("c", 5000))
    site.runtime.faults.fail_next("UpdateContainerResources", 2, "no", times=len(BACKOFF_SECONDS) + 1)
    await site.kubelet.remove_pod(pod.sandbox_id)
    await site.node.settle()
    assert shown(site, catalog.UPDATES)["refused",] == 1
    assert shown(site, catalog.UPDATE_REFUSED) == shown(site, catalog.LATE) == {(): 1}
    site.log.errors.clear()


async def test_a_create_that_hangs_is_reserved_until_it_is_answered(site: Site) -> None:
    gate = site.runtime.faults.block("CreateContainer")
    run = background(site.run("a", guaranteed("c", 2000)))
    await entered(gate)
    assert shown(site, catalog.CONTAINERS) == {("reserved", "exclusive"): 1}
    gate.release()
    await run
    assert shown(site, catalog.CONTAINERS) == {("running", "exclusive"): 1}


async def test_cpus_of_containers_that_the_runtime_lists_as_ended_would_show(site: Site) -> None:
    """The release that goes with every list makes it zero: the list is put in by hand to see that it would not be."""
    pod = await site.run("a", guaranteed("c", 2000))
    assert shown(site, catalog.DEAD_CPUS) == {}
    site.node.resync.ended_ids = frozenset({pod.container_id("c")})
    assert shown(site, catalog.DEAD_CPUS) == {(): 2}


async def test_after_an_exit_that_nobody_announced_the_list_releases_and_no_cpu_is_held_by_the_dead(site: Site) -> None:
    pod = await site.run("a", guaranteed("c", 2000))
    site.runtime.exit(pod.container_id("c"))
    await site.node.resync.check_all("test")
    assert site.node.resync.ended_ids == {pod.container_id("c")}
    assert shown(site, catalog.DEAD_CPUS) == {}


async def test_whoever_the_kernel_moved_onto_cpus_of_another_is_counted(tmp_path: Path, site: Site) -> None:
    ids = [(await site.run(name, guaranteed("c", 2000))).container_id("c") for name in ("a", "b")]
    tree, pid = CgroupTree(tmp_path, v1=True), site.runtime.node.containers[ids[0]].pid
    tree.write(pid, ids[0], "", "")
    tree.flee(pid, ids[0], "0-7")
    context, probes = site.node.context, DriftProbes(Cgroups(tmp_path), site.node.managers.read, lambda: 60.0)
    drift = Drift(context, site.node.effects, site.node.adoption, probes)
    await drift.check()
    site.node.drift = drift
    samples = {s.metric: s.value for s in node_samples(site.node) if not s.labels}
    assert [samples[m] for m in (catalog.ESCAPED, catalog.REACHABLE, catalog.VIOLATED)] == [1, 1, 1]


async def test_what_is_counted_of_containers_is_what_the_status_shows_of_them(site: Site) -> None:
    await site.run("free", SHARES, namespace="kube-system", **{"cpu.preserve.cri-proxy.io/pod": "true"})
    await site.run("s", SHARES)
    site.runtime.faults.fail_next("UpdateContainerResources", 2, "stuck", times=100)
    await site.run("a", guaranteed("c", 6000))
    status = NodeView(site.node, name="").status()
    reached = [c for c in status.containers if c.reachable_by and c.state == "running"]
    assert shown(site, catalog.VIOLATED) == {(): len(status.violations)} == {(): 1}
    assert shown(site, catalog.REACHABLE) == {(): len(reached)} == {(): 1}
    assert shown(site, catalog.CONTAINERS) == Counter((c.state, c.kind) for c in status.containers)
    site.log.errors.clear()


def test_health_is_a_claim_per_part() -> None:
    health = Health.of(HealthPart("recovery"), HealthPart("store", "the store fails: disk full"))
    assert list(health_samples(health)) == [
        Sample(catalog.LIVE, True),
        Sample(catalog.READY, False),
        Sample(catalog.PART_HEALTHY, True, ("recovery",)),
        Sample(catalog.PART_HEALTHY, False, ("store",)),
    ]


def configuration(*, last: str) -> dict[Metric, list[float | Distribution]]:
    view = ConfigurationView("f", "", "", 5.0, applied=2, rejected=1, last=ReloadView(7.0, last, "", "f", False))
    found: dict[Metric, list[float | Distribution]] = {}
    for sample in config_samples(view):
        found.setdefault(sample.metric, []).append(sample.value)
    return found


def test_nodes_tell_by_one_series_whether_they_run_the_same() -> None:
    views = (ConfigurationView("/etc/x.yaml", "", digest, 0.0) for digest in ("ab12", ""))
    told = [next(s for s in config_samples(view) if s.metric is catalog.CONFIG_INFO) for view in views]
    assert [(sample.value, sample.labels) for sample in told] == [(1, ("ab12", VERSION)), (1, ("none", VERSION))]


def test_a_rejected_configuration_shows_until_one_is_taken() -> None:
    assert configuration(last="rejected")[catalog.RELOAD_SUCCESSFUL] == [False]
    taken = configuration(last="applied")
    assert taken[catalog.RELOAD_SUCCESSFUL] == [True]
    assert (taken[catalog.RELOADS], taken[catalog.CONFIG_GENERATION]) == ([2, 0, 1], [3])
    assert list(config_samples(None)) == []


async def test_a_row_is_never_told_twice_with_the_same_labels(site: Site) -> None:
    await site.run("a", guaranteed("c", 2500), ContainerSpec("d", cpu_request_mcpu=500))
    series = [(s.metric.name, s.labels) for s in (*node_samples(site.node), *site.journal.counters.samples())]
    assert len(series) == len(set(series))


def test_cost_files_show_by_state_until_all_are_good() -> None:
    files = (JudgedFile("a.yaml", FileState.IN_FORCE), JudgedFile("b.yaml", FileState.KEPT, "bad"))
    report = FilesReport(5.0, files, applied=2, rejected=1)
    view = CostFilesView("/d", report, 3)
    found = {(s.metric, s.labels): s.value for s in cost_samples(view)}
    assert [found[catalog.COST_FILES, (state,)] for state in catalog.COST_FILE_STATES] == [1, 1, 0]
    assert found[catalog.COST_DEVICES, ()] == 3
    assert found[catalog.COST_RELOADS, ("applied",)] == 2
    assert found[catalog.COST_RELOAD_SUCCESSFUL, ()] == 0
    good = {s.metric: s.value for s in cost_samples(replace(view, report=replace(report, files=files[:1])))}
    assert good[catalog.COST_RELOAD_SUCCESSFUL] == 1


def test_a_directory_that_cannot_be_read_shows_although_no_file_does() -> None:
    found = {s.metric: s.value for s in cost_samples(CostFilesView("/d", FilesReport(5.0, problem="has mode 0777")))}
    assert found[catalog.COST_RELOAD_SUCCESSFUL] == 0


def test_devices_of_the_inventory_show_by_type_and_state_with_their_file() -> None:
    held = InventoryDeviceView("gpu", 0, holders=(HolderView("default/a/c", 100),))
    sick, cut = InventoryDeviceView("gpu", 2, is_healthy=False), InventoryDeviceView("gpu", 3, free=0)
    devices = (held, InventoryDeviceView("gpu", 1), sick, cut)
    view = InventoryFileView("/d", False, FilesReport(0.0, problem="does not answer", rejected=1))
    found = {(s.metric, s.labels): s.value for s in inventory_samples(view, devices)}
    states = [found[catalog.INVENTORY_DEVICES, ("gpu", state)] for state in catalog.INVENTORY_STATES]
    assert (states, found[catalog.INVENTORY_IS_GOOD, ()]) == ([1, 1, 1, 1, 0], False)
    assert found[catalog.INVENTORY_RELOADS, ("rejected",)] == 1
    assert list(inventory_samples(None, ())) == []


def test_where_no_cost_files_are_read_nothing_is_shown_of_them() -> None:
    assert [*cost_samples(None), *cost_samples(CostFilesView("", FilesReport(5.0)))] == []
