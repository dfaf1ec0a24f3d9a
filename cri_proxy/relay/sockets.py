"""Unix stream sockets of the relay: accept clients, connect to the runtime, read and write without waiting."""

import asyncio
import errno
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from cri_proxy.relay.boundary import OnError, contained
from cri_proxy.relay.direction import Parts
from cri_proxy.relay.event_loop import READABLE, WRITABLE, relay_selector

_CHUNK_BYTES: Final = 120 << 10  # of one read: few for a long list, below what malloc maps by itself (128 KiB)
_FULL_BYTES: Final = 1 << 20
"""Above this much unsent data the other side is no longer read: room for a list of 500 containers."""
_ROOM_BYTES: Final = _FULL_BYTES // 4  # at this much it is read again
_ACCEPTED_AT_ONCE: Final = 1000  # more than a backlog holds: a relay that leaves loses no connection
_OUT_OF_RESOURCES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_ACCEPT_AGAIN_SECONDS: Final = 1.0  # once the system has no more descriptors or memory
_CONNECT_SECONDS: Final = 2.0  # for a runtime to accept, whose backlog is full
_CONNECT_PAUSE_SECONDS: Final = 0.02


@dataclass(eq=False)
class RelaySocket:
    """One end of a socket. ``receive`` gets every chunk; ``room`` and ``lost`` are callbacks without arguments.

    ``room`` reports that ``is_full`` has changed, ``lost`` that the socket is closed; it comes in a turn of the loop
    of its own. ``on_error`` gets exceptions of ``receive``; the connection ends then.
    """

    _socket: socket.socket
    _receive: Callable[[bytes], None]
    room: Callable[[], None]
    lost: Callable[[], None]
    on_error: OnError
    is_full: bool = field(default=False, init=False)
    is_closing: bool = field(default=False, init=False)
    received_bytes: int = field(default=0, init=False)
    unsent_bytes: int = field(default=0, init=False)
    _unsent: deque[memoryview] = field(default_factory=deque, init=False)
    _events: int = field(default=0, init=False)  # what the loop watches for

    def __post_init__(self) -> None:
        self._descriptor = self._socket.fileno()
        self._watch = relay_selector().watch
        self._contained = contained(self._failed)

    @property
    def has_ended(self) -> bool:
        """Whether the socket is closed."""
        return self._descriptor < 0

    def read(self, *, wanted: bool) -> None:
        """Begin or pause to read."""
        if not self.is_closing:
            self._watch_for(self._events | READABLE if wanted else self._events & ~READABLE)

    def write(self, parts: Parts) -> None:
        """Send these bytes in order and empty the list; bytes after ``close`` are dropped."""
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        if self.is_closing:
            return
        if not self._unsent:
            sent = self._send(data)
            if sent == len(data) or self.is_closing:
                return
            data = memoryview(data)[sent:]
            self._watch_for(self._events | WRITABLE)
        self._unsent.append(memoryview(data))
        self.unsent_bytes += len(data)
        if self.unsent_bytes > _FULL_BYTES and not self.is_full:
            self.is_full = True
            self.room()

    def close(self) -> None:
        """End the connection once everything is sent."""
        if not self.is_closing:
            self.is_closing = True
            self._watch_for(self._events & ~READABLE)
            if not self._unsent:
                self._end()

    def abort(self) -> None:
        """End the connection at once; unsent bytes are lost."""
        if not self.has_ended:
            self.is_closing = True
            self._end()

    def _ready(self, events: int) -> None:
        with self._contained:
            if events != READABLE:
                self._send_unsent()
            # Reading was paused by a handler of the same poll: the bytes stay in the kernel, and slow the sender down.
            if events == WRITABLE or not self._events & READABLE:
                return
            try:
                data = self._socket.recv(_CHUNK_BYTES)
            except BlockingIOError:
                return
            except OSError:
                self.abort()
                return
            if data:
                self.received_bytes += len(data)
                self._receive(data)
            else:
                self.close()  # HTTP/2 has no half-closed connection; what is unsent still goes out

    def _send(self, data: bytes | memoryview) -> int:
        """Send what the kernel takes now and return how much; a broken connection is aborted."""
        try:
            return self._socket.send(data)
        except BlockingIOError:
            pass
        except OSError:
            self.abort()
        return 0

    def _send_unsent(self) -> None:
        while self._unsent:
            first = self._unsent[0]
            sent = self._send(first)
            if self.has_ended:
                return
            self.unsent_bytes -= sent
            if sent < len(first):
                self._unsent[0] = first[sent:]
                break
            self._unsent.popleft()
        if not self._unsent:
            self._watch_for(self._events & ~WRITABLE)
            if self.is_closing:
                self._end()
        if self.is_full and self.unsent_bytes <= _ROOM_BYTES:
            self.is_full = False
            self.room()

    def _watch_for(self, events: int) -> None:
        if events != self._events:
            self._events = events
            self._watch(self._descriptor, self._ready, events)

    def _failed(self, error: BaseException) -> None:
        self.abort()
        self.on_error(error)

    def _end(self) -> None:
        # Before the close: the kernel gives the number of a closed descriptor to the next socket.
        self._watch_for(0)
        self._descriptor = -1
        self._socket.close()
        self._unsent.clear()
        asyncio.get_running_loop().call_soon(self.lost)


class Listener:
    """Accepts the clients of a listening socket."""

    def __init__(self, sock: socket.socket, on_client: Callable[[socket.socket], None], on_error: OnError) -> None:
        """Hand each client's socket to ``on_client``. ``on_error`` gets the reason why none can be accepted now."""
        self._socket = sock
        self._on_client = on_client
        self._on_error = on_error
        self._loop = asyncio.get_running_loop()
        self._later: asyncio.TimerHandle | None = None
        self._loop.add_reader(sock, self.accept_all)

    def accept_all(self) -> None:
        """Accept the whole backlog."""
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                client, _ = self._socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno not in _OUT_OF_RESOURCES:
                    continue  # this client has left
                self._on_error(error)
                self._loop.remove_reader(self._socket)
                self._later = self._loop.call_later(
                    _ACCEPT_AGAIN_SECONDS, self._loop.add_reader, self._socket, self.accept_all
                )
                return
            client.setblocking(False)
            self._on_client(client)

    def close(self) -> None:
        """Accept no more."""
        if self._later is not None:
            self._later.cancel()
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket)
            self._socket.close()


async def connected(path: str) -> socket.socket:
    """Connect to a Unix socket. Raises OSError."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            while True:
                try:
                    sock.connect(path)
                except BlockingIOError:  # its backlog is full: nothing reports when there is room (connect(2), EAGAIN)
                    await asyncio.sleep(_CONNECT_PAUSE_SECONDS)
                else:
                    return sock
    except BaseException:
        sock.close()
        raise
