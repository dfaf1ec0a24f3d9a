"""A place for each test, and a loop on which the coroutines of a module's tests run."""

import asyncio
import inspect
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.sysfs_tree import write_tree
from tests.restart.place import MACHINE, Place, one_place

RUNNER = pytest.StashKey[asyncio.Runner]()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test on its module's loop."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    runner = pyfuncitem.session.stash[RUNNER]
    runner.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture(scope="module")
def runner(request: pytest.FixtureRequest) -> Iterator[asyncio.Runner]:
    """The module's loop: what several tests look at lives on it."""
    with asyncio.Runner() as runner:
        request.session.stash[RUNNER] = runner
        yield runner


@pytest.fixture
def relay() -> str:
    """The kind of relay; a test that tries both is parametrized with it."""
    return "splice"


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The machine's files, some thousand: nobody writes to them."""
    return write_tree(tmp_path_factory.mktemp("machine"), MACHINE)


@pytest.fixture
def place(runner: asyncio.Runner, machine: Path, relay: str) -> Iterator[Place]:
    """Runtime and daemon, empty. The path of a Unix socket has at most 107 characters: a short directory."""
    directory = Path(tempfile.mkdtemp(prefix="cri-proxy-restart-", dir="/tmp"))
    try:
        with one_place(directory, relay, machine, runner) as place:
            yield place
    finally:
        shutil.rmtree(directory, ignore_errors=True)
