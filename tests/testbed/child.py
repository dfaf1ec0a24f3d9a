"""Start and stop a program as a child process with its output in a file; run a short program for its output."""

import os
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.testbed.errors import TryoutError
from tests.testbed.wait import finish, until

TAIL_CHARACTERS = 2000
GRACE_SECONDS = 20.0  # four times what the daemon takes at most: the machine may be busy
KILLED_SECONDS = 30.0  # on a busy machine


class Child:
    """A running program, in a session of its own so that Ctrl-C on the terminal does not reach it."""

    def __init__(self, argv: Sequence[str], *, log: Path, environment: Mapping[str, str] | None = None) -> None:
        """Start it; standard output and error are appended to ``log``. Raises TryoutError when it is missing."""
        self.name = Path(argv[0]).name
        self.log = log
        with log.open("ab") as output:
            try:
                self._process = subprocess.Popen(
                    list(argv),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    env={**os.environ, **(environment or {})},
                )
            except OSError as error:
                raise TryoutError(argv[0], error.strerror or str(error)) from None

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """The exit status; None while it runs, negative = the signal that ended it."""
        return self._process.poll()

    def tail(self) -> str:
        """Return the end of the output."""
        return self.log.read_text(errors="replace")[-TAIL_CHARACTERS:] if self.log.exists() else ""

    def require_running(self) -> None:
        """Raise TryoutError with the end of its output when it has ended."""
        if self.exit_status is not None:
            raise TryoutError(self.name, f"ended with status {self.exit_status}", self.tail())

    def send(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if self.exit_status is None:
            self._process.send_signal(number)

    async def end(self, *, number: signal.Signals = signal.SIGTERM, grace_seconds: float = GRACE_SECONDS) -> int:
        """Signal it and wait; kill it after ``grace_seconds``. Return the exit status."""
        self.send(number)
        try:
            return await until(f"{self.name} ended", self._ended, seconds=grace_seconds)
        except TryoutError:
            self.send(signal.SIGKILL)
            return await until(f"{self.name} was killed", self._ended, seconds=KILLED_SECONDS)

    async def _ended(self) -> int | None:
        return self.exit_status


class Service(ABC):
    """A program that is started, and ended with all that it leaves behind: by ``async with``, or by hand."""

    _child: Child | None = None

    @abstractmethod
    async def start(self) -> None:
        """Start it and wait until it is ready. Raises TryoutError with the end of its log."""

    @abstractmethod
    async def stop(self) -> object:
        """End it. Safe to call twice."""

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await finish(self.stop())
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await finish(self.stop())

    @property
    def pid(self) -> int:
        """The process id; 0 when it does not run."""
        return self._child.pid if self._child is not None else 0

    @property
    def exit_status(self) -> int | None:
        """The exit status; None while it runs, and before the start."""
        return self._child.exit_status if self._child is not None else None

    def send(self, number: signal.Signals) -> None:
        """Send the program a signal that does not end it, if it runs."""
        if self._child is not None:
            self._child.send(number)


def run(argv: Sequence[str], *, seconds: float, environment: Mapping[str, str] | None = None) -> str:
    """Return the output of a short program. Raises TryoutError when it fails or takes longer."""
    try:
        done = subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            env={**os.environ, **(environment or {})},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TryoutError(" ".join(argv), str(error)) from None
    if done.returncode:
        raise TryoutError(
            " ".join(argv), f"exit status {done.returncode}", (done.stdout + done.stderr)[-TAIL_CHARACTERS:]
        )
    return done.stdout
