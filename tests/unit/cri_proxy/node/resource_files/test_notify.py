import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.kubelet import RunningPod
from cri_proxy.cri_client.pods import PodSpec, guaranteed
from cri_proxy.http2.status import Code
from cri_proxy.node.decision_log.journal import Journal
from cri_proxy.node.resource_files.notify import (
    COMMAND_SECONDS,
    CONCURRENT,
    CONCURRENT_OF_ONE,
    PAUSES_SECONDS,
    SHOWN_BYTES,
    Notifier,
    Turns,
)
from cri_proxy.tasks import Tasks
from policies.preferences import Preferences
from tests.fakes.site import Site
from tests.unit.cri_proxy.node.resource_sites import generation, site_with_files
from tests.unit.cri_proxy.node.stage import entered, soon

MIXED, OWNS_2, OWNS_3 = guaranteed("c", 1500), guaranteed("c", 2000), guaranteed("c", 3000)
TRIES = len(PAUSES_SECONDS) + 1
UNTOLD = (("cri-proxy.io/resource-files", "false"),)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with site_with_files(tmp_path) as site:
        yield site


async def listener(site: Site, command: Sequence[str]) -> RunningPod:
    """A container on a full node that is to be told by this command; whoever comes next takes CPUs from it."""
    pod = await site.run("m", MIXED)
    await site.run("full", OWNS_3)
    row = site.row(pod.container_id("c"))
    asked = replace(row.grant.request, preferences=Preferences(notify=tuple(command)))
    site.node.context.ledger.put(replace(row, grant=replace(row.grant, request=asked)))
    await site.node.settle()
    return pod


def notifier(site: Site) -> Notifier:
    return site.node.resource_files.notifier


async def test_the_files_as_a_container_finds_them_at_its_start_are_no_news(site: Site) -> None:
    await listener(site, ["true"])
    assert notifier(site).run == 0


async def test_each_change_runs_the_command_with_a_time_limit(site: Site) -> None:
    seen: list[pb.ExecSyncRequest] = []

    def look(message: bytes) -> bool:
        seen.append(pb.ExecSyncRequest.FromString(message))
        return False

    pod = await listener(site, ["echo", "new"])
    site.runtime.faults.fail_next("ExecSync", 2, "never", matches=look)
    await site.run("a", OWNS_2)
    assert (notifier(site).run, notifier(site).failed) == (1, 0)
    expected = pb.ExecSyncRequest(container_id=pod.container_id("c"), cmd=["echo", "new"], timeout=COMMAND_SECONDS)
    assert seen == [expected]


async def test_without_a_command_nothing_runs(site: Site) -> None:
    pod = await listener(site, [])
    await site.run("a", OWNS_2)
    assert (generation(site, pod), notifier(site).run) == (2, 0)


async def has_written(site: Site, count: int) -> None:
    await soon(lambda: site.node.resource_files.written >= count)
    assert site.node.resource_files.written == count


async def test_changes_that_come_while_the_command_runs_count_as_one(site: Site) -> None:
    pod = await listener(site, ["true"])
    gate = site.runtime.faults.block("ExecSync")
    before = site.node.resource_files.written
    for changes in (0, 2, 4):
        owner = await site.kubelet.run_pod(PodSpec("a", (OWNS_2,), annotations=UNTOLD))
        await has_written(site, before + changes + 1)
        await entered(gate)
        await site.kubelet.remove_pod(owner.sandbox_id)
        await has_written(site, before + changes + 2)
    assert (gate.waiting, notifier(site).run) == (1, 0)
    gate.release()
    await site.node.settle()
    assert (notifier(site).run, generation(site, pod)) == (2, 7)


async def test_a_command_that_hangs_holds_nobody_up(site: Site) -> None:
    await listener(site, ["true"])
    gate = site.runtime.faults.block("ExecSync")
    owner = await site.kubelet.run_pod(PodSpec("a", (OWNS_2,)))
    await entered(gate)
    await site.kubelet.remove_pod(owner.sandbox_id)
    await site.kubelet.run_pod(PodSpec("b", (OWNS_2,)))
    gate.release()


async def test_a_command_that_fails_is_tried_again_after_growing_pauses(site: Site) -> None:
    await listener(site, ["true"])
    site.runtime.faults.fail_next("ExecSync", 2, "exec failed", times=2)
    before = site.clock.now_seconds()
    await site.run("a", OWNS_2)
    assert (notifier(site).run, notifier(site).failed) == (3, 2)
    assert site.clock.now_seconds() - before >= sum(PAUSES_SECONDS[:2])
    assert site.log.warnings.count("notify_failed") == 2


async def test_a_command_that_always_fails_is_given_up_until_the_next_change(site: Site) -> None:
    await listener(site, ["false"])
    owner = await site.run("a", OWNS_2)
    assert (notifier(site).run, notifier(site).failed) == (TRIES, TRIES)
    await site.kubelet.remove_pod(owner.sandbox_id)
    await site.node.settle()
    assert notifier(site).run == 2 * TRIES


async def test_a_runtime_that_is_away_counts_as_a_failure(site: Site) -> None:
    pod = await listener(site, ["true"])
    row = site.row(pod.container_id("c"))
    site.runtime.go_away()
    notifier(site).changed(row)
    await notifier(site).tasks.join()
    assert notifier(site).failed == TRIES


async def test_a_container_that_has_ended_is_not_told(site: Site) -> None:
    pod = await listener(site, ["true"])
    row = site.row(pod.container_id("c"))
    await site.kubelet.stop(pod.container_id("c"))
    notifier(site).changed(row)
    await notifier(site).tasks.join()
    assert notifier(site).run == 0


async def test_a_command_that_says_too_much_is_not_run_again_until_the_next_change(site: Site) -> None:
    await listener(site, ["yes"])
    site.runtime.faults.fail_next("ExecSync", Code.RESOURCE_EXHAUSTED, "a reply of 16777216 bytes, more than 65536")
    await site.run("a", OWNS_2)
    assert (notifier(site).run, notifier(site).failed) == (1, 1)


class Commands:
    """Commands of namespaces that run until they are ended."""

    def __init__(self) -> None:
        self.turns = Turns(CONCURRENT, CONCURRENT_OF_ONE)
        self.tasks = Tasks()
        self.started: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}

    async def come(self, *names: str) -> list[asyncio.Task[None]]:
        """A command each, as NAMESPACE NUMBER; it may have started when this returns."""
        tasks = [self.tasks.start(self._run(name), name=name) for name in names]
        await self._settle()
        return tasks

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await self._settle()

    async def _run(self, name: str) -> None:
        self._ends[name] = asyncio.Event()
        async with self.turns.turn(name.split(maxsplit=1)[0]):
            self.started.append(name)
            await self._ends[name].wait()

    async def _settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)


async def test_commands_of_one_namespace_that_hang_leave_a_slot_to_the_others() -> None:
    commands = Commands()
    await commands.come(*(f"loud {i}" for i in range(10)))
    assert commands.started == ["loud 0", "loud 1", "loud 2"]
    await commands.come("quiet 0")
    assert commands.started[-1] == "quiet 0"
    await commands.end("quiet 0")
    await commands.come("quiet 1")
    assert commands.started[-1] == "quiet 1"
    await commands.tasks.cancel()


async def test_namespaces_take_turns_however_many_commands_one_has() -> None:
    commands = Commands()
    await commands.come("a 0", "a 1", "a 2", "a 3", "a 4", "b 0", "b 1", "b 2", "c 0", "c 1")
    assert commands.started == ["a 0", "a 1", "a 2", "b 0"]
    for name in ("a 0", "a 1", "a 2", "b 0"):
        await commands.end(name)
    assert commands.started[4:] == ["c 0", "a 3", "b 1", "c 1"]
    await commands.tasks.cancel()


async def test_a_command_that_is_given_up_before_or_in_its_turn_gives_its_slot_back() -> None:
    commands = Commands()
    running = await commands.come("a 0", "a 1", "a 2", "b 0")
    waiting = await commands.come("a 3", "b 1")
    for task in (*running, *waiting):
        task.cancel()
    await commands.come("c 0", "c 1", "c 2", "d 0")
    assert commands.started[4:] == ["c 0", "c 1", "c 2", "d 0"]
    granted = await commands.come("d 1")
    commands._ends["d 0"].set()
    await commands.end("c 0")
    granted[0].cancel()
    await commands.come("e 0", "e 1")
    assert commands.started[-2:] == ["e 0", "e 1"]
    await commands.tasks.cancel()


class Blames:
    """A runtime whose every command fails and says this; and the log of what became of it."""

    def __init__(self, stderr: bytes) -> None:
        self._reply = pb.ExecSyncResponse(exit_code=1, stderr=stderr).SerializeToString()
        self.reasons: list[str] = []

    async def unary(self, method: str, message: bytes, *, timeout_seconds: float) -> bytes:
        return self._reply

    def stream(self, method: str, message: bytes) -> AsyncIterator[bytes]:
        raise NotImplementedError

    def losses(self) -> int:
        return 0

    async def close(self) -> None: ...

    def warning(self, event: str, **fields: object) -> None:
        self.reasons.append(str(fields["reason"]))

    debug = info = error = warning


@pytest.mark.parametrize("length", [1, 10_000])
async def test_what_a_command_says_is_cut_and_cleaned(length: int, site: Site) -> None:
    pod = await listener(site, ["false"])
    runtime = Blames(b"\x1b[2J\xff" * length)
    journal = Journal(runtime, site.clock)
    told = Notifier(replace(site.node.context, channel=runtime, journal=journal))
    told.changed(site.row(pod.container_id("c")))
    await told.tasks.join()
    assert len(runtime.reasons) == TRIES
    assert all(reason.startswith("exit status 1: \\x1b[2J\ufffd") for reason in runtime.reasons)
    assert all(len(reason.encode()) <= SHOWN_BYTES + 20 for reason in runtime.reasons)
