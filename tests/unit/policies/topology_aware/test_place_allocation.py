"""Devices of the inventory in whole decisions, through resizes, restarts and ends, on four nodes of four CPUs."""

from dataclasses import replace

from policies.alignment import PodSums, TopologyOptions, TopologyPolicy, TopologyScope
from policies.base import Allocations, CpuKind, Grant, Request
from policies.device_grants import DeviceGrant, DeviceHolding
from policies.devices import EMPTY_INVENTORY, DeviceInventory, InventoryDevice
from policies.topology_aware.policy import TopologyAware
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe
from tests.unit.policies.allocations import ask, asking, gpus_on, holding, names, whole, with_inventory
from tests.unit.policies.build import BEST_EFFORT, BURSTABLE, fill, four_nodes, placed, rejected, request

MACHINE = four_nodes()
EIGHT = gpus_on(0, 0, 1, 1, 2, 2, 3, 3)
NICS = tuple(InventoryDevice("rdma", i, node, f"p{2 * i}") for i, node in enumerate((0, 1, 2, 3)))
DEVICES = DeviceInventory((*EIGHT.devices, *NICS))
NOTHING = Allocations()


def policy_of(policy: str = "none", scope: str = "container", devices: DeviceInventory = DEVICES) -> TopologyAware:
    rules = TopologyOptions(TopologyPolicy(policy), TopologyScope(scope))
    return with_inventory(MACHINE, devices, topology=rules)


PLAIN, SINGLE, RESTRICTED, LENIENT = map(policy_of, ("none", "single-numa-node", "restricted", "best-effort"))
POD = policy_of("single-numa-node", "pod")


def devices(grant: Grant) -> str:
    return names(grant.devices)


def wanting(name: str, mcpu: int = 2000, previous: object = None, **counts: int) -> Request:
    return asking(name, ask(**counts), mcpu, previous=previous)  # type: ignore[arg-type]  # by name


def full(*nodes: int) -> Grant:
    """A container that owns all CPUs of these nodes."""
    cpus = CpuSet.of(cpu for node in nodes for cpu in range(4 * node, 4 * node + 4))
    return Grant(request("full/c", 1000 * len(cpus)), "root", CpuKind.EXCLUSIVE, cpus)


def test_own_cpus_are_on_the_node_of_the_devices() -> None:
    decision = placed(PLAIN.decide(NOTHING, asking("a/c", ask(("gpu", "rdma"), gpu=1, rdma=1), 2000)))
    assert (devices(decision.grant), str(decision.grant.owned)) == ("gpu 0, rdma 0", "0-1")
    assert decision.reasons[0].text.endswith("NUMA node 0, PCIe p0; gpu and rdma on the same PCIe")


def test_a_gpu_beside_a_full_node_loses_to_one_beside_a_free_node() -> None:
    for policy in (PLAIN, SINGLE, RESTRICTED, LENIENT):
        decision = placed(policy.decide(Allocations((full(0),)), wanting("b/c", gpu=1)))
        assert (devices(decision.grant), str(decision.grant.owned)) == ("gpu 2", "4-5")


def test_what_an_ended_container_had_its_pod_gets_again_and_no_other_pod() -> None:
    held = Allocations(holdings=(DeviceHolding("default/a/c (ended)", (whole(5),), "a"),))
    decision = placed(PLAIN.decide(held, wanting("a/d", gpu=1)))
    assert (devices(decision.grant), str(decision.grant.owned)) == ("gpu 5", "8-9")
    assert decision.reasons[0].text == "gpu 5: from an ended container of its pod, which keeps them"
    assert devices(placed(PLAIN.decide(held, wanting("b/d", gpu=1))).grant) == "gpu 4"
    more = placed(PLAIN.decide(held, wanting("a/d", gpu=2)))  # that one, and one beside it
    assert devices(more.grant) == "gpu 4, gpu 5"


def test_sharers_are_near_their_devices_too() -> None:
    held = Allocations((full(0, 1),))
    sharing = request("b/c", 500, BURSTABLE, devices=ask(gpu=1))
    assert devices(placed(PLAIN.decide(held, sharing)).grant) == "gpu 4"
    idle = request("b/c", 0, BEST_EFFORT, devices=ask(gpu=1))
    assert devices(placed(PLAIN.decide(held, idle)).grant) == "gpu 4"


def test_devices_and_cpus_of_one_node_are_kept_together_by_a_strict_policy() -> None:
    held = Allocations((full(0, 1), holding("h/c", whole(4), whole(5))))
    decision = placed(SINGLE.decide(held, wanting("b/c", gpu=2)))
    assert (devices(decision.grant), str(decision.grant.owned)) == ("gpu 6, gpu 7", "12-13")
    text = rejected(SINGLE.decide(held, wanting("b/c", gpu=3))).reason.text
    assert "gpu: wanted 3 devices, free 2 on node 0, 2 on node 1, 0 on node 2, 2 on node 3" in text


def test_best_effort_takes_what_there_is_and_says_so() -> None:
    held = Allocations((full(0), holding("h/c", *(whole(minor) for minor in range(2, 8)))))
    decision = placed(LENIENT.decide(held, wanting("b/c", gpu=1)))
    assert devices(decision.grant) == "gpu 0"
    assert not decision.grant.owned.mask & 0xF


def test_too_few_devices_are_refused_in_their_own_words_under_every_policy() -> None:
    held = Allocations((holding("h/c", *(whole(minor) for minor in range(8))),))
    for policy in (PLAIN, SINGLE, RESTRICTED, LENIENT):
        refused = rejected(policy.decide(held, wanting("b/c", gpu=1))).reason
        assert refused.code == "allocation-refused"
        assert refused.text.startswith("gpu: 1 asked for, none can be given (gpu 0-7: in use); held: gpu 0, gpu 1,")


def test_a_pod_is_kept_where_all_its_containers_find_devices() -> None:
    one, two = ask(gpu=1), ask(gpu=2)
    alone = POD.decide(Allocations((holding("h/c", whole(0)),)), asking("a/one", one))
    assert devices(placed(alone).grant) == "gpu 1"
    sums = PodSums(devices=(one, two))
    held = Allocations((holding("h/c", whole(0)),))
    wanted = replace(asking("a/one", one), pod_sums=sums)
    assert rejected(POD.decide(held, wanted)).reason.code == "strict-topology"
    assert POD.refused_pod(held, replace(wanted, preferences=request().preferences)) is not None


def test_on_machines_with_many_nodes_strict_policies_decide_as_well() -> None:
    machine = describe({"packages": 10, "cores": 2, "threads": 1, "memory": "1Gi"})
    for name in ("single-numa-node", "restricted", "best-effort"):
        rules = TopologyOptions(TopologyPolicy(name))
        policy = with_inventory(machine, gpus_on(None, 3, 7, 7), topology=rules)
        decision = placed(policy.decide(NOTHING, wanting("a/c", 1000, gpu=3)))
        assert devices(decision.grant) == "gpu 0, gpu 2, gpu 3", name
        assert decision.grant.owned <= CpuSet.parse("14-15")


def test_a_running_container_keeps_its_devices_through_sizes() -> None:
    held = fill(PLAIN, wanting("a/c", gpu=2))
    own = held.grants[0]
    for policy in (PLAIN, LENIENT, policy_of(devices=EMPTY_INVENTORY)):
        grant = placed(policy.decide(held, wanting("a/c", 3000, own.as_running, gpu=2))).grant
        assert grant.devices == own.devices
        assert own.owned <= grant.owned


def test_a_container_that_is_created_again_gets_its_devices_again() -> None:
    held = fill(PLAIN, wanting("x/c", gpu=1), wanting("a/c", gpu=2))
    own = next(grant for grant in held.grants if grant.container.pod_uid == "a")
    assert devices(own) == "gpu 2, gpu 3"
    held = held.without(held.grants[1].container)
    again = placed(PLAIN.decide(held, wanting("a/c", previous=own.as_previous, gpu=2))).grant
    assert again.devices == own.devices


def test_a_restart_changes_nothing_whatever_the_inventory_has() -> None:
    held = fill(PLAIN, wanting("a/c", gpu=2), wanting("b/c", 500, core=50))
    for found in (DEVICES, EMPTY_INVENTORY, gpus_on(3, 3)):
        result = policy_of(devices=found).reinstate(held)
        assert (result.allocations, result.replaced, result.unplaced) == (held, (), ())


def test_devices_of_two_saved_grants_stay_counted_for_both() -> None:
    claims = (holding("a/c", whole(0)), holding("b/c", whole(0)))
    found = PLAIN.reinstate(Allocations(claims))
    first, second = found.allocations.grants
    assert first.devices == (whole(0),)
    assert second.devices == (replace(whole(0), is_given=True),)
    assert [(key.pod_uid, reason.code) for key, reason in found.replaced] == [("b", "devices-lost")]
    left = found.allocations.without(first.container)
    assert devices(placed(PLAIN.decide(left, wanting("n/c", gpu=1))).grant) == "gpu 1"
    again = PLAIN.reinstate(found.allocations)
    assert (again.allocations, again.replaced) == (found.allocations, ())


def test_a_running_container_that_comes_without_a_saved_grant_has_what_it_was_given() -> None:
    given = replace(whole(5), is_given=True)
    found = PLAIN.reinstate(NOTHING, [replace(request("a/c", 1000), given=(given,))])
    assert found.allocations.grants[0].devices == (given,)


def test_others_see_devices_that_were_given() -> None:
    alone = {"gpu": {"exclusivePolicy": "PCIeLevel"}}
    given = DeviceGrant("gpu", 0, 1, is_given=True)
    held = fill(PLAIN, replace(request("g/c", 500), given=(given,)))
    assert devices(placed(PLAIN.decide(held, asking("a/c", ask(hints=alone, core=50)))).grant) == "gpu 1"


def test_containers_of_one_pod_share_the_pcie_that_it_has_exclusively() -> None:
    node = with_inventory(MACHINE, DeviceInventory(tuple(InventoryDevice("gpu", i, 0, "p0") for i in range(3))))
    alone = ask(hints={"gpu": {"exclusivePolicy": "PCIeLevel"}}, gpu=1)
    held = fill(node, asking("a/one", alone), asking("a/two", alone))
    assert [devices(grant) for grant in held.grants] == ["gpu 0", "gpu 1"]
    text = rejected(node.decide(held, asking("b/c", ask(gpu=1)))).reason.text
    assert "another pod has its PCIe exclusively" in text
    assert text.endswith("; held: gpu 0 (PCIeLevel) by default/a/one; gpu 1 (PCIeLevel) by default/a/two")
    plain = fill(node, asking("b/c", ask(gpu=1)))
    assert "other pods use gpu on its PCIe" in rejected(node.decide(plain, asking("a/one", alone))).reason.text


def test_strict_hints_make_the_place_of_devices_a_condition() -> None:
    strict = asking("a/c", ask(gpu=1), 6000, strict_locality=True)
    assert rejected(PLAIN.decide(NOTHING, strict)).reason.code == "strict-hints"


def test_an_overcommitted_container_gets_its_devices() -> None:
    held = Allocations((Grant(request("full/c", 15500, BURSTABLE), "root", CpuKind.SHARED, shared_mcpu=15500),))
    wanted = request("a/c", 2000, BURSTABLE, devices=ask(gpu=1))
    refused = rejected(PLAIN.decide(held, wanted))
    grant = placed(PLAIN.overcommitted(held, wanted, refused)).grant
    assert (grant.shared_mcpu, devices(grant)) == (0, "gpu 0")


def test_containers_that_keep_their_cpuset_or_are_reserved_get_devices_as_well() -> None:
    preserved = request("a/c", 1000, preserve_cpu=True, devices=ask(gpu=1))
    assert devices(placed(PLAIN.decide(NOTHING, preserved)).grant) == "gpu 0"
    reserved = request("a/c", 1000, prefer_reserved=True, devices=ask(gpu=1))
    assert devices(placed(PLAIN.decide(NOTHING, reserved)).grant) == "gpu 0"
