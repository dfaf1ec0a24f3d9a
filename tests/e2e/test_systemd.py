"""The daemon tells systemd what the unit in ``packaging/`` waits for (sd_notify(3)), and takes the unit's options."""

import configparser
import contextlib
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.testbed.containerd import PrivateContainerd
from tests.testbed.daemon import DaemonProcess

UNIT = Path(__file__).parent.parent.parent / "packaging" / "cri-proxy.service"


@pytest.fixture
def directory() -> Iterator[Path]:
    """A short path, for sockets."""
    directory = Path(tempfile.mkdtemp(prefix="cri-proxy-e2e-", dir="/tmp"))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def notifications(directory: Path) -> Iterator[socket.socket]:
    """The socket on which systemd listens."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notifications:
        notifications.bind(str(directory / "notify"))
        notifications.setblocking(False)
        yield notifications


async def test_systemd_is_told_when_the_daemon_is_ready_and_when_it_stops(
    containerd: PrivateContainerd, directory: Path, notifications: socket.socket
) -> None:
    environment = {"NOTIFY_SOCKET": str(directory / "notify")}
    daemon = DaemonProcess(directory, runtime_endpoint=containerd.endpoint, environment=environment)
    await daemon.start()
    while_running = told(notifications)
    await daemon.stop()
    assert "READY=1" in while_running
    assert "STOPPING=1" not in while_running
    assert "STOPPING=1" in told(notifications)


def told(notifications: socket.socket) -> list[str]:
    """The assignments that came since the last time."""
    lines: list[str] = []
    with contextlib.suppress(BlockingIOError):
        while True:
            lines += notifications.recv(4096).decode().splitlines()
    return lines


def test_the_unit_waits_for_being_told() -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.read(UNIT)
    assert unit["Service"]["Type"] == "notify"
    assert unit["Service"]["ExecStart"].split()[1:3] == ["run", "--config"]
