"""Pods whose author wants to harm others: what a pod says is all that they can choose."""

import pytest

from cri_proxy.cri.annotations.read import DOMAINS
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec
from tests.hostile.bounds import Bounds
from tests.hostile.node import AttackedNode
from tests.hostile.stories import ON_CONTAINERD_TOO

FLOW_LISTS = "[" + "a, " * 5_000 + "a]"  # of 16 KB, which a pod's annotations may have together
A_FEW_KIND = "{" + ", ".join(f"c{number}: [a, b]" for number in range(60)) + "}"  # and these are read


@ON_CONTAINERD_TOO
@pytest.mark.parametrize("text", [FLOW_LISTS * 16, FLOW_LISTS, A_FEW_KIND], ids=["240 KiB", "16 KiB", "read"])
async def test_a_pod_with_yaml_lists_in_its_annotations(node: AttackedNode, text: str) -> None:
    """A pod brings YAML flow lists in an annotation and ten containers that read it: others' calls do not wait."""
    containers = tuple(ContainerSpec(f"c{number}") for number in range(10))
    pod = PodSpec("long-winded", containers, annotations=((f"{DOMAINS[0]}/affinity", text),))
    async with node.under_attack(Bounds(turn_references=0.6)):  # ten times what reading the worst of them takes
        await node.kubelet.run_pod(pod)
