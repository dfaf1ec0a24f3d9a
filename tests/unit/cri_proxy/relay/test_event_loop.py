import asyncio
import itertools
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Iterator
from selectors import EVENT_READ, EVENT_WRITE

import pytest

from cri_proxy.relay.event_loop import (
    READABLE,
    WRITABLE,
    RelayLoop,
    RelaySelector,
    _as_selected,
    relay_selector,
    run_on_loop,
)
from tests.fakes.waiting import holds

Ends = tuple[socket.socket, socket.socket]


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "asyncio", {"loop_factory": RelayLoop}


@pytest.fixture
def ends() -> Iterator[Ends]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


async def test_a_socket_is_served_while_it_is_watched(ends: Ends) -> None:
    ours, theirs = ends
    seen: list[int] = []

    def ready(events: int) -> None:
        seen.append(events)
        if events & READABLE:
            ours.recv(10)

    sockets = relay_selector()
    sockets.watch(ours.fileno(), ready, READABLE)
    theirs.send(b"x")
    await holds("it happened", lambda: seen == [READABLE])
    sockets.watch(ours.fileno(), ready, READABLE | WRITABLE)
    await holds("it happened", lambda: WRITABLE in seen)
    sockets.watch(ours.fileno(), ready, 0)
    theirs.close()  # a hang-up is not reported either
    count = len(seen)
    await asyncio.sleep(0.01)
    assert len(seen) == count
    sockets.watch(ours.fileno(), ready, 0)


@pytest.mark.parametrize("delay_seconds", [0.0, 0.002])
def test_what_a_handler_schedules_runs_though_nothing_else_happens(ends: Ends, delay_seconds: float) -> None:
    ours, theirs = ends
    loop = RelayLoop()

    def ready(events: int) -> None:
        ours.recv(10)
        if delay_seconds:
            loop.call_later(delay_seconds, loop.stop)
        else:
            loop.call_soon(loop.stop)

    loop.sockets.watch(ours.fileno(), ready, READABLE)
    loop.call_later(600, pytest.fail, "nothing ran before this timer")
    theirs.send(b"x")
    loop.run_forever()
    loop.close()


@pytest.mark.parametrize("has_timer", [False, True])
def test_bytes_that_only_pass_do_not_turn_the_loop(ends: Ends, has_timer: bool) -> None:
    ours, theirs = ends
    loop = RelayLoop()
    turns, echoed = [0], [0]
    select = loop.sockets.select

    def counted(timeout: float | None = None) -> list[tuple[object, int]]:
        turns[0] += 1
        return list(select(timeout))

    loop.sockets.select = counted  # type: ignore[method-assign,assignment]

    def echo(events: int) -> None:
        ours.send(ours.recv(10))
        echoed[0] += 1

    def client() -> None:
        for _ in range(200):
            theirs.send(b"x")
            theirs.recv(10)
        loop.call_soon_threadsafe(loop.stop)

    loop.sockets.watch(ours.fileno(), echo, READABLE)
    thread = threading.Thread(target=client)
    loop.call_soon(thread.start)
    if has_timer:
        loop.call_later(600, pytest.fail, "the loop has waited for its timer")
    loop.run_forever()
    thread.join()
    loop.close()
    assert echoed[0] == 200
    assert turns[0] < 20


def test_a_timer_is_not_late_because_of_busy_sockets(ends: Ends) -> None:
    ours, _ = ends
    loop, served = RelayLoop(), [0]

    def always(events: int) -> None:
        served[0] += 1

    loop.sockets.watch(ours.fileno(), always, WRITABLE)
    loop.call_later(0.01, loop.stop)
    loop.run_forever()
    loop.close()
    assert served[0] > 0  # once is what a process that stands still for so long gets to


@pytest.mark.parametrize("is_busy", [True, False])
def test_a_timer_is_not_late_because_the_clock_is_set_back(
    ends: Ends, monkeypatch: pytest.MonkeyPatch, *, is_busy: bool
) -> None:
    monotonic, readings = time.monotonic, itertools.count()
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() - (3600 if next(readings) > 10 else 0))
    selector, served = RelaySelector(), [0]

    def always(events: int) -> None:
        served[0] += 1

    if is_busy:
        selector.watch(ends[0].fileno(), always, WRITABLE)
    for _ in range(20):
        assert selector.select(0.001) == []
    selector.close()
    assert bool(served[0]) == is_busy


def test_a_handler_may_end_the_watch_of_another_with_an_event_of_the_same_poll() -> None:
    selector, pairs = RelaySelector(), [socket.socketpair() for _ in range(2)]
    served: list[int] = []

    def end_all(events: int) -> None:
        served.append(events)
        for ours, _ in pairs:
            selector.watch(ours.fileno(), end_all, 0)

    for ours, theirs in pairs:
        selector.watch(ours.fileno(), end_all, READABLE)
        theirs.send(b"x")
    assert selector.select(0) == []
    assert served == [READABLE]
    selector.close()
    for sock in (sock for pair in pairs for sock in pair):
        sock.close()


async def test_descriptors_of_asyncio_and_signals_are_served_beside(ends: Ends) -> None:
    ours, theirs = ends
    loop, found = asyncio.get_running_loop(), list[bytes]()
    loop.add_reader(ours, lambda: found.append(ours.recv(10)))
    loop.add_signal_handler(signal.SIGUSR1, found.append, b"signal")
    theirs.send(b"x")
    await holds("it happened", lambda: found == [b"x"])
    signal.raise_signal(signal.SIGUSR1)
    await holds("it happened", lambda: found == [b"x", b"signal"])
    loop.remove_signal_handler(signal.SIGUSR1)
    assert loop.remove_reader(ours)


def test_a_loop_that_waits_for_a_timer_sleeps() -> None:
    loop, turns = RelayLoop(), [0]
    select = loop.sockets.select

    def counted(timeout: float | None = None) -> list[tuple[object, int]]:
        turns[0] += 1
        return list(select(timeout))

    loop.sockets.select = counted  # type: ignore[method-assign,assignment]
    loop.call_later(0.05, loop.stop)
    loop.run_forever()
    loop.close()
    assert turns[0] < 10


async def test_a_socket_that_is_watched_for_room_alone_is_not_served_for_what_comes(ends: Ends) -> None:
    ours, theirs = ends
    seen: list[int] = []
    sockets = relay_selector()
    theirs.send(b"x")
    sockets.watch(ours.fileno(), seen.append, WRITABLE)
    await holds("it happened", lambda: len(seen) > 2)
    sockets.watch(ours.fileno(), seen.append, 0)
    assert set(seen) == {WRITABLE}


@pytest.mark.parametrize(
    ("events", "selected"),
    [
        (READABLE, EVENT_READ),
        (WRITABLE, EVENT_WRITE),
        (READABLE | WRITABLE, EVENT_READ | EVENT_WRITE),
        (select.EPOLLHUP, EVENT_READ | EVENT_WRITE),
        (select.EPOLLERR | WRITABLE, EVENT_READ | EVENT_WRITE),
    ],
)
def test_an_error_makes_a_descriptor_readable_and_writable(events: int, selected: int) -> None:
    assert _as_selected(events) == selected


def test_asyncio_gets_no_events_that_it_did_not_ask_for(ends: Ends) -> None:
    ours, theirs = ends
    selector = RelaySelector()
    key = selector.register(ours, EVENT_READ)
    theirs.close()  # a hang-up
    assert selector.select(0) == [(key, EVENT_READ)]
    selector.close()


def test_a_closed_selector_holds_no_descriptor() -> None:
    selector = RelaySelector()
    descriptors = [selector.fileno(), selector._epoll.fileno()]
    selector.close()
    for descriptor in descriptors:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


def test_what_runs_on_the_loop_gives_its_result() -> None:
    async def work() -> bool:
        return isinstance(asyncio.get_running_loop(), RelayLoop)

    assert run_on_loop(work())
