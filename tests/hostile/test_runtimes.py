"""A runtime that is broken, or that a pod has made say what it likes."""

import asyncio

import pytest

from cri_proxy.cri_client.pods import PodSpec, guaranteed
from tests.hostile.hostile_runtime import of
from tests.hostile.node import AttackedNode

PATIENCE_SECONDS = 1.0


async def test_a_runtime_that_never_answers_a_creation(node: AttackedNode) -> None:
    """The runtime takes a creation and says nothing, the client gives up: no place is lost, others are created."""
    async with node.under_attack():
        node.runtime.never_answer("CreateContainer", of("unlucky"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                await node.kubelet.run_pod(PodSpec("unlucky", (guaranteed("c", 1000),)))
