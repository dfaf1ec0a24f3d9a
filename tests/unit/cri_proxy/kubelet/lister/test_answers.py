"""What the kubelet answers, and what stands in it once the node's grants are added."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from cri_proxy.cri_client.pods import ContainerSpec, PodAmounts, PodSpec, guaranteed
from cri_proxy.kubelet.lister.answers import LedgerGrants, NodeGrants
from cri_proxy.kubelet.proto import podresources_v1_pb2 as pb
from policies.device_grants import DeviceGrant
from policies.devices import DeviceInventory, InventoryDevice, JoinedDevices, Piece, VfGroup, VirtualFunction
from tests.fakes.device_policy import policy_with_devices, two_pairs
from tests.fakes.grants import request, row, small_policy
from tests.fakes.site import Site, opened
from tests.unit.cri_proxy.kubelet.service import devices, pod

MIB = 1 << 20


def granted(site: Site) -> NodeGrants:
    ledger = site.node.context.ledger
    return NodeGrants.of(ledger.policy, ledger.active())


def added(site: Site, listed: pb.PodResources) -> pb.PodResources:
    granted(site).add_to_pods((listed,))
    return listed


def memory_of(container: pb.ContainerResources) -> list[tuple[str, int, list[int]]]:
    return [(each.memory_type, each.size, [node.ID for node in each.topology.nodes]) for each in container.memory]


def devices_of(
    groups: pb.ContainerResources | pb.AllocatableResourcesResponse,
) -> list[tuple[str, list[str], list[int]]]:
    return [(g.resource_name, list(g.device_ids), [node.ID for node in g.topology.nodes]) for g in groups.devices]


async def test_grants_are_indexed_once_for_a_state_of_the_ledger() -> None:
    async with opened(Site()) as site:
        ledger = site.node.context.ledger
        grants = LedgerGrants(ledger)
        assert grants.now().grants == {}
        pod = await site.run("web", guaranteed("owns", 2000))
        before = grants.now()
        assert [name for name, *_ in before.grants] == ["default"]
        assert grants.now() is before
        await site.kubelet.remove_pod(pod.sandbox_id)
        assert grants.now().grants == {}
        ledger.use_policy(small_policy(), ledger.allocations)
        assert grants.now().policy is ledger.policy


async def test_owners_have_their_cpus_and_the_others_none() -> None:
    async with opened(Site()) as site:
        shares = ContainerSpec("shares", cpu_request_mcpu=100, memory_request_bytes=MIB)
        await site.run("web", guaranteed("owns", 2000))
        await site.run("log", shares)
        (web,), (log,) = (added(site, pod(n, {c: []})).containers for n, c in (("web", "owns"), ("log", "shares")))
        owner = next(row for row in site.node.context.ledger.active() if row.key.name == "owns")
        assert (list(web.cpu_ids), list(log.cpu_ids)) == (list(owner.grant.owned), [])
        assert len(web.cpu_ids) == 2


@pytest.mark.parametrize("newest", ["pod-1", "pod-2"])
def test_of_two_pods_of_one_name_the_newest_counts(newest: str) -> None:
    """A pod that is made anew, as that of a StatefulSet, while the last one still ends."""
    rows = []
    for uid, owned in (("pod-1", "2"), ("pod-2", "3")):
        made = row("c", owned=owned)
        asked = request("c", 1000, uid=uid)
        asked = replace(asked, pod=replace(asked.pod, name="web"))
        grant = replace(made.grant, request=asked)
        rows.append(replace(made, grant=grant, created_order=7 if uid == newest else 5))
    listed = pod("web", {"c": []})
    NodeGrants.of(small_policy(), rows).add_to_pods((listed,))
    assert list(listed.containers[0].cpu_ids) == [2 if newest == "pod-1" else 3]


async def test_memory_stands_on_the_nodes_of_its_container_huge_pages_too() -> None:
    async with opened(Site()) as site:
        pages = (("2MB", 4 * MIB),)
        await site.run("web", ContainerSpec("c", 2000, 2000, 32 * MIB, 32 * MIB, huge_pages=pages))
        (row,) = site.node.context.ledger.active()
        nodes = list(row.grant.mems)
        (container,) = added(site, pod("web", {"c": []})).containers
        assert memory_of(container) == [("memory", 32 * MIB, nodes), ("hugepages-2Mi", 4 * MIB, nodes)]
        assert len(nodes) == 1


async def test_memory_that_the_kubelet_has_given_itself_stays() -> None:
    async with opened(Site()) as site:
        await site.run("web", guaranteed("c", 2000))
        listed = pod("web", {"c": []})
        listed.containers[0].memory.add(memory_type="memory", size=5)
        assert memory_of(added(site, listed).containers[0]) == [("memory", 5, [])]


async def test_what_a_pod_has_as_a_whole_stands_once() -> None:
    async with opened(Site()) as site:
        whole = PodAmounts(2000, 2000, 64 * MIB, 64 * MIB)
        await site.run_spec(PodSpec("web", (ContainerSpec("a"), ContainerSpec("b")), amounts=whole))
        found = added(site, pod("web", {"a": [], "b": []})).containers
        owned = [row.grant.owned for row in site.node.context.ledger.active()]
        assert owned[0] == owned[1] and len(owned[0]) == 2
        assert [list(each.cpu_ids) for each in found] == [list(owned[0]), []]
        assert [[size for _, size, _ in memory_of(each)] for each in found] == [[64 * MIB], []]


async def test_containers_that_are_not_ours_and_all_else_stay_as_the_kubelet_has_them() -> None:
    async with opened(Site()) as site:
        await site.run("web", guaranteed("c", 1000))
        listed = pod("web", {"c": [devices("example.com/nic", "eth1", nodes=(1,))], "other": []})
        listed.containers[1].cpu_ids.extend([6, 7])
        listed.containers[0].dynamic_resources.add(claim_name="claim")
        listed.MergeFromString(b"\x9a\x06\x03new")  # field 99: one that a later kubelet has
        before = pb.PodResources.FromString(listed.SerializeToString())
        after = added(site, listed)
        assert after.containers[1] == before.containers[1]
        assert devices_of(after.containers[0]) == devices_of(before.containers[0])
        assert after.containers[0].dynamic_resources == before.containers[0].dynamic_resources
        assert b"\x9a\x06\x03new" in after.SerializeToString()


async def test_devices_stand_by_the_names_of_our_plugin_unless_the_kubelet_has_named_them() -> None:
    async with opened(Site(policy_with_devices("example.com/fpga/f0", devices=two_pairs()))) as site:
        asks = {
            "cri-proxy.io/device-resources": "nvidia.com/gpu=2",
            "cri-proxy.io/device-request": "example.com/fpga=1",
        }
        await site.run("web", guaranteed("c", 1000), **asks)
        listed = pod("web", {"c": [devices("nvidia.com/gpu", "GPU-1", nodes=(1,))]})
        assert devices_of(added(site, listed).containers[0]) == [
            ("nvidia.com/gpu", ["GPU-1"], [1]),
            ("example.com/fpga", ["f0"], []),
            ("cri-proxy.io/gpu", ["gpu-0"], [0]),
        ]


async def test_a_virtual_function_stands_by_its_own_name() -> None:
    async with opened(Site(policy_with_devices(devices=two_pairs()))) as site:
        asks = {
            "cri-proxy.io/device-resources": "koordinator.sh/rdma=1",
            "scheduling.koordinator.sh/device-allocate-hint": '{"rdma": {"vfSelector": {}}}',
        }
        await site.run("web", guaranteed("c", 1000), **asks)
        (container,) = added(site, pod("web", {"c": []})).containers
        assert devices_of(container) == [("cri-proxy.io/rdma", ["0000:10:00.1"], [0])]


async def test_the_machine_has_all_cpus_but_the_reserved_ones_its_memory_and_devices_once() -> None:
    async with opened(Site(policy_with_devices("example.com/fpga/f0", devices=two_pairs()))) as site:
        answer = pb.AllocatableResourcesResponse(devices=[devices("nvidia.com/gpu", "GPU-1", nodes=(1,))])
        granted(site).add_to_machine(answer)
        assert list(answer.cpu_ids) == [1, 2, 3, 4, 5, 6, 7]
        nodes = site.policy.machine.nodes
        assert [(m.memory_type, m.size) for m in answer.memory] == [("memory", node.ordinary_bytes) for node in nodes]
        assert [[node.ID for node in m.topology.nodes] for m in answer.memory] == [[node.id] for node in nodes]
        assert devices_of(answer) == [
            ("nvidia.com/gpu", ["GPU-1"], [1]),
            ("cri-proxy.io/gpu", ["gpu-0"], [0]),
            ("cri-proxy.io/rdma", ["0000:10:00.1", "0000:10:00.2"], [0]),
            ("cri-proxy.io/rdma", ["0000:20:00.1", "0000:20:00.2"], [1]),
            ("example.com/fpga", ["f0"], []),
        ]


def _nic(count: int) -> InventoryDevice:
    addresses = (f"0000:{50 + number // 256:02x}:{number % 256 // 8:02x}.{number % 8}" for number in range(count))
    return InventoryDevice("rdma", 0, 0, vf_groups=(VfGroup(tuple(map(VirtualFunction, range(count), addresses))),))


def _work(monkeypatch: pytest.MonkeyPatch, count: int) -> int:
    """Return how often devices are looked at for the answer where another plugin offers half of so many functions."""
    looks = 0
    key, overlaps, held = DeviceGrant.key.fget, Piece.overlaps, JoinedDevices.held  # type: ignore[attr-defined]

    def counted(function: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object) -> object:
            nonlocal looks
            looks += 1
            return function(*args)

        return call

    grants = NodeGrants.of(policy_with_devices(devices=DeviceInventory((nic := _nic(count),))), ())
    ids = [vf.bus for group in nic.vf_groups for vf in group.vfs]
    answer = pb.AllocatableResourcesResponse(devices=[devices("intel.com/sriov", *ids[::2])])
    with monkeypatch.context() as patched:
        patched.setattr(DeviceGrant, "key", property(counted(key)))
        patched.setattr(Piece, "overlaps", counted(overlaps))
        patched.setattr(JoinedDevices, "held", counted(held))
        grants.add_to_machine(answer)
    assert [(name, len(found)) for name, found, _ in devices_of(answer)] == [
        ("intel.com/sriov", count // 2),
        ("cri-proxy.io/rdma", count // 2),
    ]
    return looks


def test_an_answer_looks_at_each_of_many_virtual_functions_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (_work(monkeypatch, count) for count in (50, 400))
    assert 0 < many <= 8 * few
