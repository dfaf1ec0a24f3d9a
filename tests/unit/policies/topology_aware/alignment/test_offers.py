"""What each resource offers, on two packages of two nodes of four CPUs and 16 GiB in all."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from policies.alignment import PodSums
from policies.base import CpuKind, DeviceLocality, Grant, HugePageLimit, Request
from policies.device_requests import DeviceAmount, DeviceAsk
from policies.hints import TooManyNodesError
from policies.preferences import Threads
from policies.topology_aware.alignment.device_hints import device_hints
from policies.topology_aware.alignment.offers import (
    Asked,
    ResourceHints,
    asked_of,
    cpu_hints,
    memory_hints,
    mems_of,
    share_hints,
)
from policies.topology_aware.supply.context import PlacementContext
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.descriptions.machine import describe
from sysfs.model import Machine
from tests.unit.policies.build import BURSTABLE, context_of, fill, four_nodes, request, topology_aware, tree_of

NOTHING = Asked(0, 0, ())
GI = 1 << 30
MACHINE = four_nodes()
TREE = tree_of(MACHINE, "0")


def context(wanted: Request, *grants: Grant, machine: Machine = MACHINE) -> PlacementContext:
    tree = TREE if machine is MACHINE else tree_of(machine)
    return context_of(tree, wanted, *grants, reserved="0" if machine is MACHINE else "")


def held(*requests: Request) -> tuple[Grant, ...]:
    return fill(topology_aware(MACHINE, "0"), *requests).grants


def asked(wanted: PlacementContext) -> Asked:
    return asked_of(wanted, is_of_pod=False)


def sets(offer: ResourceHints, *, preferred: bool = True) -> list[int]:
    assert isinstance(offer.hints, tuple)
    return [hint.nodes or 0 for hint in offer.hints if hint.preferred is preferred]


def only(offers: Iterable[ResourceHints]) -> ResourceHints:
    (offer,) = offers
    return offer


def test_cpus_are_offered_where_that_many_are_free_and_preferred_on_as_few_nodes_as_an_idle_machine_needs() -> None:
    wanted = context(request("a/c", 3000), *held(request("b/c", 2000)))
    offer = only(cpu_hints(wanted, asked(wanted)))
    busy = next(i for i, n in enumerate(MACHINE.nodes) if f"2 on node {n.id}" in offer.free)
    assert sets(offer) == [1 << n for n in range(4) if n != busy]
    assert (offer.resource, offer.wanted, offer.field) == ("cpu", "3 CPUs to own", "cpu_request_mcpu")


def test_shares_that_can_move_take_nothing_from_the_cpus_to_own_and_those_that_only_share_ask_for_none() -> None:
    sharer = request("s/c", 900, BURSTABLE)
    wanted = context(request("a/c", 4000), *held(sharer))
    assert len(sets(only(cpu_hints(wanted, asked(wanted))))) == 3  # all but the node with the reserved CPU
    assert list(cpu_hints(context(sharer), asked(context(sharer)))) == []


def test_no_set_is_offered_for_more_cpus_than_the_machine_can_give() -> None:
    wanted = context(request("a/c", 16000))
    assert only(cpu_hints(wanted, asked(wanted))).hints == ()
    every = context(request("a/c", 15000))
    assert sets(only(cpu_hints(every, asked(every)))) == [0b1111]


def test_cpus_that_shares_in_the_whole_machine_keep_are_offered_on_no_set() -> None:
    wide = Grant(request("s/c", 3500, BURSTABLE), "root", CpuKind.SHARED, shared_mcpu=3500)
    twelve, eleven = (context(request("a/c", 1000 * count), wide) for count in (12, 11))
    assert only(cpu_hints(twelve, asked(twelve))).hints == ()
    assert sets(only(cpu_hints(eleven, asked(eleven)))) == [0b0111, 0b1011, 0b1101, 0b1110]


def test_where_shares_would_have_to_move_the_sets_without_that_are_offered_first() -> None:
    sharer = Grant(request("s/c", 900, BURSTABLE), "NUMA node #1", CpuKind.SHARED, shared_mcpu=900)
    wanted = context(request("a/c", 4000), sharer)
    assert [sets(offer) for offer in cpu_hints(wanted, asked(wanted))] == [[0b0100, 0b1000], [0b0010, 0b0100, 0b1000]]


def test_a_set_is_preferred_that_an_idle_machine_without_its_reserved_cpus_would_need() -> None:
    tree = tree_of(MACHINE, "0,4,8,12")
    wanted = context_of(tree, request("a/c", 4000), reserved="0,4,8,12")
    found = only(cpu_hints(wanted, asked(wanted)))
    assert sorted(sets(found)) == [0b0011, 0b0101, 0b0110, 0b1001, 0b1010, 0b1100]


def test_each_kind_of_cpus_that_would_do_is_offered_the_wanted_one_first() -> None:
    machine = four_nodes(isolated="6-7")
    wanted = context(request("a/c", 1000), machine=machine)
    assert [offer.wanted for offer in cpu_hints(wanted, asked(wanted))] == ["1 CPU to own, isolated", "1 CPU to own"]
    strict = context(request("a/c", 1000, require_isolated=True), machine=machine)
    assert sets(only(cpu_hints(strict, asked(strict)))) == [0b10]
    none = context(request("a/c", 1000, require_isolated=True))
    assert only(cpu_hints(none, asked(none))).hints == ()
    cores = context(request("a/c", 2000, threads=Threads.OWN_CORE))
    wishes = [offer.wanted for offer in cpu_hints(cores, asked(cores))]
    assert wishes == ["2 CPUs to own on whole cores", "2 CPUs to own"]


def test_cpus_to_share_are_offered_where_one_node_has_them() -> None:
    offer = share_hints(context(request("a/c", 2500, BURSTABLE), *held(request("b/c", 2000))))
    assert len(sets(offer)) == 3
    assert share_hints(context(request("a/c", 0, BURSTABLE))).wanted == "a CPU to share"


def test_a_node_without_cpu_time_left_is_not_offered_to_one_that_asks_for_none() -> None:
    full = Grant(request("b/c", 4000, BURSTABLE), "NUMA node #1", CpuKind.SHARED, shared_mcpu=4000)
    assert sets(share_hints(context(request("a/c", 0, BURSTABLE), full))) == [0b0001, 0b0100, 0b1000]


def test_memory_and_huge_pages_are_offered_together_to_guaranteed_pods_alone() -> None:
    machine = describe({"packages": 2, "nodes": 1, "cores": 4, "memory": "8Gi", "hugepages": {"1Gi": [0, 2]}})
    pages = (HugePageLimit(GI, GI),)
    plain = request("a/c", 1000, memory_limit_bytes=GI)
    wanted = context(replace(plain, huge_pages=pages), machine=machine)
    memory, huge = memory_hints(wanted, asked(wanted))
    assert (memory.resource, huge.resource, memory.hints == huge.hints) == ("memory", "hugepages-1Gi", True)
    assert sets(memory) == [0b10]
    assert sets(memory, preferred=False) == [0b11]
    others = context(request("a/c", 1000, BURSTABLE, memory_limit_bytes=GI), machine=machine)
    assert memory_hints(others, asked(others)) == ()


def test_memory_counts_what_is_promised_to_guaranteed_containers_where_others_can_go_elsewhere() -> None:
    machine = describe({"packages": 2, "nodes": 1, "cores": 4, "memory": "8Gi"})
    policy = topology_aware(machine)
    firm = request("g/c", 1000, memory_limit_bytes=5 * GI)
    loose = request("l/c", 100, BURSTABLE, memory_request_bytes=6 * GI)
    grants = fill(policy, firm, loose).grants
    wanted = context(request("a/c", 1000, memory_limit_bytes=4 * GI), *grants, machine=machine)
    place = next(g for g in grants if g.request is firm or g.container.pod_uid == "g").mems.mask
    assert sets(memory_hints(wanted, asked(wanted))[0]) == [0b11 & ~place]


def test_devices_that_a_container_has_are_on_the_sets_with_a_node_of_each() -> None:
    near = [DeviceLocality(f"/dev/x{i}", CpuSet(), NodeSet.of([i])) for i in (1, 2)]
    mount = DeviceLocality("/mnt/data", CpuSet(), NodeSet.of([0]))
    nic = DeviceLocality("podresapi:example.com/nic/n0", CpuSet(), NodeSet.of([3]))
    found = list(device_hints(context(request("a/c", 1000, localities=(*near, mount, nic))), NOTHING))
    assert [(offer.resource, sets(offer)) for offer in found] == [("/dev/x", [0b110]), ("example.com/nic", [0b1000])]


def test_a_device_near_cpus_of_two_nodes_is_served_by_either_and_one_near_all_says_nothing() -> None:
    socket = DeviceLocality("0000:3b:00.0", CpuSet.parse("0-7"), NodeSet())
    every = DeviceLocality("0000:3c:00.0", CpuSet.parse("0-15"), NodeSet())
    assert sets(only(device_hints(context(request("a/c", 1000, localities=(socket, every))), NOTHING))) == [0b01, 0b10]


def test_the_sums_of_a_pod_count_where_they_are_more_than_its_first_container_asks_for() -> None:
    sums = PodSums(cpu_mcpu=5000, memory_bytes=3 * GI)
    pod = context(request("a/c", 2000, memory_limit_bytes=GI, pod_sums=sums))
    assert asked_of(pod, is_of_pod=True) == Asked(5, 3 * GI, ())
    assert asked_of(pod, is_of_pod=False) == Asked(2, GI, ())
    shares = context(request("a/c", 2000, prefer_shared=True, pod_sums=sums))
    assert asked_of(shares, is_of_pod=True).whole == 0


@pytest.mark.parametrize(("own", "of_pod", "counts"), [(3, 2, 3), (2, 3, 3), (3, 0, 3), (0, 2, 2)])
def test_of_a_type_of_device_the_larger_number_of_the_container_and_its_pod_counts(
    own: int, of_pod: int, counts: int
) -> None:
    def ask(number: int) -> DeviceAsk:
        return DeviceAsk(tuple(DeviceAmount(kind, number) for kind in ("gpu", "nic") if number))

    sums = PodSums(cpu_mcpu=1000, devices=(ask(of_pod),))
    found = asked_of(context(request("a/c", 1000, devices=ask(own), pod_sums=sums)), is_of_pod=True)
    assert found.devices == ask(counts).counts


def test_memory_without_cpus_belongs_to_the_nodes_that_are_nearest() -> None:
    machine = describe(
        {"packages": 2, "nodes": 1, "cores": 2, "memory": "4Gi", "memory_nodes": [{"memory": "8Gi", "near": {0: 15}}]}
    )
    assert (mems_of(machine, 0b01), mems_of(machine, 0b10)) == (0b101, 0b010)


def test_a_set_of_many_nodes_has_what_each_of_them_has() -> None:
    machine = describe({"packages": 2, "nodes": 5, "cores": 2, "memory": "1Gi"})
    wanted = context(request("a/c", 3000, memory_limit_bytes=3 * GI), machine=machine)
    cpu, memory = only(cpu_hints(wanted, asked(wanted))), memory_hints(wanted, asked(wanted))[0]
    assert (len(sets(cpu)), set(map(int.bit_count, sets(cpu)))) == (45, {2})
    assert (len(sets(memory)), set(map(int.bit_count, sets(memory)))) == (120, {3})


def test_the_sets_of_more_than_sixteen_nodes_with_cpus_are_not_listed() -> None:
    wanted = context(request("a/c", 3000), machine=describe({"packages": 17, "cores": 2}))
    with pytest.raises(TooManyNodesError):
        list(cpu_hints(wanted, asked(wanted)))
