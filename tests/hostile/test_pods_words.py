"""Pods whose words are written for the terminal of whoever looks at them."""

import asyncio
import json
from pathlib import Path

from cri_proxy.cri_client.pods import ContainerSpec, PodSpec
from tests.hostile.node import Place
from tests.hostile.stories import ON_CONTAINERD_TOO

# Clear the screen, name the window, go back over what stands there, begin a line, turn the direction of the text.
EVIL = "\x1b[2J\x1b]0;owned\x07\b\r\nroot# \x9b31m\u202e\u2066\u061c\u2028\u200b\ufeff\x7f"
ANNOTATIONS = (
    (f"prefer-shared-cpu{EVIL}.cri-proxy.io", "true"),
    (f"memory-type.cri-proxy.io/container.c{EVIL}", f"dram{EVIL}"),
    ("cri-proxy.io/memory-type", f"{EVIL}dram"),
    ("cri-proxy.io/notify-exec", json.dumps(["echo", EVIL])),
    ("cri-proxy.io/affinity", json.dumps({"c": [EVIL]})),
    ("cri-proxy.io/cold-start", EVIL),
)
CONSOLE = "log: {level: debug, format: console}\n"


@ON_CONTAINERD_TOO
async def test_a_pod_that_writes_to_the_terminal(place: Place) -> None:
    """A pod has escapes in every annotation: explain, status and the console log show them and obey none."""
    async with place.node(configuration=CONSOLE) as node, node.under_attack():
        pod = PodSpec("loud", (ContainerSpec("c", cpu_request_mcpu=10),), annotations=ANNOTATIONS)
        await node.kubelet.run_pod(pod)
        for command in (("explain", "loud"), ("status",), ("explain", "loud", "-o", "json"), ("status", "-o", "yaml")):
            printed = await node.printed(*command)
            assert printed.replace("\n", "").isprintable()
            assert not any(line.startswith("root#") for line in printed.split("\n"))
        assert "\\x1b[2J" in await node.printed("explain", "loud")
        log = await asyncio.to_thread(Path.read_text, node.daemon.log)
        assert "\\x1b[2J" in log
        assert log.replace("\n", "").isprintable()
