"""Pods whose author wants to harm others: what a pod says is all that they can choose."""

from cri_proxy.cri.annotations.read import DOMAINS
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec
from tests.hostile.node import AttackedNode
from tests.hostile.stories import ON_CONTAINERD_TOO


@ON_CONTAINERD_TOO
async def test_a_pod_with_an_annotation_that_is_just_short_enough(node: AttackedNode) -> None:
    """A pod brings 64 KiB of YAML in one annotation and ten containers that read it: others' calls do not wait."""
    text = "[" + "a, " * 21_000 + "a]"
    containers = tuple(ContainerSpec(f"c{number}") for number in range(10))
    pod = PodSpec("long-winded", containers, annotations=((f"{DOMAINS[0]}/affinity", text),))
    async with node.under_attack():
        await node.kubelet.run_pod(pod)
