"""Run functions in helper processes: a system call that never returns then holds a process that the daemon can leave.

A thread in an uninterruptible sleep (a frozen ext4, a FUSE server that took a request and is silent) cannot be killed,
and no process ends while one of its threads sleeps so (``wait_event`` in fs/fuse/dev.c, ``percpu_rwsem_wait`` in
kernel/locking/percpu-rwsem.c of the kernel). ``Launcher`` is forked from the daemon while that has one thread and no
descriptors of its own; it forks a helper for each request. Helpers end when the daemon's end of their socket closes.
"""

import gc
import os
import pickle
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn, Self, TypeVar, TypeVarTuple

from cri_proxy.errors import CriProxyError

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_NAME: Final = "cri-proxy-files"  # as ps shows it; at most 15 characters (prctl(2), PR_SET_NAME)
_IGNORED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2)  # the daemon's, also of its terminal


@dataclass(eq=False)
class HelperFailed(CriProxyError):
    """A helper process could not be started, or ended before it answered."""

    problem: str

    def __str__(self) -> str:
        return f"the helper process for files failed: {self.problem}"


class HelperProcess:
    """A running helper. Its calls block; one thread at a time uses it."""

    def __init__(self, connection: socket.socket) -> None:
        """Talk to the helper at the other end; use ``Launcher.start``."""
        self._connection = connection
        self._stream = connection.makefile("rwb")

    def call(self, function: Callable[[*Ts], T], *args: *Ts) -> T:
        """Return what the function returns there. Blocks.

        Raises what it raises, if that is an OSError, a ValueError or a CriProxyError; else HelperFailed, as when the
        helper has ended.
        """
        try:
            pickle.dump((function, args), self._stream)
            self._stream.flush()
            value, error = pickle.load(self._stream)
        except (OSError, EOFError) as ended:
            raise HelperFailed(str(ended) or "it ended") from ended
        if error is not None:
            raise error
        returned: T = value
        return returned

    def close(self) -> None:
        """Let the helper end, as soon as it has done what it does."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)  # the stream holds a reference of its own
        self._connection.close()


class Launcher:
    """The process that forks helpers; it touches no files, so that it can always answer."""

    def __init__(self, control: socket.socket) -> None:
        """Ask the launcher at the other end; use ``fork``."""
        self._control = control

    @classmethod
    def fork(cls) -> Self:
        """Fork the launcher. Call it while the process has one thread: locks of others would stay locked in it."""
        ours, theirs = socket.socketpair()
        if os.fork() == 0:
            _end_with(_launch, theirs.detach())
        theirs.close()
        return cls(ours)

    def start(self) -> HelperProcess:
        """Start a helper. Raises HelperFailed."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                socket.send_fds(self._control, [b"+"], [theirs.fileno()])
            except OSError as error:
                ours.close()
                raise HelperFailed(f"the launcher has ended: {error.strerror}") from error
        return HelperProcess(ours)

    def close(self) -> None:
        """Let the launcher end; helpers that run stay."""
        self._control.close()


def _end_with(work: Callable[[int], None], descriptor: int) -> NoReturn:
    """Do this with the descriptor and end the process: what forked it must not go on here, whatever happens."""
    try:
        work(descriptor)
    finally:
        os._exit(0)


def _launch(descriptor: int) -> None:
    """Fork a helper for each descriptor that arrives, until the daemon is gone."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # helpers are reaped by the kernel
    _keep_only(descriptor)
    with suppress(OSError):
        Path("/proc/self/comm").write_text(_NAME)
    gc.freeze()  # memory that is shared with the daemon stays shared
    gc.enable()
    with socket.socket(fileno=descriptor) as control:
        while (received := socket.recv_fds(control, 1, 1))[0]:
            (connection,) = received[1]
            with suppress(OSError):  # too many processes: the daemon sees that the connection ends
                if os.fork() == 0:
                    control.close()
                    _end_with(_serve, connection)
            os.close(connection)


def _keep_only(descriptor: int) -> None:
    """Close all other descriptors: one that hangs must not hold the daemon's sockets, locks and output open."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    os.closerange(3, descriptor)
    os.closerange(descriptor + 1, os.sysconf("SC_OPEN_MAX"))


def _serve(descriptor: int) -> None:
    """Run what is asked for, one call after the other, until the daemon closes the connection."""
    connection = socket.socket(fileno=descriptor)
    stream = connection.makefile("rwb")

    def answer(value: object, error: BaseException | None) -> None:
        with suppress(OSError):  # the daemon is gone
            pickle.dump((value, error), stream)
            stream.flush()

    try:
        while True:
            function, args = pickle.load(stream)
            if _has_ended(connection):
                return  # a write of a daemon that was killed must not come after those of the next one
            try:
                value = function(*args)
            except (OSError, ValueError, CriProxyError) as error:
                answer(None, error)
            else:
                answer(value, None)
    except (EOFError, ConnectionError):
        return
    finally:
        unexpected = sys.exc_info()[1]
        if unexpected is not None:
            answer(None, HelperFailed(repr(unexpected)))


def _has_ended(connection: socket.socket) -> bool:
    """Return whether the other end is closed; it sends nothing while it waits for an answer."""
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
