"""The HTTP server: GET only, small requests, short waits. On a private Unix socket and, if wanted, on TCP."""

import asyncio
import errno
import os
import socket
import stat
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path

from cri_proxy.clock import SystemClock
from cri_proxy.errors import CriProxyError
from cri_proxy.http.clients import Clients
from cri_proxy.http.hosts import is_loopback, names_this_machine
from cri_proxy.http.messages import (
    MAX_HEADER_BYTES,
    BadRequest,
    Request,
    Response,
    parse_request,
    render_response,
    text_response,
)
from cri_proxy.http.routes import Handler, PrivateHandler, build_routes
from cri_proxy.http.turns import Turns
from cri_proxy.node.status.model import DaemonView
from cri_proxy.slices import Slices
from cri_proxy.tasks import Tasks

# A request comes at once or not at all; an idle connection is kept for a refreshing page.
_HEAD_SECONDS = 5.0
_IDLE_SECONDS = 30.0
_WRITE_SECONDS = 10.0
_MAX_CONNECTIONS = 64
_RETRY_SECONDS = 60.0


@dataclass(eq=False)
class AdminSocketError(CriProxyError):
    """The admin socket cannot be opened: the path, the problem and the remedy."""

    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: cannot open the admin socket: {self.problem}"


class AdminServer:
    """Serves one table of routes on every address that it was told to listen on."""

    def __init__(
        self,
        view: DaemonView,
        *,
        idle_seconds: float = _IDLE_SECONDS,
        write_seconds: float = _WRITE_SECONDS,
        retry_seconds: float = _RETRY_SECONDS,
    ) -> None:
        """Nothing is opened yet. A client may be silent or not take its answer for so long.

        A TCP address that cannot be had is tried again every ``retry_seconds``.
        """
        self._routes: Mapping[str, Handler] = build_routes(view)
        self.private: dict[str, PrivateHandler] = {}
        """Paths that the admin socket alone answers."""
        self._idle_seconds = idle_seconds
        self._write_seconds = write_seconds
        self._retry_seconds = retry_seconds
        self._servers: list[asyncio.Server] = []
        # Root's commands have connections of their own, which clients on TCP cannot use up.
        self._on_admin_socket, self._on_tcp = Clients(_MAX_CONNECTIONS), Clients(_MAX_CONNECTIONS)
        self._retrying = Tasks()
        self._problem = ""
        self.on_late_tcp: Callable[[str], object] = _nobody_listens
        """Hears the address that could not be had at first, once it is open."""
        clock = SystemClock()
        self._turns_of_root, self._turns_of_all = Turns(clock), Turns(clock)
        self._socket: tuple[Path, int] | None = None

    async def listen_unix(self, path: Path) -> None:
        """Open the admin socket with mode 0600; a stale one is replaced. Raises AdminSocketError."""
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.unlink(missing_ok=True)
            # Closed to others before it has its name: between bind and chmod nobody can find it by that name.
            mask = os.umask(0o177)
            try:
                listener.bind(str(temporary))
            finally:
                os.umask(mask)
            listener.listen(16)
            inode = temporary.stat().st_ino
            _refuse_non_socket(path)
            temporary.rename(path)
        except OSError as error:
            listener.close()
            temporary.unlink(missing_ok=True)
            raise AdminSocketError(str(path), error.strerror or str(error)) from error
        self._socket = (path, inode)
        self._servers.append(await asyncio.start_unix_server(self._accept, sock=listener, limit=MAX_HEADER_BYTES))

    async def listen_tcp(self, address: str) -> str | None:
        """Listen on ADDRESS:PORT, or not at all on ``off``; gives why it could not, as a sentence.

        Then it is tried again until it can be had: whoever has it, the process before this one for example, may go.
        """
        if address == "off":
            return None
        self._problem = await self._open_tcp(address)
        if self._problem:
            self._retrying.start(self._retry_tcp(address), name="http retry")
        return self._problem or None

    def warnings(self) -> tuple[str, ...]:
        """What an operator should know of it now, in sentences."""
        return (f"http: {self._problem}",) if self._problem else ()

    async def _retry_tcp(self, address: str) -> None:
        while self._problem:
            await asyncio.sleep(self._retry_seconds)
            self._problem = await self._open_tcp(address)
        self.on_late_tcp(address)

    async def _open_tcp(self, address: str) -> str:
        """Try to listen there; '' or why not."""
        host, _, port = address.rpartition(":")
        try:
            server = await asyncio.start_server(
                self._accept, host.strip("[]"), int(port), limit=MAX_HEADER_BYTES, reuse_address=True
            )
        except OSError as error:
            reason = "the port is taken" if error.errno == errno.EADDRINUSE else (error.strerror or str(error))
            until = "status is served on the admin socket only until it can be had"
            return f"{address}: {reason}; {until}, --http names another address"
        self._servers.append(server)
        return ""

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """The TCP addresses that are open, with their ports."""
        names = (sock.getsockname() for server in self._servers for sock in server.sockets)
        return tuple((str(name[0]), int(name[1])) for name in names if isinstance(name, tuple))

    async def close(self) -> None:
        """Stop listening, drop connections, and remove the socket if it is still ours."""
        await self._retrying.cancel()
        for server in self._servers:
            server.close()
        await self._on_admin_socket.cancel()
        await self._on_tcp.cancel()
        if self._socket is not None:
            path, inode = self._socket
            try:
                if path.lstat().st_ino == inode:
                    path.unlink()
            except FileNotFoundError:
                pass
            self._socket = None

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_tcp = isinstance(writer.get_extra_info("sockname"), tuple)
        clients = self._on_tcp if is_tcp else self._on_admin_socket
        if clients.makes_room():
            clients.serve(self._until_closed(partial(self._answer_all, reader, writer, clients), writer))
        else:
            full = _whole(text_response(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections"))
            clients.refuse(self._until_closed(partial(self._send, writer, full), writer))

    async def _until_closed(
        self, talk: Callable[[], Coroutine[object, object, None]], writer: asyncio.StreamWriter
    ) -> None:
        """What there is to say on a connection, and its end."""
        try:
            await talk()
            writer.close()
            async with asyncio.timeout(self._write_seconds):
                await writer.wait_closed()
        except (OSError, TimeoutError):
            pass  # the peer is gone or stuck: nobody is left to be told
        finally:
            # What it has not taken is dropped, or it would hold the connection for ever.
            writer.transport.abort()

    async def _answer_all(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, clients: Clients) -> None:
        """Request after request until the connection is closed, idle for long, or not understood."""
        seconds = _HEAD_SECONDS
        while True:
            try:
                with clients.idle():
                    async with asyncio.timeout(seconds):
                        head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                return
            except asyncio.LimitOverrunError:
                problem = f"more than {MAX_HEADER_BYTES} bytes of header"
                await self._send(writer, _whole(text_response(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, problem)))
                return
            if not await self._answer_one(head, writer):
                return
            seconds = self._idle_seconds

    async def _answer_one(self, head: bytes, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; whether the connection stays open."""
        try:
            request = parse_request(head)
        except BadRequest as error:
            await self._send(writer, _whole(text_response(error.status, error.problem)))
            return False
        response = await self._respond(writer, request)
        has_body = request.method == "GET"
        await self._send(writer, render_response(response, has_body=has_body, keeps_alive=request.keeps_alive))
        return request.keeps_alive

    async def _respond(self, writer: asyncio.StreamWriter, request: Request) -> Response:
        is_root = writer.get_extra_info("socket").family == socket.AF_UNIX
        private = self.private.get(request.path)
        if private is not None and is_root:
            return await private(request.query)
        turns = self._turns_of_root if is_root else self._turns_of_all
        async with turns.turn():
            answer = _misdirected(writer, request) or self._answer(request)
        return answer if isinstance(answer, Response) else await turns.take(answer)

    def _answer(self, request: Request) -> Response | Slices[Response]:
        handler = self._routes.get(request.path)
        if handler is None:
            return text_response(HTTPStatus.NOT_FOUND, f"known here: {' '.join(sorted(self._routes))}")
        return handler(request.query)

    async def _send(self, writer: asyncio.StreamWriter, answer: bytes) -> None:
        writer.write(answer)
        async with asyncio.timeout(self._write_seconds):
            await writer.drain()


def _nobody_listens(address: str) -> None:
    return


def _misdirected(writer: asyncio.StreamWriter, request: Request) -> Response | None:
    """The refusal of a request that came over loopback with a foreign page's name; None where nothing is wrong."""
    name = writer.get_extra_info("sockname")
    if not isinstance(name, tuple) or not is_loopback(str(name[0])) or names_this_machine(request.host):
        return None
    return text_response(HTTPStatus.MISDIRECTED_REQUEST, "this address answers to its number and to localhost only")


def _refuse_non_socket(path: Path) -> None:
    """A stale socket may be replaced, anything else may not."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise OSError(errno.EEXIST, "something that is not a socket is in its place: remove it")


def _whole(response: Response) -> bytes:
    """An answer after which the connection is closed."""
    return render_response(response, has_body=True, keeps_alive=False)
