"""Run the daemon inside this process, on the embedded runtime and a described machine: no root, no containerd."""

import argparse
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

from cri_proxy.cli import run as run_command
from cri_proxy.daemon.app import EMBEDDED, Daemon
from cri_proxy.logs import configure_logging
from sysfs.descriptions.machine import describe
from sysfs.model import Machine
from tests.testbed.daemon import LOG, READY_SECONDS, AdminSocket, run_arguments
from tests.testbed.wait import finish, until

# Two packages of two NUMA nodes, 16 CPUs; the kernel isolates two of them
DESCRIPTION: dict[str, object] = {
    "packages": 2,
    "nodes": 2,
    "cores": 2,
    "threads": 2,
    "memory": "4Gi",
    "isolated": "3,7",
}


def described_machine() -> Machine:
    """Return the machine that the pods are placed on."""
    return describe(DESCRIPTION)


class EmbeddedDaemon:
    """The interface of ``DaemonProcess``: an endpoint, an admin socket, a log."""

    def __init__(self, directory: Path, *, machine: Machine, options: Sequence[str] = ()) -> None:
        """``directory`` holds sockets, state and log."""
        self.endpoint = f"unix://{directory}/cri-proxy.sock"
        self.admin = AdminSocket(directory / "admin.sock")
        self.log = directory / LOG
        self._machine = machine
        self._arguments = run_arguments(directory, EMBEDDED, options)
        self._closing = AsyncExitStack()

    async def __aenter__(self) -> Self:
        parser = argparse.ArgumentParser()
        run_command.register(parser)
        settings = run_command.settings_from(parser.parse_args(self._arguments[1:]))
        log = self._closing.enter_context(self.log.open("a", buffering=1))  # by lines: a crash leaves whole ones
        daemon = Daemon(settings, log=configure_logging("info", "json", log), machine=self._machine)
        self._closing.push_async_callback(daemon.stop)
        try:
            await daemon.start()
            await until("the daemon is ready", self.admin.decides, seconds=READY_SECONDS)
        except BaseException:
            await finish(self._closing.aclose())
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await finish(self._closing.aclose())
