"""Serve given routes on the admin socket (root only) and TCP: listen, retry, limit, answer; POST where offered."""

import asyncio
import errno
from collections.abc import Callable, Coroutine, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Protocol

from cri_proxy.clock import SystemClock
from cri_proxy.errors import ConfigError
from cri_proxy.http.connection import MAX_HEADER_BYTES, ByteSink, ByteSource, Connection, Times
from cri_proxy.http.limits import ConnectionLimit, FairShare
from cri_proxy.http.messages import (
    BadRequest,
    Handler,
    HttpRequest,
    PostHandler,
    Response,
    StreamHandler,
    Turn,
    is_loopback,
    names_this_machine,
    text_response,
)
from cri_proxy.steps import Steps
from cri_proxy.tasks import Tasks
from cri_proxy.unix_socket import Published, listen_on

MAX_BODY_BYTES = 1 << 20  # what a ConfigMap may hold
_MAX_CONNECTIONS = 64
MAX_STREAMS = 8
_RETRY_SECONDS = 60.0
_TIMES = Times()


@dataclass(frozen=True, slots=True)
class Posts:
    """The POST handlers by path that a kind of socket offers: bodies of up to so many bytes, so many at a time.

    Beside those that are being answered, one more than these may be on their way. ``shares_loop``: all that these
    clients send is read and answered within their share of the event loop's time, as the process has other work.
    ``waiting`` are handlers that wait for others, and so take their turns by themselves.
    """

    handlers: Mapping[str, PostHandler] = field(default_factory=dict)
    most_body_bytes: int = MAX_BODY_BYTES
    most_at_once: int = _MAX_CONNECTIONS
    shares_loop: bool = True
    waiting: Mapping[str, PostHandler] = field(default_factory=dict)


class Stream(ByteSource, ByteSink, Protocol):
    """Both directions of a connection."""


class Guard(Protocol):
    """The check that clients on TCP pass first (``http.tls``)."""

    async def load(self) -> str:
        """Get ready; return why that is not possible, else ''."""

    async def keep_loaded(self) -> None:
        """Stay up to date, until cancelled."""

    async def secured(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, turn: Turn) -> Stream:
        """Return the connection of a client that speaks TLS. Raises OSError."""

    def admits(self, authorization: str) -> bool:
        """Return whether a request with this ``Authorization`` field is answered."""


class _Clients:
    """The limits that the clients of one kind of socket share."""

    def __init__(self, posts: Posts) -> None:
        """``posts``: what they may POST."""
        self.posts = posts
        self.bodies = asyncio.Semaphore(posts.most_at_once)
        self.connections = ConnectionLimit(_MAX_CONNECTIONS, (1 + posts.most_at_once) * posts.most_body_bytes)
        self.streams = 0
        self.share = FairShare(SystemClock())
        self.turn = self.share.turn if posts.shares_loop else nullcontext


@dataclass(eq=False)
class AdminServer:
    """Serve one table of routes on every address that is opened.

    ``routes``, ``streams`` and ``posts`` are handlers by path, the last for the admin socket alone. A TCP address that
    is not available is tried again every ``retry_seconds``; ``on_late_tcp`` gets it then. ``guard``: TCP is TLS. The
    ``public`` handlers by path are answered without its token too: they tell nothing of the node.
    """

    routes: Mapping[str, Handler]
    posts: Mapping[str, PostHandler] = field(default_factory=dict)
    tcp_posts: Posts = Posts()
    streams: Mapping[str, StreamHandler] = field(default_factory=dict)
    public: Mapping[str, Handler] = field(default_factory=dict)
    on_late_tcp: Callable[[str], object] | None = None
    guard: Guard | None = None
    times: Times = _TIMES
    retry_seconds: float = _RETRY_SECONDS

    def __post_init__(self) -> None:
        """Open nothing yet."""
        self._servers: list[asyncio.Server] = []
        # Root's commands have connections of their own, which clients on TCP cannot use up.
        self._root, self._others = _Clients(Posts(self.posts, shares_loop=False)), _Clients(self.tcp_posts)
        self._retrying = Tasks()
        self._socket: Published | None = None
        self._is_finishing = False

    async def listen_unix(self, path: Path) -> None:
        """Open the admin socket with mode 0600 in place of one that is there. Raises ConfigError."""
        try:
            # The store's lock is ours by now: a daemon that still answers there is on its way out.
            listener, self._socket = listen_on(path, None, take_over=True)
        except ConfigError as error:  # it is no option of its own: its path follows from ``listen``
            raise ConfigError(error.path, 0, "admin socket", error.problem) from error
        accept = partial(self._accept, self._root)
        self._servers.append(await asyncio.start_unix_server(accept, sock=listener, limit=MAX_HEADER_BYTES))

    async def listen_tcp(self, address: str) -> str | None:
        """Listen on ADDRESS:PORT, or not at all on ``off``; return why that failed, as a sentence.

        An address that is taken is tried again: the process that has it, as the one before this one, may end.
        """
        if address == "off":
            return None
        problem = await self.open_tcp(address)
        if problem:
            self._retrying.start(self._retry_tcp(address), name="http retry")
            problem += "; it is tried again every minute, and until then status is served on the admin socket only"
        return problem or None

    async def _retry_tcp(self, address: str) -> None:
        problem = address
        while problem:
            await asyncio.sleep(self.retry_seconds)
            problem = await self.open_tcp(address)
        if self.on_late_tcp is not None:
            self.on_late_tcp(address)

    async def open_tcp(self, address: str) -> str:
        """Listen on ADDRESS:PORT, or not; return why that failed, else ''."""
        if self.guard is not None and (problem := await self.guard.load()):
            return f"httpTLS: {problem}"
        host, _, port = address.rpartition(":")
        accept = partial(self._accept, self._others) if self.guard is None else partial(self._accept_tls, self.guard)
        try:
            server = await asyncio.start_server(
                accept, host.strip("[]"), int(port), limit=MAX_HEADER_BYTES, reuse_address=True
            )
        except OSError as error:
            reason = "the port is taken" if error.errno == errno.EADDRINUSE else (error.strerror or str(error))
            return f"{address}: {reason}; --http names another address"
        self._servers.append(server)
        if self.guard is not None:
            self._retrying.start(self.guard.keep_loaded(), name="http TLS files")
        return ""

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """The TCP addresses that are open, with their ports."""
        names = (sock.getsockname() for server in self._servers for sock in server.sockets)
        return tuple((str(name[0]), int(name[1])) for name in names if isinstance(name, tuple))

    async def finish(self, seconds: float) -> None:
        """Stop listening, and give the requests that are being answered so long; ``close`` drops what is left."""
        self._is_finishing = True
        await self._retrying.cancel()
        for server in self._servers:
            server.close()
        # kube-scheduler takes an answer that is dropped for a failure of its extender.
        await asyncio.gather(*(clients.connections.finish(seconds) for clients in (self._root, self._others)))

    async def close(self) -> None:
        """Stop listening, drop connections, and remove the socket if it is still ours."""
        await self._retrying.cancel()
        for server in self._servers:
            server.close()
        await self._root.connections.cancel()
        await self._others.connections.cancel()
        if self._socket is not None:
            self._socket.withdraw()

    def _accept(self, clients: _Clients, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer, self.times, clients.turn)
        if clients.connections.make_room():
            clients.connections.serve(self._until_closed(partial(self._answer_all, connection, clients), writer))
        else:
            full = text_response(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections")
            clients.connections.refuse(self._until_closed(partial(connection.send, full, closes=True), writer))

    def _accept_tls(self, guard: Guard, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        clients = self._others
        if clients.connections.make_room():
            talk = partial(self._answer_tls, guard, reader, writer)
            clients.connections.serve(self._until_closed(talk, writer))
        else:
            writer.transport.abort()  # a refusal in words would take a handshake, a millisecond of CPU time

    async def _answer_tls(self, guard: Guard, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Agree on keys with a client, then answer it. Raises OSError, also where it does not speak TLS."""
        clients = self._others
        with clients.connections.idle():
            async with asyncio.timeout(self.times.request_seconds):
                stream = await guard.secured(reader, writer, clients.share.turn)
        await self._answer_all(Connection(stream, stream, self.times, clients.turn), clients)
        stream.write_eof()

    async def _until_closed(
        self, talk: Callable[[], Coroutine[object, object, object]], writer: asyncio.StreamWriter
    ) -> None:
        """Talk on a connection, then close it."""
        try:
            await talk()
            writer.close()
            async with asyncio.timeout(self.times.write_seconds):
                await writer.wait_closed()
        except OSError:  # also TimeoutError
            pass  # the client is gone or stuck
        finally:
            # What the client has not taken is dropped, or it would hold the connection.
            writer.transport.abort()

    async def _answer_all(self, connection: Connection, clients: _Clients) -> None:
        """Answer requests until the connection is closed, idle for too long, or has to be closed after an error."""
        try:
            while await self._answer_one(connection, clients) and not self._is_finishing:
                pass
        except BadRequest as error:
            await connection.refuse(error)

    async def _answer_one(self, connection: Connection, clients: _Clients) -> bool:
        """Answer one request; return whether another may follow. Raises BadRequest."""
        request = await connection.next_request(clients.connections.idle())
        if request is None:
            return False
        # The page's files are public: a browser that opens it has no token to send yet.
        is_guarded = clients is self._others and request.path not in self.public
        if self.guard is not None and is_guarded and not self.guard.admits(connection.authorization):
            raise BadRequest(HTTPStatus.UNAUTHORIZED, "expected Authorization: Bearer TOKEN, with a token of tokenFile")
        if request.path in self.streams and request.method == "GET":
            return await self._stream(connection, request, clients)
        post = clients.posts.handlers.get(request.path) or clients.posts.waiting.get(request.path)
        allowed = ("GET", "HEAD") if post is None else ("POST",)
        if request.method not in allowed:
            raise BadRequest(HTTPStatus.METHOD_NOT_ALLOWED, f"{request.method} is not offered here", allowed)
        if post is not None:
            return await connection.send(await self._post(connection, request, clients, post))
        await connection.read_body(0)
        return await connection.send(await self._get(connection, request, clients))

    async def _post(
        self, connection: Connection, request: HttpRequest, clients: _Clients, post: PostHandler
    ) -> Response:
        _require_ours(connection, request)
        # A client that sends slowly holds its connection, and no turn: others are answered meanwhile.
        with clients.connections.receiving() as received:
            body = await connection.read_body(clients.posts.most_body_bytes, received)
            # Still ``receiving``: a whole body that waits here takes memory, so it counts and may be dropped.
            await clients.bodies.acquire()
        whole = replace(request, body=body, is_abandoned=connection.has_left, turn=clients.share.turn)
        try:
            async with nullcontext() if request.path in clients.posts.waiting else clients.turn():
                answer = await post(whole)
            return await self._whole(answer, clients)
        finally:
            clients.bodies.release()

    async def _stream(self, connection: Connection, request: HttpRequest, clients: _Clients) -> bool:
        """Send a stream of events for as long as the client listens; no request follows. Raises BadRequest."""
        _require_ours(connection, request)
        await connection.read_body(0)
        if clients.streams >= MAX_STREAMS:
            raise BadRequest(HTTPStatus.SERVICE_UNAVAILABLE, f"{MAX_STREAMS} clients listen already")
        clients.streams += 1
        try:
            with clients.connections.idle():  # it opens another one where a new client needs the place
                await connection.stream(self.streams[request.path](clients.share.run))
        finally:
            clients.streams -= 1
        return False

    async def _get(self, connection: Connection, request: HttpRequest, clients: _Clients) -> Response:
        async with clients.share.turn():
            answer = self._route(connection, request)
        return await self._whole(answer, clients)

    async def _whole(self, answer: Response | Steps[Response], clients: _Clients) -> Response:
        return answer if isinstance(answer, Response) else await clients.share.run(answer)

    def _route(self, connection: Connection, request: HttpRequest) -> Response | Steps[Response]:
        if problem := _misdirected(connection, request):
            return text_response(HTTPStatus.MISDIRECTED_REQUEST, problem)
        handler = self.public.get(request.path) or self.routes.get(request.path)
        if handler is None:
            known = " ".join(sorted({**self.routes, **self.public}))
            return text_response(HTTPStatus.NOT_FOUND, f"known here: {known}")
        return handler(request.query)


def _require_ours(connection: Connection, request: HttpRequest) -> None:
    """Raise BadRequest for a request that the page of another site has a browser send, or that names another machine.

    What is asked by GET and answered at once is left to the browser, which does not let that page read it.
    """
    if problem := _misdirected(connection, request):
        raise BadRequest(HTTPStatus.MISDIRECTED_REQUEST, problem)
    if request.is_foreign:
        raise BadRequest(HTTPStatus.FORBIDDEN, "the page of another site may not ask this")


def _misdirected(connection: Connection, request: HttpRequest) -> str:
    """Return why a request that names another machine is not answered; '' for any other."""
    if is_loopback(connection.local_host) and not names_this_machine(request.host):
        return "this address answers to its number and to localhost only"
    return ""
