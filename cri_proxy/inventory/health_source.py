"""Ask for the health of devices: a file, or a command, each bounded in time and size. Blocks: not on the loop."""

import os
import selectors
import signal
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cri_proxy.clock import steady_seconds
from cri_proxy.foreign_files.beneath import FileRefused, read_text
from cri_proxy.foreign_text import admit
from cri_proxy.inventory.health import DeviceHealth, lost_gpus, read_health
from cri_proxy.yaml_fields import DocumentError

COMMAND_SECONDS: Final = 10.0
"""For a command: nvidia-smi takes a second or two where the driver is not kept loaded."""
ANSWER_SECONDS: Final = COMMAND_SECONDS + 2.0
"""For both, with what a machine under load takes to end the command. What hangs longer is not asked again meanwhile."""

_MOST_BYTES: Final = 4 << 20  # nvidia-smi -q -x has some 60 KiB for each GPU
_WORDS_BYTES: Final = 160
_CHUNK_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class HealthSource:
    """A file that something else writes, a command that prints the same, or both. ``command`` is no shell's.

    ``within_seconds`` is the command's time.
    """

    file: str = ""
    command: tuple[str, ...] = ()
    within_seconds: float = COMMAND_SECONDS

    @property
    def is_none(self) -> bool:
        """Whether nothing is asked."""
        return not self.file and not self.command

    def __str__(self) -> str:
        return " and ".join(filter(None, (self.file, self.command[0] if self.command else "")))


NO_HEALTH: Final = HealthSource()
"""Nothing is asked: devices are healthy unless the inventory says otherwise."""


def health_of(source: HealthSource) -> tuple[DeviceHealth, ...]:
    """Return the health that a source reports now. Blocks.

    Raises DocumentError for what cannot be read, a command that fails or takes too long, and output without an end.
    """
    found: list[DeviceHealth] = []
    if source.file:
        try:
            text = read_text(Path(source.file), _MOST_BYTES)
        except FileRefused as error:
            raise DocumentError(source.file, error.line, error.problem) from None
        except OSError as error:
            raise DocumentError(source.file, 0, f"cannot be read: {error.strerror}") from None
        found += read_health(text, source.file)
    if source.command:
        found += _of_command(source.command, source.within_seconds)
    return tuple(found)


def _of_command(command: Sequence[str], within_seconds: float) -> tuple[DeviceHealth, ...]:
    name = command[0]
    try:
        status, text = _run(command, within_seconds)
    except OSError as error:
        raise DocumentError(name, 0, f"cannot be run: {error.strerror}") from None
    if not status:
        return read_health(text, name)
    # nvidia-smi fails as a whole where one GPU is lost, and says which.
    if lost := lost_gpus(text):
        return lost
    words = admit(text.strip().splitlines()[-1], _WORDS_BYTES) if text.strip() else ""
    ended = f"was ended by signal {-status}" if status < 0 else f"exit status {status}"
    raise DocumentError(name, 0, f"{ended}{': ' if words else ''}{words}")


def _run(command: Sequence[str], within_seconds: float) -> tuple[int, str]:
    """Return the exit status of a command, below 0 for a signal, and its output. Raises OSError and DocumentError."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a helper lets the kernel reap: then no status would be known
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb", buffering=0) as output:
        try:
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=writing,
                stderr=subprocess.DEVNULL,
                # A process group of its own, which killpg ends with all that the command has started.
                start_new_session=True,
                # Its words are read, and they are known in English only.
                env=os.environ | {"LC_ALL": "C"},
            )
        finally:
            # While this process had it open too, the pipe would have no end.
            os.close(writing)
        return _ended(command[0], process, output.fileno(), within_seconds)


def _ended(name: str, process: subprocess.Popen[bytes], output: int, within_seconds: float) -> tuple[int, str]:
    """Return the exit status of the program of this name, and what it prints; end it where that takes too long.

    Raises DocumentError.
    """
    until_seconds = steady_seconds() + within_seconds
    problem = f"no end within {within_seconds:.3g} s"
    try:
        data = _read(output, until_seconds)
        if data is not None and len(data) > _MOST_BYTES:
            problem = f"prints more than {_MOST_BYTES} bytes"
        elif data is not None:
            status = process.wait(max(0.0, until_seconds - steady_seconds()))
            return status, data.decode("utf-8", "replace")
    except subprocess.TimeoutExpired:
        pass
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # also what it has started
        process.wait()
    raise DocumentError(name, 0, problem)


def _read(descriptor: int, until_seconds: float) -> bytes | None:
    """Return what comes from a pipe until its end, or until it is too much; None where the time is over before."""
    found = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while len(found) <= _MOST_BYTES:
            if not selector.select(max(0.0, until_seconds - steady_seconds())):
                return None
            chunk = os.read(descriptor, _CHUNK_BYTES)
            if not chunk:
                break
            found += chunk
    return bytes(found)
