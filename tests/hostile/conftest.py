"""Where the stories are played: behind both relays, in front of a scripted runtime and, where marked, of containerd.

A story takes ``node`` (with the usual configuration) or ``place``, which opens a node with options of its own.
See README.md.
"""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import missing
from tests.hostile.node import AttackedNode, Place
from tests.hostile.stories import CONTAINERD, SCRIPTED
from tests.testbed.containerd import PrivateContainerd


@pytest.fixture(params=["splice", "grpc"])
def relay(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def runtime() -> str:
    """What the daemon stands in front of; a story marked ``ON_CONTAINERD_TOO`` gets both in turn."""
    return SCRIPTED


@pytest.fixture(scope="session")
def containerd() -> Iterator[PrivateContainerd]:
    """A containerd for the whole session; its directory is short: a Unix socket's path has at most 107 characters."""
    if reason := missing():
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    containerd = PrivateContainerd(Path(tempfile.mkdtemp(prefix="cri-proxy-e2e-", dir="/tmp")))
    try:
        asyncio.run(containerd.start())
        yield containerd
    finally:
        asyncio.run(containerd.stop())


@pytest.fixture
def place(relay: str, runtime: str, request: pytest.FixtureRequest) -> Place:
    return Place(relay, request.getfixturevalue("containerd") if runtime == CONTAINERD else None)


@pytest.fixture
async def node(place: Place) -> AsyncIterator[AttackedNode]:
    async with place.node() as node:
        yield node
