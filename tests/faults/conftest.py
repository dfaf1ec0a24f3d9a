"""``scene``: a node that must go on whatever is done to it, on a loop on which chance plays no part."""

from collections.abc import AsyncIterator

import pytest

from tests.fakes.lone_loop import LoneLoop
from tests.faults.sweep import Scene, going_on


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "asyncio", {"loop_factory": LoneLoop}


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with going_on(Scene()) as scene:
        yield scene
