"""``play`` runs a conversation in the place that a test's parameters ``via`` and ``client`` name."""

from collections.abc import Callable, Coroutine

import pytest

from tests.fakes.scripted_interceptor import ScriptedInterceptor
from tests.relay.h2_client import Shape
from tests.relay.stage import Place, Play, Stage, run_on_loop_of, stage


@pytest.fixture
def play(via: str, client: str) -> Play:
    """For tests that are parametrised by DIRECT_AND_RELAYED or RELAYED."""

    def run(
        act: Callable[[Stage], Coroutine[object, object, None]],
        *,
        interceptor: ScriptedInterceptor | None = None,
        client: Shape | None = None,
        runtime: Shape | None = None,
    ) -> None:
        async def converse() -> None:
            async with stage(Place(via, kind, interceptor, client, runtime)) as set_up:
                await act(set_up)

        run_on_loop_of(kind, converse())

    kind = client
    return run
