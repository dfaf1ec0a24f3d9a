"""The event loop of async tests and fixtures, a node to test on, and how hard the properties are tried.

An async test and its async fixtures run in one task on a new loop of asyncio; a test or a directory that wants another
loop overrides ``anyio_backend``.

Properties are tried with a few examples by default, with many under HYPOTHESIS_PROFILE=ci. The same examples in every
run: a run that fails can be run again. Fresh ones are what ``tests.property.soak`` is for. No example has a deadline,
in whichever directory: how long one takes depends on the machine's other work.
"""

import os
import signal
from collections.abc import AsyncIterator

import pytest
from hypothesis import HealthCheck, settings

from tests.fakes.loops import DaemonLoop
from tests.fakes.site import Site, opened

settings.register_profile(
    "default", max_examples=30, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("ci", parent=settings.get_profile("default"), max_examples=200)
# A shell that starts the tests in the background has them ignore this, and what they start, which is to end by it.
signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ["COLUMNS"] = "80"  # of the texts of commands, whatever the terminal, and with or without workers
os.umask(0o022)  # tests speak of modes; a plain user's shell may have 002, a careful one's 077
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Name of the backend and its options: ``use_uvloop``, ``loop_factory``."""
    return "asyncio", {"loop_factory": DaemonLoop}


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """An open node on the small machine with the default rules; at the end no fault of ours may have been reported."""
    async with opened(Site()) as site:
        yield site
