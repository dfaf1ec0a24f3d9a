"""A runtime whose answers are long, or written for the terminal of whoever reads them."""

import pytest

from cri_proxy.cri_client.pods import PodSpec, guaranteed
from cri_proxy.errors import CallFailed
from cri_proxy.foreign_text import SENTENCE_BYTES
from cri_proxy.http2.status import Code
from tests.hostile.bounds import Bounds
from tests.hostile.hostile_runtime import of
from tests.hostile.node import AttackedNode

PODS, ATTEMPTS = 17, 20
WORDS = "\x1b[2J\x1b]0;owned\x07\u202e" + "no such level, " * 27_000  # 400 kB
LINE_BYTES = 1024  # of a line of the log, beside the runtime's words
CONTAINER = guaranteed("c", 1000)


async def test_a_runtime_that_refuses_in_400_kilobytes(node: AttackedNode) -> None:
    """340 creations are refused in words of 400 kB: memory, log and state stay small, and nothing outlives the pods."""
    # A line for every attempt, as for any failure, with the beginning of what the runtime said.
    bounds = Bounds(log_bytes=PODS * ATTEMPTS * (SENTENCE_BYTES + LINE_BYTES))
    async with node.under_attack(bounds):
        for number in range(PODS):
            pod = PodSpec(f"unlucky-{number}", (CONTAINER,))
            sandbox_id = await node.kubelet.run_sandbox(pod)
            for attempt in range(ATTEMPTS):
                node.runtime.behave()
                node.runtime.refuse(
                    "CreateContainer", of(pod.name), Code.INTERNAL, f"4f6a{number}{attempt}: exit {attempt}: {WORDS}"
                )
                with pytest.raises(CallFailed):
                    await node.kubelet.create(pod, CONTAINER, sandbox_id, attempt=attempt)
        (explained,) = (await node.daemon.admin.explain("unlucky-0")).decisions
        (repeated,) = explained.decision.history
        assert repeated.count == ATTEMPTS - 1
        assert explained.decision.failure.isprintable()
        assert "more bytes were cut)" in explained.decision.failure
        refused = (await node.daemon.admin.status()).refused
        assert all(view.text.isprintable() and len(view.text) <= SENTENCE_BYTES for view in refused)
    assert (await node.daemon.admin.explain("unlucky-0")).decisions == ()
    assert node.daemon.log.read_text().replace("\n", "").isprintable()
