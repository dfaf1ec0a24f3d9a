"""Clients that break rules: on the CRI socket and on the admin socket. None may cost more than its own connection."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from random import Random

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
PING = b"\x00\x00\x08\x06\x00\x00\x00\x00\x00soaksoak"
# HEADERS of stream 1 that end neither the headers nor the stream, as a client leaves them that dies in between
HALF_HEADERS = b"\x00\x00\x03\x01\x00\x00\x00\x00\x01\x83\x86\x41"
ANSWER_SECONDS = 5.0

RUDE_STARTS = (
    b"",
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    PREFACE[:10],
    PREFACE,
    PREFACE + SETTINGS,
    PREFACE + SETTINGS + PING,
    PREFACE + SETTINGS + HALF_HEADERS,
    PREFACE + SETTINGS + b"\xff\xff\xff\x00\x00\x00\x00\x00\x01",  # a frame of 16 MiB
    PREFACE + SETTINGS + b"\x00\x00\x04\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00",  # WINDOW_UPDATE by nothing
    PREFACE + SETTINGS + b"\x00\x00\x05\x01\x05\x00\x00\x00\x01\xff\xff\xff\xff\xff",  # no HPACK
)

BAD_REQUESTS = (
    b"\r\n\r\n",
    b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST /api/v1/status HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello",
    b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    b"GET /" + b"x" * 100_000,
    b"GET /api/v1/explain?pod=none HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    b"GET /api/v1/status HT",
)


async def be_rude(path: Path, random: Random, starts: Sequence[bytes] = RUDE_STARTS) -> None:
    """Connect, say something wrong or half of something right, and leave in one of the ways that clients leave."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            reader, writer = await asyncio.open_unix_connection(str(path))
            try:
                writer.write(random.choice(starts))
                await writer.drain()
                await random.choice(_LEAVINGS)(reader, writer)
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return  # what the daemon does with such a client is its affair


async def _at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Gone before anything is answered."""


async def _half_open(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Says that nothing more comes, and reads what does."""
    writer.write_eof()
    await reader.read()


async def _after_an_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    async with asyncio.timeout(0.2):
        await reader.read(100)


async def _with_a_reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    sock: socket.socket = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


_Leaving = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
_LEAVINGS: tuple[_Leaving, ...] = (_at_once, _half_open, _after_an_answer, _with_a_reset)
