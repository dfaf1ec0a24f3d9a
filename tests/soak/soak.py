"""A soak from the first pod to the verdict: phases of equal work, each followed by a look at the daemon at rest."""

import asyncio
import contextlib
import json
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from typing import Final

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.events import UPDATE_FAILED
from cri_proxy.http.client import DaemonUnreachable
from cri_proxy.runtime.client import RuntimeClient
from tests.soak.acts import EVENTS, SECONDS, Acts
from tests.soak.clients import CoreChannel, Tally
from tests.soak.daemon import COLLECT
from tests.soak.grounds import Ground, Wanted, ground
from tests.soak.judge import HEADING, LEAST_SAMPLES, Finding, Sample, judge
from tests.soak.rest import claims, problems, read
from tests.testbed.containerd import TASK_LEFT
from tests.testbed.errors import TryoutError
from tests.testbed.pod_kubelet import PodKubelet
from tests.testbed.wait import until

CONNECTIONS: Final = 12
AT_ONCE: Final = 6
READINGS: Final = 6
MOST_READINGS: Final = 60
READING_PAUSE_SECONDS: Final = 0.5

# How often each act happens in a phase, which takes some ten seconds. Equal work, not equal time: what grows with the
# work of a phase is a leak, on any machine.
MIX: Final[Mapping[str, Mapping[str, int]]] = {
    "embedded": {
        **{"turnover": 50, "strange_pod": 4, "refused": 2, "cancelled": 5, "expired": 5, "exits": 2, "odd_orders": 1},
        **{"drift": 1, "lists": 4, "events": 5, "new_connection": 5, "rude": 8, "bad_request": 4, "questions": 2},
        **{"reload": 1, "restart": 1},
    },
    "containerd": {
        **{"turnover": 6, "refused": 1, "cancelled": 1, "expired": 1, "exits": 1, "odd_orders": 1},
        **{"drift": 1, "lists": 2, "events": 2, "new_connection": 2, "rude": 6, "bad_request": 3, "questions": 1},
        **{"reload": 1},
    },
}


@dataclass(frozen=True, slots=True)
class Plan:
    """How long, on what, with which seed; ``mix`` is another one than the runtime's.

    At least so many phases are played as can be judged. A daemon that does not come to rest ends it.
    """

    minutes: float
    runtime: str = "embedded"
    seed: int = 1
    wanted: Wanted = field(default_factory=Wanted)
    mix: Mapping[str, int] | None = None
    rest_seconds: float = SECONDS
    tell: Callable[[str], None] = print


@dataclass(frozen=True, slots=True)
class Result:
    """What came of it. ``problems`` are sentences: what was not true at rest, what failed and should not have."""

    samples: tuple[Sample, ...]
    findings: tuple[Finding, ...]
    problems: tuple[str, ...]
    log_bytes: int

    @property
    def leaks(self) -> tuple[str, ...]:
        return tuple(finding.series.name for finding in self.findings if finding.is_leak)

    @property
    def is_good(self) -> bool:
        return not self.leaks and not self.problems

    def lines(self) -> tuple[str, ...]:
        """The verdict for people."""
        last = self.samples[-1]
        rates = f"{last.lives / last.seconds:.1f} lives and {last.calls / last.seconds:.0f} calls a second"
        return (
            f"{len(self.samples)} phases, {last.seconds:.0f} s, {last.lives} lives, {last.calls} calls ({rates})",
            f"log: {self.log_bytes} bytes, {self.log_bytes / max(last.lives, 1):.0f} a life",
            HEADING,
            *map(str, self.findings),
            *(f"PROBLEM: {problem}" for problem in self.problems),
            "good: nothing has grown" if self.is_good else "NOT GOOD",
        )


def script(mix: Mapping[str, int], random: Random) -> list[str]:
    """The acts of a phase in a random order; the runtime is restarted in the middle of it."""
    acts = [name for name, count in mix.items() if name != "restart" for _ in range(count)]
    random.shuffle(acts)
    for _ in range(mix.get("restart", 0)):
        acts.insert(len(acts) // 2, "restart")
    return acts


async def soak(plan: Plan) -> Result:
    plan.tell(f"seed {plan.seed}, relay {plan.wanted.relay}, runtime {plan.runtime}, {plan.minutes:g} minutes")
    async with ground(plan.runtime, plan.wanted) as place, clients(place) as (acts, tally):
        begun_at = time.monotonic()
        samples: list[Sample] = []
        try:
            await _at_once(acts.fill(slot, Random(f"{plan.seed}/{slot.number}")) for slot in acts.slots)
            is_resting = True
            while is_resting and (len(samples) < LEAST_SAMPLES or time.monotonic() - begun_at < plan.minutes * 60):
                await _phase(plan, len(samples), acts)
                is_resting = await comes_to_rest(place, acts, tally, seconds=plan.rest_seconds)
                samples.append(
                    Sample(tally.lives, sum(tally.calls.values()), time.monotonic() - begun_at, await least(place))
                )
                plan.tell(_line(samples))
        except (DaemonUnreachable, OSError) as error:
            tally.problems.append(f"the daemon is gone (exit status {place.daemon.exit_status}): {error}")
        else:
            tally.problems += await claims(place)
        tally.problems += [
            f"logged: {line}" for line in bad_lines(place.daemon.log.read_text(errors="replace"), tally.away)
        ]
        plan.tell(f"acts: {dict(sorted(tally.acts.items()))}")
        plan.tell(f"calls that were answered otherwise than OK: {tally.failed}")
        log_bytes = place.daemon.log.stat().st_size
    findings = judge(samples) if len(samples) >= LEAST_SAMPLES else ()
    return Result(tuple(samples), findings, tuple(_counted(tally.problems)), log_bytes)


async def _phase(plan: Plan, number: int, acts: Acts) -> None:
    names = script(plan.mix or MIX[plan.runtime], Random(f"{plan.seed}/{number}"))

    async def run(at: int, name: str) -> None:
        acts.tally.acts[name] += 1
        try:
            await acts.act(name)(Random(f"{plan.seed}/{number}/{at}"))
        except (DaemonUnreachable, TryoutError, OSError) as error:
            acts.tally.problems.append(f"{name} in phase {number + 1}: {error!r}")

    await _at_once(run(at, name) for at, name in enumerate(names))


async def _at_once(work: Iterable[Coroutine[object, object, None]]) -> None:
    """Run these, ``AT_ONCE`` at a time, in their order."""
    queue = list(work)[::-1]

    async def worker() -> None:
        while queue:
            await queue.pop()

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(worker())


@contextlib.asynccontextmanager
async def clients(place: Ground) -> AsyncIterator[tuple[Acts, Tally]]:
    """The clients that stay, one of which follows the events as the kubelet does."""
    tally = Tally()
    channels = tuple(CoreChannel(place.daemon.endpoint, tally) for _ in range(CONNECTIONS))
    following = asyncio.get_running_loop().create_task(_follow(channels[0], place))
    try:
        yield Acts(place, tally, channels), tally
    finally:
        following.cancel()
        await asyncio.wait([following])
        for channel in channels:
            await channel.close()


async def _follow(channel: CoreChannel, place: Ground) -> None:
    while place.listeners() is not None:
        with contextlib.suppress(RuntimeUnavailable):
            async for _ in channel.stream(EVENTS, pb.GetEventsRequest().SerializeToString()):
                pass
        await asyncio.sleep(0.1)


async def least(place: Ground) -> Mapping[str, float]:
    """The least of the last readings of each series: at rest too something comes and goes.

    Such as a look at the cgroups, and the connection that asks. Garbage is collected before. Containers that have gone
    are followed until the next look at writes, and new ones only from then on, a second later or more on a busy
    machine: read until the number of watches stays.
    """
    readings: deque[Mapping[str, float]] = deque(maxlen=READINGS)
    for _ in range(MOST_READINGS):
        place.daemon.send(COLLECT)
        readings.append(await read(place))
        if len(readings) == READINGS and len({reading["inotify watches"] for reading in readings}) == 1:
            break
        await asyncio.sleep(READING_PAUSE_SECONDS)
    return {name: min(reading[name] for reading in readings) for name in readings[0]}


async def not_removed(place: Ground, direct: PodKubelet, wanted: Set[str]) -> AsyncIterator[str]:
    """Remove what a call made that nobody waited for; give what cannot be removed yet, which a kubelet tries again."""
    for sandbox_id in set(await direct.sandboxes()) - wanted:
        try:
            await direct.remove_pod(sandbox_id)
        except CallFailed as failure:
            if TASK_LEFT in str(failure):
                await place.end_tasks(sandbox_id)
            yield str(failure)


async def comes_to_rest(place: Ground, acts: Acts, tally: Tally, *, seconds: float) -> bool:
    """Wait until nothing is under way and everything is as it must be; else note what is not."""
    pods = [slot.pod for slot in acts.slots if slot.pod is not None]
    wanted = {container_id for pod in pods for _, container_id in pod.containers}
    client = RuntimeClient(place.endpoint)
    direct = PodKubelet(client, place.node)
    found: tuple[str, ...] = ()

    async def is_at_rest() -> bool:
        nonlocal found
        await acts.greet()
        found = tuple([text async for text in not_removed(place, direct, {pod.sandbox_id for pod in pods})])
        found = found or tuple(problems(await place.daemon.admin.status(), await place.enforced(), wanted))
        found = found or await claims(place)
        return not found

    try:
        return await until("the node is at rest", is_at_rest, seconds=seconds)
    except TryoutError:
        tally.problems.extend(f"not at rest after {tally.lives} lives: {text}" for text in found[:5])
        return False
    finally:
        await client.close()


def _line(samples: Sequence[Sample]) -> str:
    sample = samples[-1]
    values = sample.values
    shown = ("tasks", "threads", "sockets", "files", "grants", "surplus decisions")
    return (
        f"phase {len(samples):>3} {sample.seconds:>6.0f} s {sample.lives:>7} lives {sample.calls:>8} calls  "
        f"{values['anonymous bytes'] / 2**20:.2f} MiB {values['blocks']:.0f} blocks "
        + " ".join(f"{values[name]:.0f} {name}" for name in shown)
    )


def bad_lines(log: str, away: Sequence[tuple[float, float]]) -> list[str]:
    """Lines of the daemon's log that tell of a fault: tracebacks, and errors but for those that were provoked.

    ``away``: when the runtime was gone. A last line without its end is still being written.
    """
    lines = log[: log.rfind("\n") + 1].splitlines()
    return [line[:300] for line in lines if not line.startswith("{") or _is_bad(json.loads(line), away)]


def _is_bad(entry: Mapping[str, str], away: Sequence[tuple[float, float]]) -> bool:
    if entry["level"] not in ("error", "critical") or entry["event"] in PROVOKED:
        return False
    at = datetime.fromisoformat(entry["timestamp"]).timestamp()
    # Given up after a second without the runtime, and made up for later: at rest no update may wait.
    return entry["event"] != UPDATE_FAILED or not any(first <= at <= last for first, last in away)


PROVOKED: Final = {"config_rejected", "fault"}  # "fault" of the relay: clients that broke HTTP/2; others are counted


def _counted(problems: Sequence[str]) -> list[str]:
    """Each once, with how often."""
    return [f"{text} ({count} times)" if count > 1 else text for text, count in Counter(problems).items()][:40]
