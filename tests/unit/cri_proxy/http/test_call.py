import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cri_proxy.http.call import HttpServer, Unreachable, call


@asynccontextmanager
async def saying(path: Path, answer: bytes, *, closes: bool = True) -> AsyncIterator[list[bytes]]:
    """A server that reads a request and sends these bytes."""
    asked: list[bytes] = []
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        if closes:
            writer.close()

    server = await asyncio.start_unix_server(serve, path)
    try:
        yield asked
    finally:
        server.close()
        for writer in writers:
            writer.close()


def at(path: Path) -> HttpServer:
    return HttpServer("it", path)


async def test_an_answer_has_status_headers_and_body(tmp_path: Path) -> None:
    said = b'HTTP/1.1 418 Teapot\r\nRetry-After: 3\r\nContent-Length: 9\r\n\r\n{"a": 1}\n'
    async with saying(tmp_path / "s", said) as asked:
        answer = await call(at(tmp_path / "s"), "PUT", "/x?y=1", {"Accept": "a/b"}, b"hello")
    assert (answer.status, answer.headers["retry-after"], answer.plain()) == (418, "3", {"a": 1})
    assert asked[0].startswith(b"PUT /x?y=1 HTTP/1.1\r\nHost: localhost\r\n")
    assert b"Content-Length: 5" in asked[0]


async def test_pieces_make_one_body(tmp_path: Path) -> None:
    said = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"
    async with saying(tmp_path / "s", said):
        answer = await call(at(tmp_path / "s"), "GET", "/")
    assert (answer.body, answer.plain()) == (b"abc", None)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (b"SSH-2.0-x\r\n\r\n", "an answer that is no HTTP"),
        (b"", "an answer that is no HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "an answer that is no HTTP"),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + b"a" * (9 << 20), "a body of more than 8388608 bytes"),
    ],
)
async def test_what_is_no_whole_answer_is_an_error(tmp_path: Path, said: bytes, expected: str) -> None:
    async with saying(tmp_path / "s", said):
        with pytest.raises(Unreachable, match=f"it: .*{expected}"):
            await call(at(tmp_path / "s"), "GET", "/")


async def test_a_server_that_says_nothing_is_waited_for_so_long(tmp_path: Path) -> None:
    async with saying(tmp_path / "s", b"HTTP/1.1 200 OK\r\n", closes=False):
        with pytest.raises(Unreachable, match=r"it: no answer within 0.05 s"):
            await call(at(tmp_path / "s"), "GET", "/", seconds=0.05)


async def test_a_socket_without_a_server_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="it: No such file"):
        await call(at(tmp_path / "s"), "GET", "/")
