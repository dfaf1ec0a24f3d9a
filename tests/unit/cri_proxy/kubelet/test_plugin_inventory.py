from collections.abc import AsyncIterator

import pytest

from cri_proxy.errors import CallFailed, CommandFailed, RuntimeUnavailable
from cri_proxy.kubelet.plugin_inventory import PluginInventory, ask_plugins, inventory_of_plugins
from cri_proxy.kubelet.proto import podresources_v1_pb2 as pb
from cri_proxy.runtime.channel import RuntimeChannel
from policies.devices import InventoryDevice, PciePath


def of(resource: str, *ids: str, nodes: tuple[int, ...] = ()) -> pb.ContainerDevices:
    topology = pb.TopologyInfo(nodes=[pb.NUMANode(ID=node) for node in nodes])
    return pb.ContainerDevices(resource_name=resource, device_ids=ids, topology=topology)


def found(*offered: pb.ContainerDevices, held: tuple[pb.ContainerDevices, ...] = ()) -> PluginInventory:
    pod = pb.PodResources(name="p", containers=[pb.ContainerResources(name="c", devices=held)])
    answer = pb.AllocatableResourcesResponse(devices=offered)
    return inventory_of_plugins(answer, pb.ListPodResourcesResponse(pod_resources=[pod]))


def test_devices_of_other_plugins_are_numbered_by_resource_and_id_and_keep_their_names() -> None:
    devices = found(
        of("nvidia.com/gpu", "GPU-b", nodes=(1,)),
        of("nvidia.com/gpu", "GPU-a", nodes=(0,)),
        of("intel.com/sriov_net", "0000:51:00.1", "0000:51:00.2", nodes=(0, 1)),
    ).inventory.devices
    assert [(d.kind, d.minor, d.numa, d.uuid or d.path.bus) for d in devices] == [
        ("gpu", 0, 0, "GPU-a"),
        ("gpu", 1, 1, "GPU-b"),
        ("rdma", 0, None, "0000:51:00.1"),
        ("rdma", 1, None, "0000:51:00.2"),
    ]


def test_devices_of_our_plugin_have_their_own_numbers_and_the_others_the_free_ones() -> None:
    offered = found(of("cri-proxy.io/gpu", "gpu-0", "gpu-2"), of("nvidia.com/gpu", "GPU-a", "GPU-b"))
    assert [(d.minor, d.uuid) for d in offered.inventory.devices] == [(0, ""), (1, "GPU-a"), (2, ""), (3, "GPU-b")]


def test_shares_of_a_device_of_ours_are_that_device() -> None:
    nics = of("cri-proxy.io/rdma", "rdma-1-share-0", "rdma-1-share-1", nodes=(1,))
    shares = found(nics, held=(of("cri-proxy.io/rdma", "rdma-1-share-1"),))
    assert shares.inventory.devices == (InventoryDevice("rdma", 1, numa=1),)
    assert [(grant.key, grant.is_given) for grant in shares.held] == [(("rdma", 1), True)]


def test_what_containers_have_is_held_and_what_is_unknown_is_not() -> None:
    gpus = of("nvidia.com/gpu", "GPU-a", "GPU-b")
    held = found(gpus, held=(of("nvidia.com/gpu", "GPU-b"), of("nvidia.com/gpu", "GPU-gone"))).held
    assert [str(grant) for grant in held] == ["gpu 1"]


def test_resources_of_other_types_are_named_alone() -> None:
    answer = found(of("devices.kubevirt.io/kvm", "kvm0"), of("example.com/fpga", "f0"))
    assert (answer.others, [d.kind for d in answer.inventory.devices]) == (("devices.kubevirt.io/kvm",), ["fpga"])


@pytest.mark.parametrize("node", [-1, 1 << 40])
def test_a_node_that_no_kernel_has_is_unknown(node: int) -> None:
    (device,) = found(of("nvidia.com/gpu", "GPU-a", nodes=(node,))).inventory.devices
    assert device == InventoryDevice("gpu", 0, path=PciePath(), uuid="GPU-a")


class Kubelet(RuntimeChannel):
    def __init__(self, answer: bytes | Exception) -> None:
        self.answer = answer

    async def unary(self, method: str, message: bytes, *, timeout_seconds: float) -> bytes:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def stream(self, method: str, message: bytes) -> AsyncIterator[bytes]:
        raise NotImplementedError(method)

    async def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (CallFailed("m", 12, "not offered"), "the kubelet refuses to list devices: not offered (/k.sock)"),
        (RuntimeUnavailable("m", "no such file"), "the kubelet does not answer on /k.sock: no such file"),
        (RuntimeUnavailable("m", "/k.sock: gone"), "the kubelet does not answer on /k.sock: gone"),
        (b"\xff\xff", "what answers on /k.sock is no kubelet: "),
    ],
)
async def test_a_kubelet_that_cannot_answer_is_named_with_its_socket(answer: bytes | Exception, said: str) -> None:
    with pytest.raises(CommandFailed) as failed:
        await ask_plugins(Kubelet(answer), "/k.sock")
    assert str(failed.value).startswith(said)


async def test_an_empty_answer_is_an_inventory_without_devices() -> None:
    assert (await ask_plugins(Kubelet(b""), "/k.sock")).inventory.devices == ()
