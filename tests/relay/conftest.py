"""``stage``: a conversation in the place that a test's parameters ``via`` and ``client`` name (``RELAYED``, ...)."""

from collections.abc import AsyncIterator

import pytest

from tests.fakes.loops import DaemonLoop
from tests.relay.stage import Place, Stage


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """The daemon's loop, also with clients on gRPC's C core."""
    return "asyncio", {"loop_factory": DaemonLoop}


@pytest.fixture
def place(via: str, client: str) -> Place:
    return Place(via, client)


@pytest.fixture
async def stage(place: Place) -> AsyncIterator[Stage]:
    async with place.staged() as stage:
        yield stage
