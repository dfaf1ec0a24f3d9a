"""One HTTP/1.1 client connection (h11 on asyncio streams): requests in, responses out, within limits."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractContextManager, aclosing
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol
from urllib.parse import parse_qs, unquote, urlsplit

import h11

from cri_proxy.http.messages import EVENTS, BadRequest, HttpRequest, Response, Turn, is_foreign, text_response

MAX_HEADER_BYTES = 8192
_READ_BYTES = 4096
_LINGER_SECONDS = 1.0
# Of every answer. For the page: nothing but our own files and answers is loaded, no text becomes script or markup, and
# no page of another site shows ours or reads what we answer (CSP Level 3, Trusted Types, Fetch: CORP).
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_SAFE = (
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("Content-Security-Policy", CONTENT_POLICY),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
)


@dataclass(frozen=True, slots=True)
class Times:
    """For how long a client may be silent or not take its answer, in seconds.

    A request comes at once or not at all; an idle connection is kept for a page that refreshes itself.
    """

    request_seconds: float = 5.0
    idle_seconds: float = 30.0
    write_seconds: float = 10.0


class ByteSource(Protocol):
    """The bytes that a client sends: asyncio's stream, or TLS above it."""

    async def read(self, n: int, /) -> bytes:
        """Return at most ``n`` bytes, b"" once the client has closed its side."""

    def at_eof(self) -> bool:
        """Return whether the client has closed its side, and nothing that it sent is unread."""


class ByteSink(Protocol):
    """The bytes that a client gets: asyncio's stream, or TLS above it."""

    def write(self, data: bytes, /) -> None:
        """Send these bytes after those before."""

    def write_eof(self) -> None:
        """Say that nothing follows."""

    async def drain(self) -> None:
        """Wait until the client takes what was written."""

    def is_closing(self) -> bool:
        """Return whether the connection is being closed."""

    def get_extra_info(self, name: str, /) -> object:
        """Return what asyncio knows of the socket."""


class Connection:
    """Requests in, responses out, in order. Methods raise OSError, TimeoutError included, where the client is gone."""

    def __init__(
        self,
        reader: ByteSource,
        writer: ByteSink,
        times: Times,
        turn: Turn = contextlib.nullcontext,
    ) -> None:
        """Speak with the client at the other end of these streams; what it sends is read in turns."""
        self._reader, self._writer, self._times, self._turn = reader, writer, times, turn
        self._wire = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEADER_BYTES)
        self._may_be_silent_seconds = times.request_seconds
        self._head: h11.Request | None = None

    @property
    def local_host(self) -> str:
        """The address that the client connected to, '' for a Unix socket."""
        name = self._writer.get_extra_info("sockname")
        return str(name[0]) if isinstance(name, tuple) else ""

    @property
    def authorization(self) -> str:
        """The ``Authorization`` field of the last request, '' without one."""
        fields = dict(self._head.headers) if self._head else {}
        return fields.get(b"authorization", b"").decode("latin-1")

    def has_left(self) -> bool:
        """Return whether the client has closed its side, and nothing that it sent is unread."""
        return self._reader.at_eof() or self._writer.is_closing()

    async def next_request(self, idle: AbstractContextManager[None]) -> HttpRequest | None:
        """Return the next request without its body; None where the client has closed. Raises BadRequest.

        ``idle`` is entered while waiting for it.
        """
        self._head = None
        with idle:
            async with asyncio.timeout(self._may_be_silent_seconds):
                event = await self._receive()
        self._may_be_silent_seconds = self._times.idle_seconds
        if not isinstance(event, h11.Request):
            return None
        self._head = event
        return read_head(event)

    async def read_body(self, most_bytes: int, received: Callable[[int], object] = int) -> bytes:
        """Return the body of the request whose head was read. Raises BadRequest, also if it is larger than that.

        ``received`` is called with the number of bytes whenever some have come.
        """
        problem = f"a body of more than {most_bytes} bytes" if most_bytes else "this request takes no body"
        too_large = BadRequest(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, problem)
        fields = dict(self._head.headers) if self._head else {}
        if int(fields.get(b"content-length", b"0")) > most_bytes:  # before a client that waits for 100 sends it
            raise too_large
        body = bytearray()
        async with asyncio.timeout(self._times.request_seconds):
            while isinstance(event := await self._receive(), h11.Data):
                body += event.data
                if len(body) > most_bytes:  # chunked: no length was announced
                    raise too_large
                received(len(event.data))
        return bytes(body)

    async def _receive(self) -> object:
        try:
            event = self._wire.next_event()
            while event is h11.NEED_DATA:
                if self._wire.they_are_waiting_for_100_continue:
                    await self._send(h11.InformationalResponse(status_code=HTTPStatus.CONTINUE, headers=[]))
                data = await self._reader.read(_READ_BYTES)
                # Parsing is work for this client, too: it counts in its share of the loop.
                async with self._turn():
                    self._wire.receive_data(data)
                    event = self._wire.next_event()
        except h11.RemoteProtocolError as error:
            raise BadRequest(error.error_status_hint, str(error)) from None
        return event

    async def send(self, response: Response, *, closes: bool = False) -> bool:
        """Send this response; return whether another request may follow. ``closes``: none may."""
        headers = [("Content-Length", str(len(response.body)))]
        if response.allow:
            headers.append(("Allow", ", ".join(response.allow)))
        if response.status == HTTPStatus.UNAUTHORIZED:
            headers.append(("WWW-Authenticate", "Bearer"))  # RFC 9110, 15.5.2
        if closes:
            headers.append(("Connection", "close"))
        body = (h11.Data(data=response.body),) if self._has_body else ()
        await self._send(_head(response.status, response.content_type, headers), *body, h11.EndOfMessage())
        if self._wire.our_state is not h11.DONE or self._wire.their_state is not h11.DONE:
            return False
        self._wire.start_next_cycle()
        return True

    async def stream(self, parts: AsyncGenerator[bytes, None]) -> None:
        """Send these events as they come, until they end or the client has left."""
        await self._send(_head(HTTPStatus.OK, EVENTS, [("Transfer-Encoding", "chunked"), ("Connection", "close")]))
        async with aclosing(parts):
            async for part in parts:
                if self.has_left():
                    return
                if part:
                    await self._send(h11.Data(data=part))
        await self._send(h11.EndOfMessage())

    async def refuse(self, error: BadRequest) -> None:
        """Send the refusal of a request of which not all may have been read."""
        await self.send(text_response(error.status, error.problem, error.allow), closes=True)
        # A socket that is closed with bytes unread resets the connection, and the reset overtakes the answer.
        self._writer.write_eof()
        async with asyncio.timeout(_LINGER_SECONDS):
            while await self._reader.read(_READ_BYTES):
                pass

    @property
    def _has_body(self) -> bool:
        """Whether the response to the last request has one (RFC 9110, 9.3.2)."""
        return self._head is None or self._head.method != b"HEAD"

    async def _send(self, *events: h11.Event) -> None:
        self._writer.write(b"".join(self._wire.send(event) or b"" for event in events))
        # A client that does not take its answer would hold its connection.
        async with asyncio.timeout(self._times.write_seconds):
            await self._writer.drain()


def _head(status: int, content_type: str, more: Sequence[tuple[str, str]]) -> h11.Response:
    headers = [("Content-Type", content_type), *more, *_SAFE]
    return h11.Response(status_code=status, headers=headers, reason=HTTPStatus(status).phrase)


def read_head(head: h11.Request) -> HttpRequest:
    """Return the request with this head, without its body. Raises BadRequest."""
    if not head.http_version.startswith(b"1."):
        raise BadRequest(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "expected HTTP/1.1")
    try:
        url = urlsplit(head.target.decode("ascii"))
        query = parse_qs(url.query, keep_blank_values=True, max_num_fields=20)
    except ValueError as error:
        raise BadRequest(HTTPStatus.BAD_REQUEST, f"cannot read the target: {error}") from None
    first = {name: values[0] for name, values in query.items()}
    fields = {name: value.decode("latin-1") for name, value in head.headers}
    host = fields.get(b"host", "")  # h11 has refused a second one
    foreign = is_foreign(host, fields.get(b"origin", ""), fields.get(b"sec-fetch-site", ""))
    return HttpRequest(head.method.decode("ascii"), unquote(url.path), first, host, is_foreign=foreign)
