"""Pods that write down devices which they were never given: variables are theirs to choose."""

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, create_request
from tests.hostile.node import AttackedNode
from tests.hostile.stories import ON_CONTAINERD_TOO

VARIABLES = 20_000
CONTAINERS = 5


@ON_CONTAINERD_TOO
async def test_a_pod_with_thousands_of_variables_that_name_devices(node: AttackedNode) -> None:
    """A pod names a device in each of 20000 variables, and GPUs in 60 kB of one: it starts, and others' calls go on."""
    pod = PodSpec("greedy", tuple(ContainerSpec(f"c{number}") for number in range(CONTAINERS)))
    async with node.under_attack():
        sandbox_id = await node.kubelet.run_sandbox(pod)
        for container in pod.containers:
            request = create_request(pod, container, sandbox_id, node=node.kubelet.node)
            request.config.envs.add(key="NVIDIA_VISIBLE_DEVICES", value=b"GPU-0," * 10_000)
            for number in range(VARIABLES):
                request.config.envs.add(key=f"PCIDEVICE_{number}", value=b"%04x:00:00.0" % number)
            await node.kubelet.call("CreateContainer", request, pb.CreateContainerResponse)
        (decision, *_) = (await node.daemon.admin.explain("greedy/c0")).decisions
    said = [entry.text for entry in decision.decision.history if entry.what == "hint-missing"]
    assert ["PCIDEVICE_" in text for text in said] == [True]
