"""``stage``: a conversation in the place that a test's parameters ``via`` and ``client`` name (``RELAYED``, ...)."""

from collections.abc import AsyncIterator

import pytest

from tests.fakes.loops import DaemonLoop, FreshLoop
from tests.relay.stage import Place, Stage


@pytest.fixture
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, object]]:
    """The loop that goes with the test's client."""
    parameters = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    return "asyncio", {"loop_factory": DaemonLoop if parameters.get("client") == "h2" else FreshLoop}


@pytest.fixture
def place(via: str, client: str) -> Place:
    return Place(via, client)


@pytest.fixture
async def stage(place: Place) -> AsyncIterator[Stage]:
    async with place.staged() as stage:
        yield stage
