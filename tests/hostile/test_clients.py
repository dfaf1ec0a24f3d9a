"""Clients that may connect to the CRI socket, and misuse it."""

import asyncio
from contextlib import AsyncExitStack

import hpack

from cri_proxy.http2 import frames
from tests.fakes.http2 import GREETING
from tests.hostile.bounds import MIB, Bounds
from tests.hostile.node import AttackedNode
from tests.hostile.stories import ON_CONTAINERD_TOO
from tests.soak.rude import RUDE_STARTS

CONNECTIONS = 200
LONG_CALLS = 8
LONG_NAME = "/runtime.v1.RuntimeService/" + "V" * 60_000  # seven bits a letter in HPACK's Huffman code


@ON_CONTAINERD_TOO
async def test_clients_that_say_half_of_something_and_stay(node: AttackedNode) -> None:
    """200 clients open the socket, say something wrong or half of something right, and wait: others are served."""
    async with AsyncExitStack() as connections, node.under_attack(Bounds(kept_bytes=24 * MIB)):
        for number in range(CONNECTIONS):
            _, writer = await asyncio.open_unix_connection(str(node.socket))
            connections.callback(writer.close)
            writer.write(RUDE_STARTS[number % len(RUDE_STARTS)])


@ON_CONTAINERD_TOO
async def test_a_client_that_asks_for_methods_with_endless_names(node: AttackedNode) -> None:
    """A client calls methods whose names are 60 kB of Huffman code: what it costs to read them is others' time."""
    reader, writer = await asyncio.open_unix_connection(str(node.socket))
    async with node.under_attack():
        writer.write(GREETING + b"".join(call_with_a_long_name(1 + 2 * number) for number in range(LONG_CALLS)))
        await node.bystander.goes_on()
    writer.close()
    assert reader.exception() is None


def call_with_a_long_name(stream: int) -> bytes:
    """Its headers, in as many frames as they need."""
    fields = [(":method", "POST"), (":scheme", "http"), (":authority", "x"), (":path", f"{LONG_NAME}{stream}")]
    block = hpack.Encoder().encode([*fields, ("te", "trailers"), ("content-type", "application/grpc")], huffman=True)
    parts = [block[at : at + 16_000] for at in range(0, len(block), 16_000)]
    kinds = [frames.HEADERS, *[frames.CONTINUATION] * (len(parts) - 1)]
    flags = [*[0] * (len(parts) - 1), frames.END_HEADERS]
    return b"".join(
        frames.frame(kind, flag, stream, part) for kind, flag, part in zip(kinds, flags, parts, strict=True)
    )
