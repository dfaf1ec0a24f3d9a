"""A place for each test, and a loop for each module."""

import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes.loops import FreshLoop
from tests.fakes.sysfs_tree import write_tree
from tests.restart.place import MACHINE, Place, one_place


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, object]]:
    """One loop for a module: what several of its tests look at lives on it."""
    return "asyncio", {"loop_factory": FreshLoop}


@pytest.fixture
def relay() -> str:
    """The kind of relay; a test that tries both is parametrized with it."""
    return "splice"


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The machine's files, some thousand: nobody writes to them."""
    return write_tree(tmp_path_factory.mktemp("machine"), MACHINE)


@pytest.fixture
async def place(machine: Path, relay: str) -> AsyncIterator[Place]:
    """Runtime and daemon, empty. The path of a Unix socket has at most 107 characters: a short directory."""
    directory = Path(tempfile.mkdtemp(prefix="cri-proxy-restart-", dir="/tmp"))
    try:
        async with one_place(directory, relay, machine) as place:
            yield place
    finally:
        shutil.rmtree(directory, ignore_errors=True)
