"""The watch of the runtime's events, told on a loop whose time passes only while nobody has anything to do."""

import asyncio
from collections import Counter

import pytest

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed
from cri_proxy.node.sync.adoption import REREAD_SECONDS
from cri_proxy.node.sync.resync import EVENTS_PAUSE_SECONDS
from tests.fakes.clock import LoopClock
from tests.fakes.lone_loop import LoneLoop
from tests.fakes.site import Site
from tests.unit.cri_proxy.node.stage import background, direct

EVENTS = "GetContainerEvents"
STATUS = "ContainerStatus"
STRANGERS = 200
SHARES = ContainerSpec("c", cpu_request_mcpu=100)
GARBAGE = b"\xff\xff\xff"


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "asyncio", {"loop_factory": LoneLoop}


@pytest.fixture
async def timed() -> Site:
    """An open node whose clock is the loop's."""
    site = Site()
    site.clock = LoopClock()  # type: ignore[assignment]  # the same protocol
    await site.open()
    return site


async def strangers(site: Site, count: int) -> list[str]:
    return [(await direct(site).run_pod(PodSpec(f"s{n}", (SHARES,)))).container_id("c") for n in range(count)]


async def watched(site: Site, seconds: float) -> Counter[str]:
    """The calls that the watch makes in this time."""
    site.runtime.calls.clear()
    watch = background(site.node.resync.watch())
    await asyncio.sleep(seconds)
    watch.cancel()
    await asyncio.wait([watch])
    return Counter(site.runtime.calls)


async def test_a_stream_that_ends_at_once_is_opened_less_and_less_often(timed: Site) -> None:
    timed.runtime.faults.fail_next(EVENTS, 13, "not today", times=1000)
    calls = await watched(timed, 60)
    assert calls[EVENTS] == 6, "after 1, 2, 4, 8, 16 and 30 seconds"
    assert calls["ListContainers"] == 5


async def test_a_stream_that_lasted_is_opened_again_soon(timed: Site) -> None:
    first, longest = EVENTS_PAUSE_SECONDS
    timed.runtime.faults.fail_next(EVENTS, 13, "not today", times=10)
    watch = background(timed.node.resync.watch())
    await asyncio.sleep(400)
    assert timed.runtime.listeners() == 1
    await asyncio.sleep(longest)
    timed.runtime.restart()
    await asyncio.sleep(first + 0.1)
    assert timed.runtime.listeners() == 1
    watch.cancel()


async def test_a_runtime_that_was_away_is_followed_again_within_the_first_pause(timed: Site) -> None:
    first, _ = EVENTS_PAUSE_SECONDS
    watch = background(timed.node.resync.watch())
    await asyncio.sleep(0.1)
    timed.runtime.go_away()
    await asyncio.sleep(300)
    timed.runtime.come_back()
    await asyncio.sleep(first + 0.1)
    assert timed.runtime.listeners() == 1
    watch.cancel()


@pytest.mark.parametrize("reply", [GARBAGE, b""], ids=["garbage", "of nobody"])
async def test_what_cannot_be_understood_is_read_once(reply: bytes, timed: Site) -> None:
    await strangers(timed, STRANGERS)
    timed.runtime.faults.fail_next(EVENTS, 13, "not today", times=1000)
    timed.runtime.faults.rewrite(STATUS, lambda _, __: reply)
    calls = await watched(timed, 60)
    assert calls[STATUS] == STRANGERS
    assert timed.log.warnings.count("not_adopted") == STRANGERS
    assert timed.node.context.ledger.active() == ()


async def checked(site: Site) -> int:
    """How many statuses the next check of the node reads."""
    site.runtime.calls.clear()
    await site.node.resync.check_all("test")
    return site.runtime.calls[STATUS]


async def test_it_is_read_again_when_its_annotations_change(timed: Site) -> None:
    one, _ = await strangers(timed, 2)
    timed.runtime.faults.rewrite(STATUS, lambda _, __: GARBAGE)
    assert [await checked(timed), await checked(timed)] == [2, 0]
    timed.runtime.node.containers[one].config.annotations["new"] = "text"
    assert [await checked(timed), await checked(timed)] == [1, 0]


async def test_it_is_read_again_when_it_was_created_again_or_starts(timed: Site) -> None:
    spec = PodSpec("s", (SHARES,))
    one = await direct(timed).create(spec, SHARES, await direct(timed).run_sandbox(spec))
    timed.runtime.faults.rewrite(STATUS, lambda _, __: GARBAGE)
    assert [await checked(timed), await checked(timed)] == [1, 0]
    await direct(timed).start(one)
    assert [await checked(timed), await checked(timed)] == [1, 0]
    timed.runtime.node.containers[one].created_at_ns += 1
    assert [await checked(timed), await checked(timed)] == [1, 0]


async def test_one_whose_status_is_refused_is_read_again_with_growing_pauses(timed: Site) -> None:
    first, longest = REREAD_SECONDS
    await strangers(timed, 1)
    timed.runtime.faults.fail_next(STATUS, 13, "not now", times=3)
    assert [await checked(timed), await checked(timed)] == [1, 0]
    await asyncio.sleep(first)
    assert [await checked(timed), await checked(timed)] == [1, 0]
    await asyncio.sleep(first)
    assert await checked(timed) == 0
    await asyncio.sleep(longest)
    assert await checked(timed) == 1, "refused for the last time"
    await asyncio.sleep(longest)
    assert await checked(timed) == 1
    await timed.node.settle()
    assert (len(timed.node.context.ledger.active()), timed.node.adoption.given_up()) == (1, ())


async def test_what_is_remembered_goes_with_the_containers(timed: Site) -> None:
    for container_id in await strangers(timed, 3):
        timed.runtime.faults.rewrite(STATUS, lambda _, __: GARBAGE)
        await checked(timed)
        await direct(timed).remove(container_id)
    await checked(timed)
    assert timed.node.adoption.given_up() == ()


async def test_an_event_that_cannot_be_read_ends_nothing(timed: Site) -> None:
    container = (await timed.run("a", guaranteed("c", 2000))).container_id("c")
    watch = background(timed.node.resync.watch())
    await asyncio.sleep(1)
    (queue,) = timed.runtime._followers
    queue.put_nowait(GARBAGE)
    stopped = pb.ContainerEventResponse(container_id=container, container_event_type=pb.CONTAINER_STOPPED_EVENT)
    queue.put_nowait(stopped.SerializeToString())
    await asyncio.sleep(1)
    assert timed.node.context.ledger.active() == ()
    assert timed.log.errors == []
    watch.cancel()
