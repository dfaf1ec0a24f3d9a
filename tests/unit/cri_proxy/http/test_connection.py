import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from cri_proxy.http.connection import CONTENT_POLICY, Connection, Times
from cri_proxy.http.messages import BadRequest, HttpRequest, Response, Turn

OK = Response(200, "text/plain", b"body")


@asynccontextmanager
async def sending(sent: bytes, turn: Turn = contextlib.nullcontext) -> AsyncIterator[tuple[Connection, socket.socket]]:
    theirs, ours = socket.socketpair()
    with theirs:
        theirs.sendall(sent)
        theirs.shutdown(socket.SHUT_WR)
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        try:
            async with asyncio.timeout(20):
                yield Connection(reader, writer, Times(), turn), theirs
        finally:
            writer.close()
            await writer.wait_closed()


def received(client: socket.socket) -> bytes:
    client.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        return client.recv(4096)
    return b""


async def request_of(connection: Connection) -> HttpRequest | int | None:
    """The next request, or the status that it is refused with."""
    try:
        return await connection.next_request(contextlib.nullcontext())
    except BadRequest as error:
        return error.status


def requested(target: str, *fields: str, method: str = "GET", version: str = "HTTP/1.1") -> bytes:
    return "\r\n".join([f"{method} {target} {version}", "Host: h", *fields, "", ""]).encode()


async def test_path_and_query_are_decoded() -> None:
    async with sending(requested("/a%20b?pod=x%2Fy&pod=z&c=")) as (connection, _):
        assert await request_of(connection) == HttpRequest("GET", "/a b", {"pod": "x/y", "c": ""}, "h")


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),  # RFC 9112, 3.2: without a Host
        (b"GET / HTTP/2\r\n\r\n", 400),
        (requested("/", version="HTTP/2.0"), 505),
        (requested("/", "no colon"), 400),
        (requested("/", "A : x"), 400),
        (requested("/", "host: localhost"), 400),
        (requested("http://[::1"), 400),
        (requested("/?" + "a=1&" * 30), 400),
        (requested("/", "Content-Length: x"), 400),
        (requested("/", "Transfer-Encoding: gzip"), 501),
        (requested("/", "A: " + "x" * 20_000), 431),
        (b"", None),
    ],
)
async def test_what_is_not_understood_has_a_status(head: bytes, status: int | None) -> None:
    async with sending(head) as (connection, _):
        assert await request_of(connection) == status


@pytest.mark.parametrize(
    ("version", "fields", "may_follow"),
    [("HTTP/1.1", (), True), ("HTTP/1.1", ("Connection: close",), False), ("HTTP/1.0", (), False)],
)
async def test_the_client_says_whether_another_request_may_follow(
    version: str, fields: tuple[str, ...], may_follow: bool
) -> None:
    async with sending(requested("/", *fields, version=version)) as (connection, _):
        await request_of(connection)
        await connection.read_body(0)
        assert await connection.send(OK) is may_follow


@pytest.mark.parametrize(("method", "body"), [("GET", b"body"), ("HEAD", b"")])
async def test_head_is_answered_without_the_body(method: str, body: bytes) -> None:
    async with sending(requested("/", method=method)) as (connection, client):
        await request_of(connection)
        await connection.send(OK)
        head, _, got = received(client).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\nContent-Length: 4\r\n" in head
    assert got == body


async def body_of(connection: Connection) -> bytes | int:
    """The body of the next request, of at most 8 bytes, or the status that it is refused with."""
    await request_of(connection)
    try:
        return await connection.read_body(8)
    except BadRequest as error:
        return error.status


@pytest.mark.parametrize(
    ("sent", "body"),
    [
        (requested("/"), b""),
        (requested("/", "Content-Length: 8") + b"12345678", b"12345678"),
        (requested("/", "Content-Length: 9"), 413),
        (requested("/", "Transfer-Encoding: chunked") + b"4\r\n1234\r\n4\r\n5678\r\n0\r\n\r\n", b"12345678"),
        (requested("/", "Transfer-Encoding: chunked") + b"4\r\n1234\r\n5\r\n56789\r\n", 413),
        (requested("/", "Content-Length: 8") + b"1234", 400),
    ],
)
async def test_a_body_is_bounded_however_its_length_is_given(sent: bytes, body: bytes | int) -> None:
    async with sending(sent) as (connection, _):
        assert await body_of(connection) == body


@pytest.mark.parametrize(("size_bytes", "told"), [(8, b"HTTP/1.1 100 \r\n\r\n"), (9, b"")])
async def test_a_client_is_told_to_send_a_body_only_where_it_will_be_taken(size_bytes: int, told: bytes) -> None:
    waits = requested("/", f"Content-Length: {size_bytes}", "Expect: 100-continue")
    async with sending(waits) as (connection, client):
        await body_of(connection)
        assert received(client) == told


async def test_all_that_a_client_sends_is_read_in_turns_of_few_bytes() -> None:
    """So many bytes at a time hold the loop for microseconds, and others come in between."""
    turns: list[None] = []

    @asynccontextmanager
    async def turn() -> AsyncIterator[None]:
        turns.append(None)
        yield

    size_bytes = 32 << 10
    sent = requested("/", f"Content-Length: {size_bytes}", method="POST") + bytes(size_bytes)
    async with sending(sent, turn) as (connection, _):
        await request_of(connection)
        assert len(await connection.read_body(size_bytes)) == size_bytes
    assert len(turns) >= size_bytes // 4096


async def test_every_answer_says_what_a_browser_may_do_with_it() -> None:
    async with sending(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n") as (connection, client):
        await request_of(connection)
        await connection.send(OK)
        answer = received(client)
    for line in (
        f"Content-Security-Policy: {CONTENT_POLICY}",
        "X-Content-Type-Options: nosniff",
        "Cross-Origin-Resource-Policy: same-origin",
        "Referrer-Policy: no-referrer",
    ):
        assert f"\r\n{line}\r\n".encode() in answer
    assert "unsafe" not in CONTENT_POLICY


@pytest.mark.parametrize(
    ("fields", "is_foreign"),
    [
        ("", False),
        ("Origin: http://h\r\n", False),
        ("Origin: https://h\r\nSec-Fetch-Site: same-origin\r\n", False),
        ("Sec-Fetch-Site: none\r\n", False),
        ("Origin: http://page.example\r\n", True),
        ("Origin: null\r\n", True),
        ("Sec-Fetch-Site: cross-site\r\n", True),
        ("Sec-Fetch-Site: same-site\r\n", True),
    ],
)
async def test_a_request_of_another_sites_page_is_known(fields: str, is_foreign: bool) -> None:
    async with sending(f"GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n".encode()) as (connection, _):
        request = await request_of(connection)
        assert isinstance(request, HttpRequest)
        assert request.is_foreign is is_foreign
