from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, TypeVarTuple

import pytest

from cri_proxy.file_workers import PLAIN_THREADS, FileCalls, FilesFailed
from cri_proxy.kubelet.reservation_watch import ReservationWatch
from policies.builder import build_policy
from policies.policy import Policy
from policies.topology_aware import TopologyAwareOptions
from sysfs.descriptions.machine import describe
from tests.fakes.clock import ManualClock
from tests.fakes.grants import small_policy

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class FilesThatMayHang:
    """Reads files, unless they hang."""

    def __init__(self) -> None:
        self.is_hanging = False

    async def run(self, subject: str, function: Callable[[*Ts], T], *args: *Ts, within_seconds: float) -> T:
        if self.is_hanging:
            raise FilesFailed(subject, "hangs")
        return function(*args)


def watch_of(
    place: Path, warned: list[str], *, policy: Policy | None = None, files: FileCalls = PLAIN_THREADS
) -> ReservationWatch:
    chosen = policy or small_policy()
    return ReservationWatch((place, place), files, lambda: chosen, clock=ManualClock(), warn=warned.append)


def write(place: Path, text: str) -> None:
    (place / "config.yaml").write_text(text)


async def test_a_kubelet_that_counts_a_reserved_cpu_is_warned_of_once_with_the_remedy(tmp_path: Path) -> None:
    warned: list[str] = []
    watch = watch_of(tmp_path, warned)
    write(tmp_path, "systemReserved: {cpu: 750m}")
    await watch.look()
    await watch.look()
    assert watch.warnings() == tuple(warned)
    assert "pods may request 7250m CPU" in warned[0]
    assert 'set reservedSystemCPUs: "0" in the kubelet' in warned[0]


async def test_the_remedy_ends_the_warning(tmp_path: Path) -> None:
    warned: list[str] = []
    watch = watch_of(tmp_path, warned)
    write(tmp_path, "{}")
    await watch.look()
    write(tmp_path, 'reservedSystemCPUs: "0"')
    await watch.look()
    assert (watch.warnings(), len(warned)) == ((), 1)


@pytest.mark.parametrize("text", ["reservedSystemCPUs: 0-3", "[]", "a: ["])
async def test_a_kubelet_that_offers_less_or_cannot_be_read_is_no_matter(tmp_path: Path, text: str) -> None:
    warned: list[str] = []
    watch = watch_of(tmp_path, warned)
    await watch.look()  # no file at all
    write(tmp_path, text)
    await watch.look()
    assert (watch.warnings(), warned) == ((), [])


async def test_a_policy_that_grants_nothing_is_not_compared(tmp_path: Path) -> None:
    machine = describe({"packages": 2, "cores": 4})
    watch = watch_of(tmp_path, [], policy=build_policy("none", machine, TopologyAwareOptions(machine.online)))
    write(tmp_path, "systemReserved: {cpu: 750m}")
    await watch.look()
    assert watch.warnings() == ()


async def test_while_the_files_do_not_answer_the_last_ones_hold(tmp_path: Path) -> None:
    files = FilesThatMayHang()
    watch = watch_of(tmp_path, [], files=files)
    write(tmp_path, "{}")
    await watch.look()
    files.is_hanging = True
    await watch.look()
    assert watch.warnings()
