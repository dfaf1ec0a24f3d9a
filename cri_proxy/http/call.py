"""Call an HTTP/1.1 server (h11 on asyncio streams): one request on a connection of its own, within limits."""

import asyncio
import json
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import h11

from cri_proxy.errors import CriProxyError
from cri_proxy.foreign_text import admit

CALL_SECONDS: Final = 10.0
_MOST_BYTES: Final = 8 << 20
_READ_BYTES: Final = 65536

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(eq=False)
class Unreachable(CriProxyError):
    """The server does not answer, or with something that is no HTTP."""

    server: str
    problem: str

    def __post_init__(self) -> None:
        """Cut and clean what may hold the server's words."""
        self.problem = admit(self.problem)

    def __str__(self) -> str:
        return f"{self.server}: {self.problem}"


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A whole answer. ``headers`` have names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def plain(self) -> object:
        """Return the body as plain data; None where it is no JSON."""
        try:
            found: object = json.loads(self.body)
        except ValueError:
            return None
        return found


@dataclass(frozen=True, slots=True)
class HttpServer:
    """Where a server is: a Unix socket, or a host and port, with TLS where there is a context."""

    name: str
    socket: Path | None = None
    host: str = "localhost"
    port: int = 0
    tls: ssl.SSLContext | None = field(default=None, compare=False, repr=False)

    async def connect(self) -> Streams:
        """Connect. Raises OSError."""
        if self.socket is not None:
            return await asyncio.open_unix_connection(str(self.socket))
        return await asyncio.open_connection(self.host, self.port, ssl=self.tls)


async def call(
    server: HttpServer,
    method: str,
    target: str,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    *,
    seconds: float = CALL_SECONDS,
) -> HttpAnswer:
    """Return the answer, whatever its status. Raises Unreachable, also after so many seconds."""
    try:
        async with asyncio.timeout(seconds):
            reader, writer = await server.connect()
            try:
                return await _exchange(reader, writer, _request(server, method, target, headers or {}, body), body)
            finally:
                await _close(writer)
    except TimeoutError:
        raise Unreachable(server.name, f"no answer within {seconds:g} s") from None
    except ssl.SSLCertVerificationError as error:
        raise Unreachable(server.name, f"its certificate is not trusted: {error.verify_message}") from None
    except OSError as error:
        raise Unreachable(server.name, error.strerror or str(error)) from None
    except h11.RemoteProtocolError as error:
        raise Unreachable(server.name, f"an answer that is no HTTP: {error}") from None


def _request(server: HttpServer, method: str, target: str, headers: Mapping[str, str], body: bytes) -> h11.Request:
    host = f"[{server.host}]" if ":" in server.host else server.host
    named = {"Host": f"{host}:{server.port}" if server.port else host, "Connection": "close", **headers}
    if body:
        named["Content-Length"] = str(len(body))
    return h11.Request(method=method, target=target, headers=list(named.items()))


async def _exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: h11.Request, body: bytes
) -> HttpAnswer:
    wire = h11.Connection(h11.CLIENT)
    for event in (request, *((h11.Data(data=body),) if body else ()), h11.EndOfMessage()):
        writer.write(wire.send(event) or b"")
    with suppress(ConnectionError):  # it may have answered before it has read all
        await writer.drain()
    head, found = None, bytearray()
    while True:
        event = wire.next_event()
        if event is h11.NEED_DATA:
            wire.receive_data(await reader.read(_READ_BYTES))
        elif isinstance(event, h11.Response):
            head = event
        elif isinstance(event, h11.Data):
            found += event.data
            if len(found) > _MOST_BYTES:
                raise h11.RemoteProtocolError(f"a body of more than {_MOST_BYTES} bytes")
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            names = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
            return HttpAnswer(head.status_code, names, bytes(found))
        elif not isinstance(event, h11.InformationalResponse):
            raise h11.RemoteProtocolError("the connection was closed")


async def _close(writer: asyncio.StreamWriter) -> None:
    """Close the connection; the peer's part of a TLS shutdown is not waited for."""
    writer.transport.abort()
    with suppress(OSError):
        await writer.wait_closed()
