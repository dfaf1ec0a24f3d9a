import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from cri_proxy.relay import sockets
from cri_proxy.relay.direction import Parts
from cri_proxy.relay.event_loop import READABLE, WRITABLE, OnReady, RelayLoop
from cri_proxy.relay.sockets import Listener, RelaySocket, connected
from cri_proxy.tasks import Tasks
from tests.fakes.waiting import holds

BIG = bytes(3 << 20)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "asyncio", {"loop_factory": RelayLoop}


@pytest.fixture
async def end() -> AsyncIterator["End"]:
    made = End()
    yield made
    made.close()


class End:
    """A connection, its peer, and its callbacks in their order."""

    def __init__(self, receive: Callable[[bytes], None] | None = None) -> None:
        ours, self.peer = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ours.setblocking(False)
        self.peer.setblocking(False)
        self.received = bytearray()
        self.happened: list[str] = []
        self.errors: list[BaseException] = []
        self.connection = RelaySocket(
            ours,
            receive or self.received.extend,
            room=lambda: self.happened.append("full" if self.connection.is_full else "room"),
            lost=lambda: self.happened.append("lost"),
            on_error=self.errors.append,
        )

    def close(self) -> None:
        self.connection.abort()
        self.peer.close()

    async def taken(self, count: int) -> bytes:
        """Read this much at the peer."""
        found = bytearray()
        async with asyncio.timeout(20):
            while len(found) < count:
                found += await asyncio.get_running_loop().sock_recv(self.peer, 1 << 20)
        return bytes(found)


async def test_chunks_arrive_while_they_are_wanted(end: End) -> None:
    end.peer.send(b"early")
    await asyncio.sleep(0.005)
    assert not end.received
    end.connection.read(wanted=True)
    await holds("it happened", lambda: end.received == b"early")
    end.connection.read(wanted=False)
    end.peer.send(b"late")
    await asyncio.sleep(0.005)
    assert (bytes(end.received), end.connection.received_bytes) == (b"early", 5)
    end.connection.read(wanted=True)
    await holds("it happened", lambda: end.received == b"earlylate")


async def test_a_connection_that_another_ones_bytes_pause_is_not_read_in_the_same_round() -> None:
    ends, received = list[End](), list[bytes]()

    def pause_all(data: bytes) -> None:
        received.append(data)
        for end in ends:
            end.connection.read(wanted=False)

    ends += [End(pause_all), End(pause_all)]
    for end in ends:
        end.connection.write([BIG])  # it is watched on, for room
        end.connection.read(wanted=True)
        end.peer.send(b"x")
    await holds("it happened", lambda: bool(received))
    await asyncio.sleep(0.005)
    assert received == [b"x"]
    for end in ends:
        end.close()


async def test_a_wake_up_without_bytes_changes_nothing(end: End) -> None:
    end.connection.read(wanted=True)
    end.connection._ready(READABLE)
    assert (end.errors, end.connection.has_ended) == ([], False)


async def test_a_wake_up_without_room_loses_no_byte(end: End) -> None:
    end.connection.write([BIG, b"end"])
    end.connection._ready(WRITABLE)
    assert await end.taken(len(BIG) + 3) == BIG + b"end"
    assert end.errors == []


async def test_parts_are_sent_in_order_and_the_list_is_emptied(end: End) -> None:
    parts: Parts = [b"a", memoryview(b"bc"), b""]
    end.connection.write(parts)
    assert (parts, await end.taken(3)) == ([], b"abc")


async def test_the_loop_is_asked_for_room_only_while_there_are_bytes_that_the_kernel_does_not_take(end: End) -> None:
    asked, watch = list[int](), end.connection._watch

    def noted(descriptor: int, handler: OnReady, events: int) -> None:
        asked.append(events)
        watch(descriptor, handler, events)

    end.connection._watch = noted
    end.connection.write([b"few"])
    assert asked == []
    end.connection.write([BIG])
    assert asked == [WRITABLE]
    await end.taken(3 + len(BIG))
    await holds("it happened", lambda: asked == [WRITABLE, 0])


async def test_what_the_kernel_does_not_take_waits_and_the_owner_is_told_of_full_and_room(end: End) -> None:
    end.connection.write([BIG])
    end.connection.write([b"tail"])
    assert end.happened == ["full"]
    assert (await end.taken(len(BIG) + 4)) == BIG + b"tail"
    await holds("it happened", lambda: end.happened == ["full", "room"])


async def test_there_is_room_again_at_a_quarter_of_what_is_full(end: End) -> None:
    unsent = list[int]()
    end.connection.room = lambda: unsent.append(end.connection.unsent_bytes)
    end.connection.write([BIG])
    await end.taken(len(BIG))
    await holds("it happened", lambda: len(unsent) == 2)
    assert unsent[0] > 1 << 20
    assert unsent[1] <= 1 << 18


async def test_close_sends_what_waits_and_drops_what_comes_after(end: End) -> None:
    late: Parts = [b"late"]
    end.connection.write([BIG])
    end.connection.close()
    end.connection.write(late)
    assert (await end.taken(len(BIG))) == BIG
    await holds("it happened", lambda: end.happened == ["full", "room", "lost"])
    assert (late, end.connection.has_ended, end.peer.recv(1)) == ([], True, b"")


async def test_a_connection_that_closes_reads_no_more_while_it_sends_what_waits(end: End) -> None:
    end.connection.read(wanted=True)
    end.connection.write([BIG])
    end.connection.close()
    end.peer.send(b"late")
    await end.taken(len(BIG))
    await holds("it happened", lambda: end.happened[-1] == "lost")
    assert end.received == b""


async def test_abort_drops_what_waits_and_reports_the_loss_once(end: End) -> None:
    end.connection.write([BIG])
    end.connection.abort()
    end.connection.abort()
    end.connection.close()
    assert end.happened == ["full"]  # the loss comes in a turn of its own
    await asyncio.sleep(0.005)
    assert end.happened == ["full", "lost"]


async def test_the_end_of_the_peer_ends_the_connection_once_everything_is_sent(end: End) -> None:
    end.connection.read(wanted=True)
    end.connection.write([BIG])
    end.peer.shutdown(socket.SHUT_WR)
    assert (await end.taken(len(BIG))) == BIG
    await holds("it happened", lambda: end.happened[-1] == "lost")


async def test_a_peer_that_breaks_off_is_noticed_in_reading_and_in_writing() -> None:
    reading, writing = End(), End()
    reading.connection.write([b"unread"])  # makes the kernel reset the connection
    reading.peer.close()
    reading.connection.read(wanted=True)
    writing.peer.close()
    writing.connection.write([b"x"])
    await holds("it happened", lambda: reading.happened == writing.happened == ["lost"])
    assert reading.errors == writing.errors == []
    reading.close()
    writing.close()


async def test_a_peer_that_breaks_off_while_bytes_wait_is_no_error(end: End) -> None:
    end.connection.write([BIG])
    end.peer.close()
    await holds("it happened", lambda: end.happened == ["full", "lost"])
    assert end.errors == []


async def test_a_peer_that_hangs_up_while_it_is_not_read_costs_nothing_and_loses_nothing(end: End) -> None:
    end.peer.send(b"last words")
    end.peer.close()
    await asyncio.sleep(0.005)
    assert end.happened == []
    end.connection.read(wanted=True)
    await holds("it happened", lambda: end.happened == ["lost"])
    assert end.received == b"last words"


async def test_a_fault_in_receiving_ends_this_connection_alone() -> None:
    def fail(data: bytes) -> None:
        raise ZeroDivisionError(data.decode())

    end, other = End(fail), End()
    for one in (end, other):
        one.connection.read(wanted=True)
        one.peer.send(b"x")
    await holds("it happened", lambda: end.happened == ["lost"] and other.received == b"x")
    assert [repr(error) for error in end.errors] == ["ZeroDivisionError('x')"]
    end.close()
    other.close()


def listening(path: Path, backlog: int = 16) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    sock.bind(str(path))
    sock.listen(backlog)
    return sock


async def test_the_whole_backlog_is_accepted_at_once(tmp_path: Path) -> None:
    path, accepted, errors = tmp_path / "s", list[socket.socket](), list[BaseException]()
    listener = Listener(listening(path), accepted.append, errors.append)
    clients = [await connected(str(path)) for _ in range(9)]
    listener.accept_all()
    listener.close()
    assert (len(accepted), errors) == (9, [])
    assert not accepted[0].getblocking()
    for sock in (*clients, *accepted):
        sock.close()


class Failing:
    """A listening socket whose next calls of ``accept`` fail with these errors."""

    def __init__(self, sock: socket.socket, *codes: int) -> None:
        self._sock = sock
        self.codes = list(codes)

    def fileno(self) -> int:
        return self._sock.fileno()

    def accept(self) -> tuple[socket.socket, object]:
        if self.codes:
            raise OSError(self.codes.pop(0), "no client")
        return self._sock.accept()

    def close(self) -> None:
        self._sock.close()


async def test_without_descriptors_clients_are_accepted_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "_ACCEPT_AGAIN_SECONDS", 0.005)
    path, accepted, errors = tmp_path / "s", list[socket.socket](), list[BaseException]()
    failing = Failing(listening(path), errno.ECONNABORTED, errno.EMFILE)
    listener = Listener(failing, accepted.append, errors.append)  # type: ignore[arg-type]
    client = await connected(str(path))
    await holds("it happened", lambda: len(accepted) == 1)
    assert [error.errno for error in errors if isinstance(error, OSError)] == [errno.EMFILE]
    listener.close()
    for sock in (client, *accepted):
        sock.close()


async def test_a_client_that_has_left_keeps_no_other_from_being_accepted(tmp_path: Path) -> None:
    path, accepted, errors = tmp_path / "s", list[socket.socket](), list[BaseException]()
    listener = Listener(Failing(listening(path), errno.ECONNABORTED), accepted.append, errors.append)  # type: ignore[arg-type]
    client = await connected(str(path))
    listener.accept_all()
    assert (len(accepted), errors) == (1, [])
    listener.close()
    for sock in (client, *accepted):
        sock.close()


async def test_without_descriptors_the_loop_is_left_in_peace_until_it_is_time_to_try_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "_ACCEPT_AGAIN_SECONDS", 600)
    path, errors = tmp_path / "s", list[BaseException]()
    listener = Listener(Failing(listening(path), *[errno.EMFILE] * 9), pytest.fail, errors.append)  # type: ignore[arg-type]
    client = await connected(str(path))
    await holds("it happened", lambda: bool(errors))
    await asyncio.sleep(0.005)
    assert len(errors) == 1
    listener.close()
    client.close()


async def test_a_listener_that_is_closed_does_not_try_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "_ACCEPT_AGAIN_SECONDS", 0.002)
    loop, path, errors, faults = asyncio.get_running_loop(), tmp_path / "s", list[BaseException](), list[object]()
    loop.set_exception_handler(lambda _, context: faults.append(context))
    sock = Failing(listening(path))
    listener = Listener(sock, pytest.fail, errors.append)  # type: ignore[arg-type]
    sock.codes = [errno.EMFILE]
    listener.accept_all()  # it will try again
    listener.close()
    await asyncio.sleep(0.005)
    assert (len(errors), faults) == (1, [])


async def test_a_listener_that_is_closed_leaves_no_watch_to_who_gets_its_descriptor(tmp_path: Path) -> None:
    sock = listening(tmp_path / "s")
    descriptor = sock.fileno()
    Listener(sock, socket.socket.close, list[BaseException]().append).close()
    assert not asyncio.get_running_loop().remove_reader(descriptor)


async def test_a_full_backlog_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "s"
    server = listening(path, backlog=0)
    first = await connected(str(path))
    tasks, seconds = Tasks(), list[socket.socket]()

    async def connect() -> None:
        seconds.append(await connected(str(path)))

    tasks.start(connect())
    await asyncio.sleep(0.05)
    assert not seconds
    accepted, _ = server.accept()
    await tasks.join()
    for sock in (first, accepted, server, *seconds):
        sock.close()


async def test_connecting_fails_where_nothing_listens_or_the_backlog_stays_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FileNotFoundError):
        await connected(str(tmp_path / "none"))
    monkeypatch.setattr(sockets, "_CONNECT_SECONDS", 0.05)
    server = listening(tmp_path / "s", backlog=0)
    first = await connected(str(tmp_path / "s"))
    with pytest.raises(TimeoutError):
        await connected(str(tmp_path / "s"))
    first.close()
    server.close()


async def test_a_connection_is_full_beyond_a_mebibyte_that_waits(end: End) -> None:
    assert end.connection.unsent_bytes == 0
    end.connection.write([bytes(1 << 19)])  # the kernel takes a part of it
    waiting = end.connection.unsent_bytes
    assert 0 < waiting < 1 << 19
    end.connection.write([bytes((1 << 20) - waiting)])
    assert (end.connection.unsent_bytes, end.happened) == (1 << 20, [])
    end.connection.write([b"x"])
    assert (end.connection.unsent_bytes, end.happened) == ((1 << 20) + 1, ["full"])
    await end.taken((1 << 19) - waiting + (1 << 20) + 1)
    await holds("it happened", lambda: end.connection.unsent_bytes == 0)
    end.connection.abort()
    end.connection.write([b"late"])
    assert end.connection.unsent_bytes == 0
