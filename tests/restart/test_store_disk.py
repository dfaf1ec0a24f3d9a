"""The store's disk is full or read-only, its file damaged or gone: containers run, it is said, and nobody is moved.

The disk is a small tmpfs, so these tests need root, as the daemon does.
"""

import re
import shutil
import signal
import sqlite3
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from cri_proxy.codec import decode
from cri_proxy.http.client import ask
from cri_proxy.node.status.model import Health
from tests.fakes.waiting import holds
from tests.restart.place import CAUGHT_UP_SECONDS, SECONDS, Place, one_place, spec
from tests.restart.test_restarts import nothing_changed, rows
from tests.testbed.wait import until

pytestmark = pytest.mark.timeout(300)

PODS = 8
# The write-ahead log grows until it has some 4 MiB, by how much is a matter of how many saves share a commit.
DISK_BYTES = 6 << 20


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk of its own for the state directory."""

    path: Path

    def fill(self) -> None:
        """Not a byte more fits."""
        with (self.path / "ballast").open("wb", buffering=0) as ballast:
            for chunk in (4096, 1):
                try:
                    while True:
                        ballast.write(bytes(chunk))
                except OSError:
                    continue

    def make_room(self) -> None:
        (self.path / "ballast").unlink()

    def lock(self) -> None:
        """Nothing can be written; needs that nobody writes."""
        subprocess.run(["mount", "-o", "remount,ro", str(self.path)], check=True)

    def unlock(self) -> None:
        subprocess.run(["mount", "-o", "remount,rw", str(self.path)], check=True)


TROUBLES = pytest.mark.parametrize(
    ("begin", "end"), [(Disk.fill, Disk.make_room), (Disk.lock, Disk.unlock)], ids=["full", "read-only"]
)


@pytest.fixture
def directory() -> Iterator[Path]:
    """A short one: the path of a Unix socket has at most 107 characters."""
    directory = Path(tempfile.mkdtemp(prefix="cri-proxy-disk-", dir="/tmp"))
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def disk(directory: Path) -> Iterator[Disk]:
    """Mounted where the daemon will have its state."""
    disk = Disk(directory / "state")
    disk.path.mkdir(mode=0o700)
    options = f"size={DISK_BYTES},mode=0700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "cri-proxy-test", str(disk.path)], check=True)
    yield disk
    subprocess.run(["umount", "--lazy", str(disk.path)], check=True)


@pytest.fixture
async def place(directory: Path, disk: Disk, machine: Path) -> AsyncIterator[Place]:
    """Runtime and daemon, its state on a disk of its own."""
    async with one_place(directory, "splice", machine) as place:
        yield place


async def run_pod(place: Place, number: int) -> None:
    """The kubelet's calls all succeed."""
    async with place.kubelet() as kubelet:
        pod = await kubelet.run_pod(spec(number))
    assert place.runtime.node.containers[pod.container_id("c")].running


def health(place: Place) -> Health:
    return decode(Health, ask(place.daemon.admin.path, "/readyz", {"format": "json"}))


def store_problems(place: Place) -> list[str]:
    return [part.problem for part in health(place).parts if part.name == "store" and part.problem]


async def store_errors(place: Place) -> int:
    return await place.measured("cri_proxy_store_errors_total")


async def is_said(place: Place) -> bool:
    why = [
        problem for problem in store_problems(place) if re.search(r"full|disk I/O|read-?only", problem, re.IGNORECASE)
    ]
    return await store_errors(place) > 0 and why != [] and not health(place).is_ready


async def the_trouble_is_said_and_over_when_there_is_room(place: Place, end: Callable[[], None]) -> None:
    """From trouble to a store that holds all: containers start before and after."""
    await run_pod(place, 1000)
    await run_pod(place, 1001)
    await until("the trouble is said", lambda: is_said(place), seconds=SECONDS)
    assert not (await place.status()).is_ready
    assert await place.daemon.admin.decides()
    end()
    await run_pod(place, 1002)
    await until("all is saved", lambda: rows(place, PODS + 3), seconds=CAUGHT_UP_SECONDS)
    await holds("all is well", lambda: health(place).is_ready, seconds=CAUGHT_UP_SECONDS)


async def a_kill_changes_nothing(place: Place) -> None:
    await place.settled()
    await place.saved()
    before, updates = place.pinned(), len(place.runtime.updates)
    await place.daemon.stop(signal.SIGKILL)
    await place.daemon.start()
    await nothing_changed(place, before, updates)


async def test_a_disk_that_fills_up_keeps_nobody_from_running(place: Place, disk: Disk) -> None:
    await place.run_pods(PODS)
    disk.fill()
    await the_trouble_is_said_and_over_when_there_is_room(place, disk.make_room)
    await a_kill_changes_nothing(place)


async def test_a_daemon_that_is_killed_while_its_disk_is_full_moves_nobody(place: Place, disk: Disk) -> None:
    """What it could not save, the runtime has in the containers' annotations.

    An update that was announced in the store, and whose success no longer could be, is sent again with the same value.
    """
    await place.run_pods(PODS)
    disk.fill()
    await run_pod(place, 1000)
    await place.settled()
    before, updates = place.pinned(), len(place.runtime.updates)
    await place.daemon.stop(signal.SIGKILL)
    await place.daemon.start()
    await place.settled()  # what is sent again goes out after the daemon is ready
    again = place.runtime.updates[updates:]
    own = [(call.cpus or before[call.container_id][0], call.mems or before[call.container_id][1]) for call in again]
    assert own == [before[call.container_id] for call in again]
    await nothing_changed(place, before, updates + len(again))


@TROUBLES
async def test_a_daemon_starts_in_spite_of_its_disk(
    place: Place, disk: Disk, begin: Callable[[Disk], None], end: Callable[[Disk], None]
) -> None:
    await place.run_pods(PODS)
    before, updates = place.pinned(), len(place.runtime.updates)
    await place.daemon.stop()
    begin(disk)
    await place.daemon.start()
    await nothing_changed(place, before, updates)
    await the_trouble_is_said_and_over_when_there_is_room(place, lambda: end(disk))
    await a_kill_changes_nothing(place)


async def test_two_daemons_never_decide_on_a_disk_that_is_read_only(place: Place, disk: Disk) -> None:
    await place.daemon.stop()
    disk.lock()
    await place.daemon.start()
    assert await place.end_of_a_second() == 1
    assert "already uses this state directory" in place.daemon.log.read_text()


async def test_a_store_that_is_deleted_under_the_daemon_is_filled_again(place: Place, disk: Disk) -> None:
    await place.run_pods(PODS)
    for name in ("state.db", "state.db-wal", "state.db-shm"):
        (disk.path / name).unlink()
    await run_pod(place, 1000)
    await until("all is saved", lambda: rows(place, PODS + 1), seconds=CAUGHT_UP_SECONDS)
    assert await store_errors(place) > 0
    await holds("all is well", lambda: health(place).is_ready, seconds=CAUGHT_UP_SECONDS)
    await a_kill_changes_nothing(place)


@pytest.mark.parametrize("spoiled", ["state.db", "state.db-wal", "state.db-shm", "newer"])
async def test_a_store_that_cannot_be_used_is_moved_aside_and_made_up_for_by_the_runtime(
    place: Place, disk: Disk, spoiled: str
) -> None:
    """A directory in its place, as container engines make of a path to mount, or the store of a newer program."""
    await place.run_pods(PODS)
    before, updates = place.pinned(), len(place.runtime.updates)
    await place.daemon.stop()
    if spoiled == "newer":
        with closing(sqlite3.connect(disk.path / "state.db")) as connection:
            connection.execute("PRAGMA user_version = 99")
    else:
        (disk.path / spoiled).unlink(missing_ok=True)
        (disk.path / spoiled).mkdir()
    await place.daemon.start()
    await nothing_changed(place, before, updates)
    aside = spoiled.replace("state.db", "state.db.damaged-1").replace("newer", "state.db.newer-1")
    assert (disk.path / aside).exists()
    assert str(disk.path / aside.removesuffix("-wal").removesuffix("-shm")) in place.daemon.log.read_text()


@pytest.mark.parametrize("keep_bytes", [0, 5000], ids=["garbage", "half"])
async def test_a_store_that_is_damaged_or_lost_is_made_up_for_by_the_runtime(
    place: Place, disk: Disk, keep_bytes: int
) -> None:
    await place.run_pods(PODS)
    before, updates = place.pinned(), len(place.runtime.updates)
    await place.daemon.stop()
    path = disk.path / "state.db"
    path.write_bytes(path.read_bytes()[:keep_bytes] + b"garbage " * 1000)
    await place.daemon.start()
    await nothing_changed(place, before, updates)
    assert '"store_damaged"' in place.daemon.log.read_text()
    assert (disk.path / "state.db.damaged-1").exists()
    await place.daemon.stop()
    path.unlink()
    await place.daemon.start()
    await nothing_changed(place, before, updates)
