"""Clients that send without end, or take nothing back: what they cost is bounded, and in the end they are left."""

import asyncio
import json
import socket
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, repeat

from cri_proxy.http2 import frames
from tests.fakes.http import free_address
from tests.fakes.http2 import GREETING, GRPC_FIELDS, request, request_headers
from tests.fakes.scheduler import arguments, pod
from tests.fakes.scheduler import node as node_with_gpus
from tests.hostile.bounds import MIB, Bounds
from tests.hostile.node import CONFIGURATION, AttackedNode, Place
from tests.hostile.stories import ON_CONTAINERD_TOO

CREATE = "/runtime.v1.RuntimeService/CreateContainer"
VERSION = "/runtime.v1.RuntimeService/Version"
OLD = "/runtime.v1alpha2.RuntimeService/Version"
PATIENCE_SECONDS = 5.0  # a relay that takes no more for so long has bounded the client as well
QUESTION_BYTES = 64 << 10  # the largest that the daemon takes
NODES = 120  # in it: few more would fit
QUESTIONS = 40  # of each client
PREFIX = b"\0" + (15 * MIB).to_bytes(4, "big")  # of a message that never comes to its end


class Flood:
    """A client that writes and never reads."""

    def __init__(self, node: AttackedNode) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.setblocking(False)
        self._path = str(node.socket)
        self.sent_bytes = 0

    async def pour(self, parts: Iterator[bytes]) -> None:
        """Send all this, or as much as the relay takes."""
        loop = asyncio.get_running_loop()
        try:
            await loop.sock_connect(self.socket, self._path)
            await loop.sock_sendall(self.socket, GREETING + frames.settings_ack())
            for part in parts:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await loop.sock_sendall(self.socket, part)
                self.sent_bytes += len(part)
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            return


def begun(stream: int, method: str) -> bytes:
    return request_headers(stream, method, extra=GRPC_FIELDS)


def data(stream: int, size: int) -> bytes:
    return b"".join(frames.data_frames(stream, bytes(size), end_stream=False))


def unfinished(streams: int) -> Iterator[bytes]:
    """Requests of 15 MiB that are to be decided on, all but their last bytes."""
    for stream in range(1, 2 * streams, 2):
        yield begun(stream, CREATE) + frames.frame(frames.DATA, 0, stream, PREFIX)
        yield from repeat(data(stream, MIB), 14)


async def all_pour(floods: Sequence[Flood], parts: Callable[[], Iterator[bytes]]) -> int:
    """Each sends all this, and leaves; returns how many bytes were taken from them together."""
    try:
        await asyncio.gather(*(flood.pour(parts()) for flood in floods))
    finally:
        for flood in floods:
            flood.socket.close()
    return sum(flood.sent_bytes for flood in floods)


def refused() -> Iterator[bytes]:
    """Calls that the relay refuses itself, with an answer that repeats the long name of the method."""
    return (request(stream, OLD + "x" * 8000, b"", extra=GRPC_FIELDS) for stream in range(1, 8001, 2))


@ON_CONTAINERD_TOO
async def test_clients_that_begin_large_requests_and_end_none(node: AttackedNode, relay: str) -> None:
    """Ten clients begin four requests of 15 MiB each, and end none: they are held up to a bound, others are served."""
    # 64 MiB is what the splice may hold, and buffers grow by more than they need. grpcio's core keeps all that has come
    # of a message, and cannot be told otherwise from Python (docs/security.md).
    bounds = Bounds(peak_bytes=112 * MIB if relay == "splice" else 10 * 4 * 16 * MIB)
    async with node.under_attack(bounds):
        await all_pour([Flood(node) for _ in range(10)], lambda: unfinished(4))


@ON_CONTAINERD_TOO
async def test_a_client_that_reads_no_answers(node: AttackedNode, relay: str) -> None:
    """A client makes 4000 calls whose refusal repeats their long names, and reads nothing: it is left."""
    # 2000 of them are in the hands of grpcio's core at once, with all that it keeps of a call
    grpc = Bounds(turn_references=4.0, peak_bytes=160 * MIB, kept_bytes=32 * MIB)
    bounds = Bounds() if relay == "splice" else grpc
    async with node.under_attack(bounds):
        sent_bytes = await all_pour([Flood(node)], refused)
    assert relay == "grpc" or sent_bytes < 16 * MIB


@ON_CONTAINERD_TOO
async def test_a_client_that_never_ends_a_header_block(node: AttackedNode) -> None:
    """A client begins a header block and goes on with half a million empty CONTINUATION frames."""
    flood = frames.frame(frames.CONTINUATION, 0, 1, b"") * 5_000
    async with node.under_attack():
        await all_pour([Flood(node)], lambda: chain([frames.frame(frames.HEADERS, 0, 1, b"")], repeat(flood, 100)))


@ON_CONTAINERD_TOO
async def test_a_client_that_sends_beyond_its_window(node: AttackedNode) -> None:
    """A client begins a call and sends 64 MiB where 64 KiB are allowed: nothing of the rest is kept."""
    async with node.under_attack(Bounds(peak_bytes=24 * MIB)):
        await all_pour([Flood(node)], lambda: chain([begun(1, VERSION)], repeat(data(1, MIB), 64)))


@ON_CONTAINERD_TOO
async def test_a_client_that_begins_calls_and_sends_no_request(node: AttackedNode, relay: str) -> None:
    """A client sends the headers of 5,000 creations, and nothing more."""
    calls = [begun(stream, CREATE) for stream in range(1, 10_001, 2)]
    # As above: the core's calls come in one turn, and their room stays with it.
    async with node.under_attack(Bounds(turn_references=4.0, kept_bytes=32 * MIB) if relay == "grpc" else None):
        await all_pour([Flood(node)], lambda: iter([b"".join(calls)]))


@ON_CONTAINERD_TOO
async def test_a_client_that_asks_for_signs_of_life(node: AttackedNode) -> None:
    """A client sends 200,000 PINGs and as many SETTINGS, each of which wants an answer, and reads none."""
    flood = (frames.frame(frames.PING, 0, 0, bytes(8)) + frames.settings([])) * 2_000
    async with node.under_attack():
        await all_pour([Flood(node)], lambda: repeat(flood, 100))


async def posted(address: tuple[str, int], body: bytes) -> int:
    """The status that this question is answered with; 0 where its client was dropped, as others sent at that time."""
    try:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"POST /extender/prioritize HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n")
        writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
    except ConnectionError:
        return 0
    return int(answer.split(b" ")[1]) if answer else 0


async def test_clients_that_post_questions_without_end(place: Place) -> None:
    """Local clients ask the extender in the daemon, with too large and with the largest questions: others go on."""
    address = free_address()
    nodes = [node_with_gpus(f"n{number}", "v1.0t1.n0x2.v12") for number in range(NODES)]
    question = json.dumps(arguments(pod(2), nodes)).encode().ljust(QUESTION_BYTES)

    async def ask() -> set[int]:
        return {await posted(address, body) for body in repeat(question, QUESTIONS)}

    options, bounds = ("--http", f"{address[0]}:{address[1]}"), Bounds(peak_bytes=16 * MIB, kept_bytes=4 * MIB)
    place_of_node = place.node(options=options, configuration=f"{CONFIGURATION}extender: true\n")
    async with place_of_node as node, node.under_attack(bounds):
        assert await posted(address, bytes(MIB)) in (0, 413)
        statuses = set[int]().union(*await asyncio.gather(*(ask() for _ in range(4))))
        assert 200 in statuses <= {0, 200}
