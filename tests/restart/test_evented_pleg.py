"""A kubelet with evented PLEG keeps its stream of events over restarts, where connections wait or are taken over.

Its tries are counted in all its life, five of them, and follow each other at once: docs/upgrade.md has the figures.
"""

import asyncio
import contextlib
import signal
import subprocess
from collections.abc import AsyncIterator

import pytest

from cri_proxy.cri.methods import RUNTIME
from cri_proxy.runtime.client import RuntimeClient
from tests.fakes.waiting import holds
from tests.restart.evented_pleg import TRIES, EventedPleg, Start, connected, cpu_ticks, socket_unit
from tests.restart.place import SECONDS, Place

pytestmark = pytest.mark.timeout(300)

STARTS, MOST = 3, 0.75


async def follows(place: Place) -> None:
    """The client's stream goes through the daemon, which has one of its own."""
    await holds("the client follows", lambda: place.runtime.listeners() == 2, seconds=SECONDS)


async def follows_again(place: Place, pleg: EventedPleg) -> None:
    """Its stream has ended, which the runtime may learn later, and it has another one."""
    await holds("its stream has ended", lambda: bool(pleg.failures), seconds=SECONDS)
    await follows(place)


async def ends(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    await holds("it has ended", lambda: process.poll() is not None, seconds=SECONDS)


@contextlib.asynccontextmanager
async def a_call_that_lasts(place: Place) -> AsyncIterator[None]:
    """An exec that the runtime does not end: the daemon waits for it until its grace is over."""
    gate = place.runtime.faults.block("ExecSync")
    client = RuntimeClient(place.daemon.endpoint)
    call = asyncio.get_running_loop().create_task(client.unary(f"{RUNTIME}ExecSync", b"", timeout_seconds=SECONDS))
    await holds("it is under way", lambda: gate.waiting > 0, seconds=SECONDS)
    yield
    gate.release()
    await asyncio.wait([call])
    call.exception()
    await client.close()


@pytest.mark.parametrize("is_busy", [False, True], ids=["idle", "with a call under way"])
async def test_a_restart_behind_the_socket_unit_costs_one_try(place: Place, is_busy: bool) -> None:
    await place.daemon.stop()
    with socket_unit(place) as start:
        with start() as old:
            await place.decides(old.pid)
            async with EventedPleg.following(place.daemon.endpoint) as pleg:
                await follows(place)
                async with a_call_that_lasts(place) if is_busy else contextlib.nullcontext():
                    await ends(old)
                    with start() as new:
                        await follows_again(place, pleg)
                        assert len(pleg.failures) == 1, pleg.failures
                        await place.decides(new.pid)
        assert not pleg.has_given_up


async def test_a_take_over_costs_one_try_when_the_old_process_ends_and_none_before(place: Place) -> None:
    async with EventedPleg.following(place.daemon.endpoint) as pleg:
        await follows(place)
        old, new = place.daemon, place.new_daemon("--take-over")
        await new.start()
        place.daemon = new
        await place.decides(new.pid)
        assert (pleg.failures, old.exit_status) == ([], None)
        await old.stop(signal.SIGTERM)  # as at the end of the five minutes that it waits for its clients' streams
        await follows_again(place, pleg)
        assert len(pleg.failures) == 1, pleg.failures


async def test_a_restart_of_the_unit_alone_makes_it_give_up(place: Place) -> None:
    """Connections are refused: what docs/upgrade.md warns of."""
    async with EventedPleg.following(place.daemon.endpoint) as pleg:
        await follows(place)
        await place.daemon.stop()
        await holds("it gives up", lambda: pleg.has_given_up, seconds=SECONDS)
        await place.daemon.start()
    assert len(pleg.failures) == TRIES


async def test_who_waits_at_the_socket_unit_is_served_before_the_daemon_has_loaded_what_decides(place: Place) -> None:
    """Half a start or less, counted in CPU time: a kubelet waits 5 s for an answer, then all its tries fail at once.

    The least of some starts: on a busy machine we may look late, when the daemon has gone on meanwhile.
    """
    await place.daemon.stop()
    shares: list[float] = []
    with socket_unit(place) as start:
        while len(shares) < STARTS and min(shares, default=1.0) >= MOST:
            shares.append(await share_until_served(place, start))
    assert min(shares) < MOST, shares


async def share_until_served(place: Place, start: Start) -> float:
    """Which part of the CPU time of a start was spent when the first byte came to a client that had waited."""
    with connected(str(place.directory / "cri-proxy.sock")) as client, start() as process:
        client.settimeout(SECONDS)

        def served() -> int:
            assert client.recv(1)
            return cpu_ticks(process.pid)

        ticks = await asyncio.to_thread(served)
        await place.decides(process.pid)
        return ticks / cpu_ticks(process.pid)
