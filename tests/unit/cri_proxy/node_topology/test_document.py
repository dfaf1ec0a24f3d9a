"""The object that schedulers read, on small machines; what its figures mean is in ``tests/property``."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from cri_proxy.codec import Plain
from cri_proxy.node_topology.document import TopologySnapshot, node_resource_topology
from policies.alignment import TopologyOptions, TopologyPolicy, TopologyScope
from policies.base import Allocations
from policies.policy import Policy
from sysfs.descriptions.machine import describe
from tests.fakes.device_policy import listed, policy_with_devices, two_pairs
from tests.unit.policies.build import placed, request, topology_aware

RULES = TopologyOptions()
FOUR: Mapping[str, object] = {"packages": 2, "nodes": 2, "cores": 2, "threads": 2, "memory": "4Gi"}
ONE_EACH: Mapping[str, object] = {"packages": 2, "cores": 4, "memory": "4Gi"}


def policy_on(shape: Mapping[str, object], reserved: str = "0") -> Policy:
    return topology_aware(describe(shape), reserved)


def snapshot(policy: Policy, held: Allocations | None = None) -> TopologySnapshot:
    return TopologySnapshot("n1", policy, held or Allocations(), RULES, False, (("a", "b"),), "ab12", "1.0")


def written(one: TopologySnapshot) -> dict[str, Plain]:
    return node_resource_topology(one, one.policy.node_free(one.held))


def zones(one: TopologySnapshot) -> dict[str, Mapping[str, object]]:
    listed_zones = written(one)["zones"]
    assert isinstance(listed_zones, list)
    return {zone["name"]: zone for zone in listed_zones if isinstance(zone, dict)}  # type: ignore[misc]  # plain data


def amounts(zone: Mapping[str, object]) -> dict[str, tuple[str, str, str]]:
    found = zone["resources"]
    assert isinstance(found, list)
    return {r["name"]: (r["capacity"], r["allocatable"], r["available"]) for r in found}


def attributes(plain: Mapping[str, object]) -> dict[str, str]:
    found = plain["attributes"]
    assert isinstance(found, list)
    return {each["name"]: each["value"] for each in found}


def test_it_is_the_object_of_this_node() -> None:
    plain = written(snapshot(policy_on(FOUR)))
    signed = "pfp0v001b62c44d557501be8"
    assert plain["apiVersion"] == "topology.node.k8s.io/v1alpha2"
    assert plain["metadata"] == {"name": "n1", "annotations": {"topology.node.k8s.io/fingerprint": signed}}
    assert attributes(plain) == {
        "topologyManagerPolicy": "none",
        "topologyManagerScope": "container",
        "nodeTopologyPodsFingerprint": signed,
        "nodeTopologyPodsFingerprintMethod": "all",
        "cri-proxy.io/config-digest": "ab12",
        "cri-proxy.io/version": "1.0",
    }


def test_a_numa_node_has_its_distances_and_what_is_left_of_it() -> None:
    zone = zones(snapshot(policy_on(FOUR)))["node-0"]
    assert zone["type"] == "Node"
    distances = {"node-0": 10, "node-1": 11, "node-2": 21, "node-3": 21}
    assert zone["costs"] == [{"name": name, "value": value} for name, value in distances.items()]
    assert amounts(zone) == {"cpu": ("4", "3", "3"), "memory": (str(4 << 30),) * 3}


def test_owners_take_cpus_and_memory_of_their_node() -> None:
    policy = policy_on(ONE_EACH)
    grant = placed(policy.decide(Allocations(), request("p/c", 2000, memory_limit_bytes=1 << 30))).grant
    found = zones(snapshot(policy, Allocations().with_grants(grant)))
    left = {name: amounts(zone) for name, zone in found.items()}
    node = f"node-{next(iter(grant.mems))}"
    assert left[node]["cpu"][2] == "2"
    assert left[node]["memory"][1:] == (str(4 << 30), str(3 << 30))


def test_other_pools_are_zones_around_the_nodes() -> None:
    found = zones(snapshot(policy_on(FOUR)))
    around = {name: (zone["type"], zone.get("parent")) for name, zone in found.items()}
    assert around == {
        "node-0": ("Node", "socket #0"),
        "node-1": ("Node", "socket #0"),
        "node-2": ("Node", "socket #1"),
        "node-3": ("Node", "socket #1"),
        "root": ("Machine", None),
        "socket #0": ("Package", "root"),
        "socket #1": ("Package", "root"),
    }
    assert amounts(found["socket #0"])["cpu"] == ("8", "7", "7")


def test_a_pool_that_is_a_numa_node_has_one_zone() -> None:
    found = zones(snapshot(policy_on(ONE_EACH)))
    assert list(found) == ["node-0", "node-1", "root"]
    assert attributes(found["node-1"]) == {"cri-proxy.io/pool": "socket #1"}


def test_a_machine_of_one_numa_node_has_its_one_zone() -> None:
    assert list(zones(snapshot(policy_on({"cores": 4, "memory": "4Gi"})))) == ["node-0"]


def test_memory_without_cpus_is_with_the_nodes_that_are_nearest() -> None:
    far = {**ONE_EACH, "memory_nodes": [{"memory": "16Gi", "kind": "pmem", "near": {1: 17}}]}
    found = zones(snapshot(policy_on(far)))
    assert amounts(found["node-2"]) == {}
    assert amounts(found["node-1"])["memory"] == (str(20 << 30),) * 3
    assert amounts(found["node-0"])["memory"] == (str(4 << 30),) * 3


def test_huge_pages_are_a_resource_of_their_own() -> None:
    found = zones(snapshot(policy_on({**ONE_EACH, "hugepages": {"2Mi": [512, 0]}})))
    assert amounts(found["node-0"])["hugepages-2Mi"] == (str(1 << 30),) * 3
    assert amounts(found["node-0"])["memory"] == (str(4 << 30), str(3 << 30), str(3 << 30))


def test_devices_count_on_their_node_by_the_names_of_the_device_plugin() -> None:
    inventory = two_pairs()
    ill = tuple(replace(d, is_healthy=False) if d.kind == "gpu" and d.numa == 1 else d for d in inventory.devices)
    policy = policy_with_devices(devices=replace(inventory, devices=ill))
    found = zones(snapshot(policy))
    assert amounts(found["node-0"])["cri-proxy.io/gpu"] == ("1", "1", "1")
    assert amounts(found["node-0"])["cri-proxy.io/rdma"] == ("2", "2", "2")  # its virtual functions
    assert amounts(found["node-1"])["cri-proxy.io/gpu"] == ("1", "0", "0")


def test_a_device_that_a_container_holds_is_not_available() -> None:
    policy = policy_with_devices(devices=two_pairs())
    grant = placed(policy.decide(Allocations(), request("p/c", 1000))).grant
    (gpu,) = (device for device in two_pairs().devices if device.kind == "gpu" and device.numa == 0)
    held = Allocations().with_grants(replace(grant, devices=(replace(*listed("x"), kind="gpu", minor=gpu.minor),)))
    assert amounts(zones(snapshot(policy, held))["node-0"])["cri-proxy.io/gpu"] == ("1", "1", "0")


@pytest.mark.parametrize(
    ("rules", "single_node", "expected"),
    [
        (TopologyOptions(TopologyPolicy.SINGLE_NUMA_NODE, TopologyScope.POD), False, ("single-numa-node", "pod")),
        (TopologyOptions(TopologyPolicy.BEST_EFFORT), False, ("best-effort", "container")),
        (RULES, True, ("single-numa-node", "container")),  # StrictSingleNUMANode
    ],
)
def test_policy_and_scope_are_those_by_which_the_node_refuses(
    rules: TopologyOptions, single_node: bool, expected: tuple[str, str]
) -> None:
    one = replace(snapshot(policy_on(FOUR)), rules=rules, single_node=single_node)
    said = attributes(written(one))
    assert (said["topologyManagerPolicy"], said["topologyManagerScope"]) == expected


def test_more_nodes_than_schedulers_reckon_with_are_announced() -> None:
    one = snapshot(policy_on({"packages": 9, "cores": 1, "memory": "1Gi"}))
    assert attributes(written(one))["topologyManagerMaxNUMANodes"] == "9"


def test_no_zone_has_a_number_that_would_stop_the_scheduler() -> None:
    """Its plugins index an array of 64 by the number."""
    found = zones(snapshot(policy_on({"packages": 65, "cores": 1, "memory": "1Gi"})))
    assert "node-63" in found
    assert "node-64" not in found
