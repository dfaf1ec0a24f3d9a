import asyncio

import pytest

from cri_proxy.node.pending_calls import START_HANGS_SECONDS, UPDATE_TIMEOUT_SECONDS
from tests.fakes.lone_loop import LoneLoop
from tests.unit.cri_proxy.node.stage import BUSY, OWNS_2, SHARES, created, hanging, of, on_loop_time

UPDATE = "UpdateContainerResources"


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "asyncio", {"loop_factory": LoneLoop}


async def test_a_start_hangs_sooner_than_an_update() -> None:
    site = await on_loop_time()
    await site.run("busy", BUSY)
    sharer = (await site.run("s", SHARES)).container_id("c")
    gate = site.runtime.faults.hang(UPDATE, of(sharer))
    await created(site, "a", OWNS_2)
    starting, start_gate, start = await hanging(site, "t")
    calls = site.node.effects.calls
    await asyncio.sleep(START_HANGS_SECONDS - 1)
    assert calls.hanging() == set()
    await asyncio.sleep(1)
    assert calls.hanging() == {starting}
    await asyncio.sleep(UPDATE_TIMEOUT_SECONDS - START_HANGS_SECONDS + 1)
    assert calls.hanging() == {starting, sharer}
    for held in (gate, start_gate):
        held.release()
    await start


async def test_an_update_that_is_tried_again_has_no_answer_since_the_first_try() -> None:
    site = await on_loop_time()
    await site.run("busy", BUSY)
    sharer = (await site.run("s", SHARES)).container_id("c")
    gate = site.runtime.faults.hang(UPDATE, of(sharer))
    await created(site, "a", OWNS_2)
    await asyncio.sleep(2 * UPDATE_TIMEOUT_SECONDS + 5)
    (call,) = site.node.effects.calls.longer_than()
    assert call.text == "the runtime has not answered its UpdateContainerResources for 25 s"
    gate.release()
    await asyncio.sleep(UPDATE_TIMEOUT_SECONDS)
    assert list(site.node.effects.calls.longer_than()) == []
    site.node.effects.calls.begin_update(site.row(sharer))
    (call,) = site.node.effects.calls.longer_than()
    assert call.seconds == 0
