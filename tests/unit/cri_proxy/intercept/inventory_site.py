"""A site with an inventory of devices, and what its containers have of them."""

from dataclasses import replace

from cri_proxy.config.model import Config
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import guaranteed
from cri_proxy.kubelet.pod_resources import PodResources
from cri_proxy.kubelet.proto import podresources_v1_pb2 as podresources
from policies.devices import DeviceInventory
from sysfs.cpuset import NodeSet
from tests.fakes.device_policy import policy_with_devices, two_pairs
from tests.fakes.scripted_cdi import DeclaredOf, ScriptedCdi
from tests.fakes.site import Site
from tests.unit.cri_proxy.kubelet.service import KubeletService

OWNS = guaranteed("c", 1000)
ASKS = {
    "cri-proxy.io/device-resources": "nvidia.com/gpu=1,rdma=1",
    "scheduling.koordinator.sh/device-joint-allocate": '{"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}',
    "scheduling.koordinator.sh/device-allocate-hint": '{"rdma": {"vfSelector": {}}}',
}


class InventorySite(Site):
    """A site with a GPU and a NIC with two VFs on each of two nodes, or with other devices."""

    def __init__(self, rules: Config | None = None, devices: DeviceInventory | None = None) -> None:
        super().__init__(policy_with_devices(devices=devices or two_pairs()), rules=rules)

    async def declare(self, declared: DeclaredOf | None = None, unreadable: tuple[str, ...] = ()) -> None:
        cdi = ScriptedCdi(declared, unreadable=unreadable)
        self.interceptor.use_reader(replace(self.interceptor._reader, cdi=cdi))

    def ask_kubelet(self, *pods: podresources.PodResources) -> None:
        """Let the kubelet tell of these pods."""
        known = NodeSet.parse("0-1")
        kubelet = PodResources(KubeletService(*pods), self.clock, self.journal, known=lambda: known)
        self.interceptor.use_reader(replace(self.interceptor._reader, pod_resources=kubelet))


def config(site: Site, pod: RunningPod) -> pb.ContainerConfig:
    return site.runtime.node.containers[pod.container_id("c")].config


def variables(site: Site, pod: RunningPod) -> dict[str, str]:
    envs = config(site, pod).envs
    return {env.key: env.value.decode() for env in envs if env.key.startswith(("CRI_PROXY_", "NVIDIA_"))}


def held(site: Site, container_id: str) -> list[str]:
    return [str(device) for device in site.row(container_id).grant.devices]
