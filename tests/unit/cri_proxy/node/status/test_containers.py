from dataclasses import replace

import pytest

from cri_proxy.node.ledger.ledger import Ledger
from cri_proxy.node.status.containers import (
    Moment,
    container_view,
    device_views,
    memory_views,
    reserved_warning,
    violations,
)
from cri_proxy.node.status.model import ContainerView, DeviceHolderView, DeviceUseView, HugePageView
from cri_proxy.node.sync.adoption import LeftAlone
from cri_proxy.state.rows import Row
from policies.base import Allocations, ContainerKey, CpuKind, Grant, HugePageLimit
from policies.devices import DeviceInventory, JoinedDevices
from policies.pod_share import PodShare
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.descriptions.machine import describe
from tests.fakes.device_policy import inventory, listed
from tests.fakes.grants import ledger_with, request, row
from tests.fakes.views import container, pool

OWNER = row("a", owned="2-3", acknowledged="2-3")
TWO_PAGES = HugePageLimit(2 << 20, 4 << 20)
LATE = row("s", acknowledged="1-7")  # its shared set no longer has the owner's CPUs


def shown(ledger: Ledger, of: Row, failures: dict[ContainerKey, str] | None = None) -> ContainerView:
    pools = [pool("root", "", "1", free_mcpu=0, mems="0")]
    return container_view(of, Moment.of(ledger, pools, failures=failures or {}))


def test_who_is_still_on_its_cpus_is_named() -> None:
    assert shown(ledger_with(OWNER, LATE), OWNER).waits_for == ("default/pod-1/s",)


def test_nobody_is_named_once_all_are_where_they_should_be() -> None:
    settled = replace(LATE, acknowledged=ledger_with(OWNER, LATE).desired()[LATE.key])
    assert shown(ledger_with(OWNER, settled), OWNER).waits_for == ()


def test_what_the_runtime_has_stands_beside_what_it_should_have() -> None:
    view = shown(ledger_with(OWNER, LATE), LATE)
    assert (str(view.cpus), str(view.acknowledged_cpus), str(view.home_mems)) == ("1,4-7", "1-7", "0")


def test_a_refused_update_is_said_instead_of_one_that_waits() -> None:
    view = shown(ledger_with(OWNER, LATE), LATE, {LATE.key: "stuck"})
    assert view.notes == ("the runtime rejected its update: stuck",)


def test_a_container_without_booked_cpu_time_says_what_it_asks_for() -> None:
    late = row("s", acknowledged="1-7")
    late = replace(late, grant=replace(late.grant, request=request("s", 500)))
    view = shown(ledger_with(late), late)
    assert (view.is_overcommitted, view.notes) == (
        True, ("overcommitted: no CPU reservation for its request of 500m",),
    )  # fmt: skip
    assert not shown(ledger_with(OWNER), OWNER).is_overcommitted


def test_a_running_owner_that_is_not_alone_is_a_violation() -> None:
    view = shown(ledger_with(OWNER, LATE), OWNER)
    assert len(violations([view])) == 1
    assert violations([replace(view, state="created")]) == ()


def test_a_container_that_the_kernel_moved_onto_its_cpus_is_a_violation_and_one_left_alone_is_not() -> None:
    mover = LeftAlone("default/pod-1/m", CpuSet.parse("0-6"))
    view = replace(shown(ledger_with(OWNER), OWNER), reachable_by=(mover.name,))
    (sentence,) = violations([view], [mover])
    assert sentence.endswith("does not have its CPUs 2-3 alone: still used by default/pod-1/m")
    assert violations([view]) == ()


def test_memory_is_promised_alone_or_together_with_other_nodes() -> None:
    machine = describe({"packages": 2, "cores": 2, "memory": "1Gi"})
    grants = [
        replace(r.grant, mems=NodeSet.parse(mems), request=replace(r.grant.request, memory_request_bytes=100))
        for r, mems in ((row("a"), "0"), (row("b"), "0-1"))
    ]
    found = [(v.node, v.promised_bytes, v.widely_promised_bytes, v.containers) for v in memory_views(machine, grants)]
    assert found == [(0, 100, 100, 2), (1, 0, 100, 1)]


def test_huge_pages_are_no_memory_and_are_promised_as_memory_is() -> None:
    machine = describe({"packages": 2, "cores": 2, "memory": "1Gi", "hugepages": {"2Mi": [64, 0]}})
    grants = [
        replace(r.grant, mems=NodeSet.parse(mems), request=replace(r.grant.request, huge_pages=(TWO_PAGES,)))
        for r, mems in ((row("a"), "0"), (row("b"), "0-1"))
    ]
    first, second = memory_views(machine, grants)
    assert (first.memory_bytes, second.memory_bytes) == ((1 << 30) - (128 << 20), 1 << 30)
    assert first.huge_pages == (HugePageView("2Mi", 128 << 20, 4 << 20, 4 << 20),)
    assert second.huge_pages == ()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ((500, 500), None),
        ((500, 501), "the reserved CPUs 0 have 1000m, and their containers ask for 1001m; raise"),
        ((500, 600, 700), "ask for 1800m; on shared CPUs meanwhile: default/web/c2; raise reservedResources.cpu, or"),
    ],
)
def test_more_asked_of_the_reserved_cpus_than_they_have_is_a_warning(asked: tuple[int, ...], said: str | None) -> None:
    kinds = ("reserved", "reserved", "shared")
    pairs = enumerate(zip(asked, kinds, strict=False))
    containers = [container(f"c{i}", kind, "0", reserved_mcpu=mcpu) for i, (mcpu, kind) in pairs]
    warnings = reserved_warning(containers, CpuSet.parse("0"))
    assert (said in warnings[0]) if said else warnings == ()
    assert reserved_warning(containers, CpuSet()) == ()


def test_containers_that_share_their_pods_cpus_ask_for_reserved_ones_together() -> None:
    sharers = [container(f"c{i}", "shared", "1", reserved_mcpu=900, shares_pod_cpus=True) for i in range(3)]
    assert reserved_warning(sharers, CpuSet.parse("0")) == ()


GPUS = tuple(f"example.com/gpu/gpu{i}" for i in range(12))


def known(*names: str) -> JoinedDevices:
    return JoinedDevices(DeviceInventory((), costs=inventory(*names)))


ONE = Grant(request("b", 1000), "root", CpuKind.SHARED, devices=listed(GPUS[10], GPUS[9]))
OTHER = Grant(request("a", 1000), "root", CpuKind.SHARED, devices=listed(GPUS[2], "nic/eth0"))


def holder(grant: Grant, *devices: str) -> DeviceHolderView:
    asked = grant.request
    return DeviceHolderView(f"{asked.pod.namespace}/{asked.pod.name}/{asked.container.name}", devices)


def test_each_type_has_those_that_are_free_and_those_that_are_held_by_whom() -> None:
    gpus, nics = device_views(known(*GPUS, "nic/eth0"), Allocations((ONE, OTHER)))
    assert (gpus.kind, gpus.present, gpus.held, gpus.unlisted) == ("example.com/gpu", 12, 3, ())
    assert gpus.free == (*GPUS[:2], *GPUS[3:9], GPUS[11])
    assert gpus.holders == (holder(OTHER, GPUS[2]), holder(ONE, GPUS[9], GPUS[10]))
    assert nics == DeviceUseView("nic", 1, 1, holders=(holder(OTHER, "nic/eth0"),))


def test_what_no_file_lists_any_more_is_held_all_the_same() -> None:
    (gpus,) = device_views(known(GPUS[9]), Allocations((ONE,)))
    assert (gpus.present, gpus.held, gpus.free, gpus.unlisted) == (1, 2, (), (GPUS[10],))


def test_devices_that_containers_of_a_pod_share_are_held_once() -> None:
    shared = [replace(ONE, request=request(name, 1000), share=PodShare(1000)) for name in ("a", "b")]
    (gpus,) = device_views(known(*GPUS), Allocations(tuple(shared)))
    assert (gpus.held, len(gpus.free), len(gpus.holders)) == (2, 10, 2)


def test_without_cost_files_and_devices_there_is_nothing_to_see() -> None:
    assert device_views(known(), Allocations((Grant(request("a", 1000), "root", CpuKind.SHARED),))) == ()
