from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed
from cri_proxy.errors import RuntimeUnavailable
from cri_proxy.node.drift.scope_unit import ScopeUnits
from cri_proxy.node.reset import NodeReset, ResetContainer, ResetReport, everything
from policies.base import Pinning
from policies.builder import build_policy
from policies.device_grants import cost_names
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.descriptions.machine import describe
from tests.fakes.device_policy import policy_with_devices
from tests.fakes.site import Site, opened
from tests.unit.cri_proxy.node.resource_sites import site_with_files, variables
from tests.unit.cri_proxy.node.stage import direct

OWNS_2 = guaranteed("c", 2000)
SHARES = ContainerSpec("c", cpu_request_mcpu=100)
ALL = ("0-7", "0-1")


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with site_with_files(tmp_path) as site:
        yield site


async def reset(site: Site, *, is_dry: bool = False, units: ScopeUnits | None = None) -> ResetReport:
    """What a reset says of the node, where CPU 0 was reserved."""
    assert site.files_root is not None
    machine = site.policy.machine
    reset = NodeReset(site.runtime, site.store, machine, site.files_root, units=units)
    return await reset.run(machine.online, is_dry=is_dry)


class FakeUnits:
    """Implements ``ScopeUnits``; keeps what it was asked for, by container."""

    def __init__(self, problem: str = "") -> None:
        self.asked: dict[str, tuple[int, str, str]] = {}
        self._problem = problem

    async def correct(self, pid: int, container_id: str, wanted: Pinning) -> str:
        self.asked[container_id] = (pid, str(wanted.cpus), str(wanted.mems))
        return self._problem


def by_pod(report: ResetReport) -> dict[str, ResetContainer]:
    return {container.pod: container for container in report.containers}


async def test_everybody_is_on_all_cpus_and_memory_nodes_and_nothing_is_remembered(site: Site) -> None:
    await site.run("a", OWNS_2)
    await site.run("b", SHARES)
    report = await reset(site)
    assert set(site.recorded().values()) == {ALL}
    assert [(c.namespace, c.pod, c.name, c.outcome) for c in report.containers] == [
        ("default", "a", "c", "widened"),
        ("default", "b", "c", "widened"),
    ]
    assert (report.is_complete, report.dropped, site.store.load().rows, site.store.load().sandboxes) == (
        True,
        2,
        (),
        (),
    )


async def test_the_report_says_what_it_was_and_what_it_is(site: Site) -> None:
    await site.run("a", OWNS_2)
    container = by_pod(await reset(site))["a"]
    assert container.before == Pinning(CpuSet.parse("4-5"), NodeSet.parse("1"))
    assert container.after == Pinning(CpuSet.parse("0-7"), NodeSet.parse("0-1"))


async def test_no_update_is_ever_empty(site: Site) -> None:
    await site.run("a", OWNS_2)
    await reset(site)
    last = pb.UpdateContainerResourcesRequest.FromString(site.runtime.updates[-1].message).linux
    assert (last.cpuset_cpus, last.cpuset_mems, last.cpu_shares, last.cpu_quota) == (*ALL, 0, 0)


async def test_a_dry_run_changes_nothing(site: Site) -> None:
    await site.run("a", OWNS_2)
    report = await reset(site, is_dry=True)
    assert set(site.recorded().values()) == {("4-5", "1")}
    assert (by_pod(report)["a"].outcome, len(site.store.load().rows)) == ("would widen", 1)
    assert by_pod(report)["a"].after.cpus == CpuSet.parse("0-7")


def test_kernel_isolated_cpus_are_nobodys() -> None:
    machine = describe({"cores": 4, "isolated": "2-3"})
    assert everything(machine, machine.online).cpus == CpuSet.parse("0-1")


def test_cpus_outside_the_root_cgroup_are_left_out() -> None:
    assert everything(describe({"cores": 4}), CpuSet.parse("1-2")).cpus == CpuSet.parse("1-2")


async def test_a_container_without_a_set_on_record_is_wide_already(site: Site) -> None:
    await direct(site).run_pod(PodSpec("other", (SHARES,)))
    report = await reset(site)
    assert (by_pod(report)["other"].outcome, site.runtime.updates) == ("wide already", ())


async def test_a_container_that_nothing_is_known_of_is_widened_if_it_has_a_set(site: Site) -> None:
    """As one that was created while deciding failed: no row, no annotation, and the fallback's set."""

    pod = await direct(site).run_pod(PodSpec("other", (SHARES,)))
    await direct(site).update(pod.container_id("c"), pb.LinuxContainerResources(cpuset_cpus="1-3", cpuset_mems="0"))
    assert by_pod(await reset(site))["other"].after.cpus == CpuSet.parse("0-7")


async def test_the_store_lost_the_annotation_leads_to_ours(site: Site) -> None:
    await site.run("a", OWNS_2)
    site.store = type(site.store)()
    report = await reset(site)
    assert (by_pod(report)["a"].outcome, set(site.recorded().values())) == ("widened", {ALL})


@pytest.mark.parametrize("keeps_store", [True, False])
async def test_who_opted_out_is_left_as_it_is(site: Site, keeps_store: bool) -> None:
    pod = await site.run("a", OWNS_2, namespace="kube-system", **{"cri-proxy.io/cpu.preserve": "true"})
    await direct(site).update(pod.container_id("c"), pb.LinuxContainerResources(cpuset_cpus="6"))
    if not keeps_store:
        site.store = type(site.store)()
    report = await reset(site)
    assert by_pod(report)["a"].outcome == "opted out"
    assert [cpus for cpus, _ in site.recorded().values()] == ["6"]


async def test_preserved_memory_stays_where_it_is(site: Site) -> None:
    pod = await site.run("a", OWNS_2, **{"cri-proxy.io/memory.preserve": "true"})
    await direct(site).update(pod.container_id("c"), pb.LinuxContainerResources(cpuset_mems="1"))
    await reset(site)
    assert set(site.recorded().values()) == {("0-7", "1")}


async def test_a_container_that_refuses_is_told_and_its_row_is_kept_for_the_next_start_to_ask(site: Site) -> None:
    stuck: RunningPod = await site.run("a", OWNS_2)
    await site.run("b", SHARES)
    theirs = stuck.container_id("c").encode()
    site.runtime.faults.fail_next("UpdateContainerResources", 2, "busy", matches=lambda message: theirs in message)
    report = await reset(site)
    assert (by_pod(report)["a"].outcome, by_pod(report)["a"].problem) == ("refused", "busy")
    assert by_pod(report)["b"].outcome == "widened"
    assert [(row.key.name, row.acknowledged) for row in site.store.load().rows] == [("c", None)]
    assert (report.is_complete, report.dropped, len(site.store.load().sandboxes)) == (False, 1, 1)


async def test_a_container_that_vanishes_meanwhile_is_no_failure(site: Site) -> None:
    await site.run("a", OWNS_2)
    site.runtime.faults.fail_next("UpdateContainerResources", 5, "not found")
    report = await reset(site)
    assert (by_pod(report)["a"].outcome, report.is_complete, site.store.load().rows) == ("gone", True, ())


async def test_a_runtime_that_is_away_leaves_everything_as_it_is(site: Site) -> None:
    await site.run("a", OWNS_2)
    site.runtime.go_away()
    with pytest.raises(RuntimeUnavailable):
        await reset(site)
    assert len(site.store.load().rows) == 1
    site.runtime.come_back()
    await reset(site)


async def test_exited_containers_are_passed_over_and_forgotten(site: Site) -> None:
    pod = await site.run("a", OWNS_2)
    await site.kubelet.stop(pod.container_id("c"))
    await site.node.settle()
    report = await reset(site)
    assert (report.containers, report.dropped, site.store.load().rows) == ((), 1, ())


async def test_containers_read_that_they_share_everything_now(site: Site) -> None:
    pod = await site.run("a", OWNS_2)
    await reset(site)
    assert (variables(site, pod)["SHARED_CPUS"], variables(site, pod)["EXCLUSIVE_CPUS"]) == ("0-7", "")


async def test_the_next_start_finds_everybody_and_places_them_again(site: Site) -> None:
    await site.run("a", OWNS_2)
    await reset(site)
    await site.open()
    assert [cpus for cpus, _ in site.recorded().values()] == ["4-5"]


async def test_under_isolated_cpus_an_isolated_container_comes_back_to_the_others(tmp_path: Path) -> None:
    machine = describe({"cores": 4, "isolated": "2-3"})
    site = Site(build_policy("topology-aware", machine, TopologyAwareOptions(machine.online, CpuSet())))
    site.files_root = tmp_path
    await site.open()
    pod = await site.run("a", guaranteed("c", 1000))
    assert site.cpus(pod.container_id("c")) == "2"
    await reset(site)
    assert site.cpus(pod.container_id("c")) == "0-1"


async def test_the_scope_units_of_all_that_is_wide_are_corrected_also_by_a_second_run(site: Site) -> None:
    ids = [(await site.run(name, spec)).container_id("c") for name, spec in (("a", OWNS_2), ("b", SHARES))]
    await site.run("own", SHARES, namespace="kube-system", **{"cpu.preserve.cri-proxy.io/pod": "true"})
    wanted = {i: (site.runtime.node.containers[i].pid, *ALL) for i in ids}
    for outcome in ("widened", "wide already"):
        units = FakeUnits()
        report = await reset(site, units=units)
        assert units.asked == wanted
        assert (by_pod(report)["a"].outcome, report.is_complete) == (outcome, True)


async def test_a_dry_run_leaves_the_scope_units_alone(site: Site) -> None:
    await site.run("a", OWNS_2)
    units = FakeUnits()
    await reset(site, is_dry=True, units=units)
    assert units.asked == {}


async def test_what_systemd_does_not_widen_is_reported_and_its_grant_is_dropped(site: Site) -> None:
    await site.run("a", OWNS_2)
    report = await reset(site, units=FakeUnits("the next daemon-reload moves it"))
    container = by_pod(report)["a"]
    assert (container.outcome, container.problem) == ("widened", "the next daemon-reload moves it")
    assert (report.is_complete, report.dropped) == (False, 1)


async def test_devices_stay_with_their_containers_and_are_theirs_at_the_next_start(tmp_path: Path) -> None:
    gpus = ("example.com/gpu/gpu0", "example.com/gpu/gpu1")
    site = Site(policy_with_devices("example.com/gpu/gpu2", *gpus))
    site.files_root = tmp_path
    async with opened(site):
        await site.run("other", OWNS_2, **{"cri-proxy.io/device-request": "example.com/gpu=1"})
        pod = await site.run("a", OWNS_2, **{"cri-proxy.io/device-request": "example.com/gpu=1"})
        held = site.row(pod.container_id("c")).grant.devices
        assert variables(site, pod)["DEVICES"] == ",".join(cost_names(held)) == gpus[1]
        await reset(site)
        assert variables(site, pod)["DEVICES"] == gpus[1]
        await site.open()
        assert site.row(pod.container_id("c")).grant.devices == held
