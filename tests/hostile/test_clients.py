"""Clients that may connect to the CRI socket, and misuse it."""

import asyncio
from contextlib import AsyncExitStack

from tests.hostile.bounds import MIB, Bounds
from tests.hostile.node import AttackedNode
from tests.hostile.stories import ON_CONTAINERD_TOO
from tests.soak.rude import RUDE_STARTS

CONNECTIONS = 200


@ON_CONTAINERD_TOO
async def test_clients_that_say_half_of_something_and_stay(node: AttackedNode) -> None:
    """200 clients open the socket, say something wrong or half of something right, and wait: others are served."""
    async with AsyncExitStack() as connections, node.under_attack(Bounds(kept_bytes=24 * MIB)):
        for number in range(CONNECTIONS):
            _, writer = await asyncio.open_unix_connection(str(node.socket))
            connections.callback(writer.close)
            writer.write(RUDE_STARTS[number % len(RUDE_STARTS)])
