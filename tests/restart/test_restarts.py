"""Whatever is restarted, no container is moved, and nobody waits longer than the gap: 200 containers, counted."""

import asyncio
import math
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import closing
from pathlib import Path

import pytest

from cri_proxy.state import migrate
from tests.fakes.waiting import holds
from tests.restart.place import SECONDS, Attempt, Place, Traffic, one_place, spec
from tests.testbed.wait import until

pytestmark = pytest.mark.timeout(300)

CONTAINERS = 200
# A call that cannot be answered fails as it would without us: at once, and not by its deadline of half a minute.
PROMPT_SECONDS = 10.0
# After the runtime's return calls work again within a second (design: faults); the runtime itself is up at once here.
# Counted in calls that fail, each of which is followed by the next at once: a slow machine makes fewer in a second.
CALLS_OF_A_SECOND = 300

BEHIND_THE_SPLICE = pytest.mark.parametrize("full", ["splice"], indirect=True)
ENDINGS = pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL], ids=lambda s: s.name)


@pytest.fixture(scope="module", params=["splice", "grpc"])
async def full(request: pytest.FixtureRequest, machine: Path) -> AsyncIterator[Place]:
    """A place of 200 containers. After a restart it must be as it was, so one after the other finds it the same."""
    directory = Path(tempfile.mkdtemp(prefix="cri-proxy-restart-", dir="/tmp"))
    try:
        async with one_place(directory, request.param, machine) as place:
            await place.run_pods(CONTAINERS)
            yield place
    finally:
        shutil.rmtree(directory, ignore_errors=True)


async def nothing_changed(place: Place, before: dict[str, tuple[str, str]], updates: int) -> None:
    """Counted at the runtime and in what the kernel enforces, once the daemon has had time for mistakes."""
    await asyncio.sleep(0.5)
    after = place.pinned()
    assert {i for i in before if before[i] != after.get(i)} == set()
    assert len(place.runtime.updates) == updates
    assert len((await place.status()).containers) == len(before)


def outside(attempts: Iterable[Attempt], begun_at: float, ended_at: float) -> list[Attempt]:
    """Those that have nothing to do with the gap between these two moments."""
    return [a for a in attempts if a.ended_at < begun_at or a.begun_at > ended_at]


def worked_at(traffic: Traffic, back_at: float) -> float:
    """When the first call began that was answered again."""
    return min((a.begun_at for a in traffic.attempts if a.begun_at > back_at and not a.failure), default=math.inf)


@ENDINGS
async def test_a_restart_of_the_proxy_moves_nobody_and_calls_fail_in_the_gap_only(
    full: Place, ending: signal.Signals
) -> None:
    place = full
    await place.saved()
    before, updates = place.pinned(), len(place.runtime.updates)
    assert len(before) == CONTAINERS
    async with Traffic(place.daemon.endpoint) as traffic:
        await asyncio.sleep(0.1)
        gone_at = time.monotonic()
        await place.daemon.stop(ending)
        starts_at = time.monotonic()
        await place.daemon.start()
        ready_at = time.monotonic()
        await asyncio.sleep(0.1)
    await nothing_changed(place, before, updates)
    assert outside(traffic.failed, gone_at, ready_at) == []
    assert all(a.ended_at - a.begun_at < PROMPT_SECONDS for a in traffic.failed)
    report(ready_at - starts_at, traffic)


def report(ready_seconds: float, traffic: Traffic) -> None:
    """What the benchmark measures with care (benchmarks/daemon.py); here for the record, loaded as the machine is."""
    begun_at = time.monotonic()
    subprocess.run([sys.executable, "-c", "import argparse, asyncio, sqlite3"], check=True)
    python_seconds = time.monotonic() - begun_at
    print(
        f"ready with {CONTAINERS} containers after {ready_seconds:.2f} s, {ready_seconds / python_seconds:.1f} x "
        f"starting Python; {len(traffic.failed)} of {len(traffic.attempts)} calls failed, all in the gap"
    )


@BEHIND_THE_SPLICE
async def test_a_restart_of_the_runtime_moves_nobody_and_calls_work_again_within_a_second(full: Place) -> None:
    place = full
    before, updates = place.pinned(), len(place.runtime.updates)
    assert len(before) == CONTAINERS
    async with Traffic(place.daemon.endpoint) as traffic:
        await asyncio.sleep(0.1)
        gone_at = time.monotonic()
        await place.stop_runtime()
        await holds("it is noticed", lambda: traffic.failed != [], seconds=SECONDS)
        await asyncio.sleep(0.5)
        await place.start_runtime()
        back_at = time.monotonic()
        await holds("calls work again", lambda: worked_at(traffic, back_at) < math.inf, seconds=SECONDS)
        await asyncio.sleep(0.5)
    await nothing_changed(place, before, updates)
    assert outside(traffic.failed, gone_at, worked_at(traffic, back_at)) == []
    assert len([a for a in traffic.failed if a.begun_at > back_at]) < CALLS_OF_A_SECOND
    assert all(a.ended_at - a.begun_at < PROMPT_SECONDS for a in traffic.failed)


@ENDINGS
@BEHIND_THE_SPLICE
async def test_a_restart_of_both_moves_nobody(full: Place, ending: signal.Signals) -> None:
    place = full
    await place.saved()
    before, updates = place.pinned(), len(place.runtime.updates)
    assert len(before) == CONTAINERS
    await place.daemon.stop(ending)
    await place.stop_runtime()
    restarting = asyncio.get_running_loop().create_task(place.daemon.start())
    await asyncio.sleep(0.5)  # the daemon is up first, and waits
    await place.start_runtime()
    await restarting
    await nothing_changed(place, before, updates)


async def test_after_a_reboot_nothing_is_held_for_who_is_gone(place: Place) -> None:
    """The runtime has lost everything; the kubelet runs the same pods again, under their old uids."""
    await place.run_pods(CONTAINERS)
    shown = [(c.pod, c.exclusive) for c in (await place.status()).containers]
    await place.daemon.stop(signal.SIGKILL)
    await place.stop_runtime()
    await place.start_runtime(place.new_runtime())
    await place.daemon.start()
    assert (await place.status()).containers == ()
    await until("the store is empty", lambda: rows(place, 0), seconds=SECONDS)
    await place.run_pods(CONTAINERS)
    again = [(c.pod, c.exclusive) for c in (await place.status()).containers]
    assert [(pod, len(cpus)) for pod, cpus in again] == [(pod, len(cpus)) for pod, cpus in shown]
    await until("the store has just them", lambda: rows(place, CONTAINERS), seconds=SECONDS)


async def test_after_a_reboot_that_the_runtime_remembers_its_ended_containers_hold_nothing(place: Place) -> None:
    """As containerd does: the old containers are still listed, as exited, and their pods get new ones."""
    pods = await place.run_pods(CONTAINERS)
    await place.daemon.stop(signal.SIGKILL)
    for pod in pods:
        place.runtime.exit(pod.container_id("c"), 255)
    await place.daemon.start()
    assert (await place.status()).containers == ()
    async with place.kubelet() as kubelet:
        for number, pod in enumerate(pods[:40]):
            container = spec(number).containers[0]
            await kubelet.start(await kubelet.create(spec(number), container, pod.sandbox_id, attempt=1))
    await place.run_pods(0)
    assert len((await place.status()).containers) == 40


async def rows(place: Place, count: int) -> bool:
    with closing(sqlite3.connect(place.directory / "state" / "state.db")) as connection:
        return bool(connection.execute("SELECT count(*) FROM grants").fetchone()[0] == count)


@pytest.mark.parametrize("version", range(1, len(migrate.STEPS)))
async def test_an_upgrade_from_any_version_of_the_store_moves_nobody(place: Place, version: int) -> None:
    await place.run_pods(40)
    before, updates = place.pinned(), len(place.runtime.updates)
    await place.daemon.stop()
    write_as(place.directory / "state" / "state.db", version)
    await place.daemon.start()
    await nothing_changed(place, before, updates)


async def test_a_downgrade_and_the_way_back_move_nobody(place: Place) -> None:
    """The older program cannot read the store; the newer one gets it again, as docs/upgrade.md says."""
    await place.run_pods(40)
    before, updates, store = place.pinned(), len(place.runtime.updates), place.directory / "state" / "state.db"
    await place.daemon.stop()
    set_version(store, len(migrate.STEPS) + 1)
    await place.daemon.start()
    await nothing_changed(place, before, updates)
    await place.daemon.stop()
    aside = store.with_name("state.db.newer-1")
    set_version(aside, len(migrate.STEPS))
    for file in store.parent.glob("state.db*"):
        if not file.name.startswith(aside.name):
            file.unlink()
    for file in store.parent.glob(f"{aside.name}*"):
        file.rename(file.with_name(file.name.replace(aside.name, store.name)))
    await place.daemon.start()
    await nothing_changed(place, before, updates)


def set_version(path: Path, version: int) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")


def write_as(path: Path, version: int) -> None:
    """The same store, as a program would have written it whose newest version that was."""
    new = path.rename(path.with_name("newer.db"))
    with closing(sqlite3.connect(path)) as old:
        path.chmod(0o600)
        for sql in (sql for step in migrate.STEPS[:version] for sql in step()):
            old.execute(sql)
        old.execute(f"PRAGMA user_version = {version}")
        old.execute("ATTACH ? AS newer", (str(new),))
        for (table,) in old.execute("SELECT name FROM main.sqlite_master WHERE type = 'table'").fetchall():
            columns = ", ".join(row[1] for row in old.execute(f"PRAGMA main.table_info({table})").fetchall())
            old.execute(f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM newer.{table}")
        old.commit()
    new.unlink()
