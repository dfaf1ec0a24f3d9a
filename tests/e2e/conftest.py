"""One containerd for the whole session, one daemon for each test module and kind of relay.

A test is a coroutine; all run on one event loop, so that connections live as long as their fixtures. Without root
or containerd the tests are skipped and say so; with ``CI=true`` that is a failure.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.e2e.stage import Stage, TwoCpus
from tests.testbed.containerd import REMEDY, PrivateContainerd, missing_programs
from tests.testbed.daemon import DaemonProcess
from tests.testbed.image import BUSYBOX
from tests.testbed.kernel import own_allowed
from tests.tried import has_passed_whole, here, note

# Above the sum of what a test may wait for: on a busy machine real containers take many times their usual second.
TEST_SECONDS = 400.0
# On a machine whose CPUs many others want too, a build of half a minute took five.
BUILD_SECONDS = 800.0
ROOT = Path(__file__).parent.parent.parent
# Those of test_packages.py
RELEASES = (("distribution", "Debian 12 (bookworm), Python 3.11"), ("distribution", "Debian 13 (trixie), Python 3.13"))


def missing() -> str:
    """What keeps these tests from running here, and how to get it; '' when nothing does."""
    if os.geteuid() != 0:
        return "end-to-end tests start a containerd, which needs root"
    if programs := missing_programs():
        return f"not installed: {', '.join(programs)} ({REMEDY})"
    if not BUSYBOX.exists():
        return f"{BUSYBOX} is missing (apt-get install busybox-static)"
    if len(own_allowed().cpus) < 2:
        return "end-to-end tests need two CPUs"
    return ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that says nothing else may take this long."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TEST_SECONDS))


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Note with what versions this stage has passed."""
    if has_passed_whole(session, exitstatus):
        note("pods through the daemon, restarts, upgrades, packages (tests/e2e)", here())
        note("package installed, run, upgraded, removed (tests/e2e)", RELEASES)


@pytest.fixture(scope="session", autouse=True)
def anyio_backend() -> tuple[str, dict[str, object]]:
    if reason := missing():
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    return "asyncio", {}


@pytest.fixture(scope="session")
def deb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Debian package of this tree."""
    output = tmp_path_factory.mktemp("dist")
    subprocess.run([ROOT / "packaging" / "deb" / "build.sh", output], check=True, cwd=ROOT, timeout=BUILD_SECONDS)
    return next(output.glob("*.deb"))


@pytest.fixture(scope="session")
async def containerd() -> AsyncIterator[PrivateContainerd]:
    """A containerd of our own. Its directory is short: the path of a Unix socket has at most 107 characters."""
    containerd = PrivateContainerd(Path(tempfile.mkdtemp(prefix="cri-proxy-e2e-", dir="/tmp")))
    try:
        await containerd.start()
        yield containerd
    finally:
        await containerd.stop()


@pytest.fixture(scope="session")
def two() -> TwoCpus:
    """The two lowest CPUs that we may use."""
    low, high, *_ = own_allowed().cpus
    return TwoCpus(low, high)


@pytest.fixture(scope="module", params=["splice", "grpc"])
def relay(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def options(two: TwoCpus) -> tuple[str, ...]:
    """Options of the daemon; a module that needs others has a fixture of this name."""
    return two.options


@pytest.fixture(scope="module")
async def module_stage(containerd: PrivateContainerd, relay: str, options: tuple[str, ...]) -> AsyncIterator[Stage]:
    """The module's daemon in front of the containerd."""
    directory = Path(tempfile.mkdtemp(prefix="cri-proxy-e2e-", dir="/tmp"))
    daemon = DaemonProcess(directory, runtime_endpoint=containerd.endpoint, options=("--relay", relay, *options))
    try:
        await daemon.start()
        stage = Stage(containerd, daemon)
        yield stage
        await stage.close()
    finally:
        await daemon.stop()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
async def stage(module_stage: Stage) -> AsyncIterator[Stage]:
    """The stage, empty before and after each test. The daemon's log is shown with a test that fails."""
    await module_stage.tidy()
    before = module_stage.daemon.log.stat().st_size
    yield module_stage
    await module_stage.remove_pods()
    with module_stage.daemon.log.open() as log:
        log.seek(before)
        print(log.read()[-8000:])
