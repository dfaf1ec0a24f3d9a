"""Disks that hang, and files that somebody else writes or damages."""

import os
import signal

from tests.hostile.bounds import MIB
from tests.hostile.node import CONFIGURATION, AttackedNode
from tests.hostile.stories import ON_CONTAINERD_TOO


@ON_CONTAINERD_TOO
async def test_a_configuration_that_is_replaced_by_what_is_none(node: AttackedNode) -> None:
    """The file becomes too long, then garbage, then a pipe: each is refused, and the daemon goes on as before."""
    async with node.under_attack():
        for damage in (b"x" * 64 * MIB, os.urandom(4096)):
            node.config.write_bytes(damage)
            node.daemon.send(signal.SIGHUP)
            await node.bystander.goes_on()
        node.config.unlink()
        os.mkfifo(node.config)
        node.daemon.send(signal.SIGHUP)
        await node.bystander.goes_on()
        node.config.unlink()
        node.config.write_text(CONFIGURATION)
