"""The kubelet hangs up at any moment of any call: before the request went out, while the runtime has it, or after."""

import asyncio
from contextlib import suppress

import pytest

from cri_proxy.errors import CallFailed
from tests.faults.sweep import Scene, as_far_as_it_goes, going_on, turns

METHODS = (
    "RunPodSandbox",
    "CreateContainer",
    "StartContainer",
    "UpdateContainerResources",
    "StopContainer",
    "RemoveContainer",
    "StopPodSandbox",
    "RemovePodSandbox",
)
CANCELLED, DEADLINE_EXCEEDED = 1, 4
LONGEST = 400  # turns; every third is tried


async def hang_up_after(scene: Scene, number: int) -> bool:
    """The story is broken off after so many turns of the loop; False when it had ended."""
    story = asyncio.get_running_loop().create_task(scene.story())
    await turns(number)
    has_ended = story.done()
    story.cancel()
    with suppress(asyncio.CancelledError):
        await story
    return not has_ended


async def test_a_call_may_be_broken_off_at_any_moment() -> None:
    number = 0
    still = True
    while still:
        async with going_on(Scene()) as scene:
            still = await hang_up_after(scene, number)
        number += 3
        assert number < LONGEST
    assert number > 30, "the story asks for too little to tell"


@pytest.mark.parametrize("code", [CANCELLED, DEADLINE_EXCEEDED])
@pytest.mark.parametrize("after", [True, False], ids=["took effect", "did not"])
@pytest.mark.parametrize("method", METHODS)
async def test_an_outcome_that_nobody_learns_is_asked_for(method: str, after: bool, code: int, scene: Scene) -> None:
    scene.runtime.faults.fail_next(method, code, "nobody knows", after=after)
    await as_far_as_it_goes(scene.story())


@pytest.mark.parametrize("method", METHODS)
async def test_a_call_that_the_runtime_has_may_be_broken_off(method: str, scene: Scene) -> None:
    gate = scene.runtime.faults.block(method)
    story = asyncio.get_running_loop().create_task(scene.story())
    await gate.entered()
    story.cancel()
    with suppress(asyncio.CancelledError, CallFailed):
        await story
    scene.runtime.faults.clear()
