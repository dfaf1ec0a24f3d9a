"""Run functions in helper processes: a system call that never returns then holds a process that the daemon can leave.

A thread in an uninterruptible sleep (a frozen ext4, a FUSE server that took a request and is silent) cannot be killed,
and no process ends while one of its threads sleeps so (``wait_event`` in fs/fuse/dev.c, ``percpu_rwsem_wait`` in
kernel/locking/percpu-rwsem.c of the kernel). The launcher is forked from the daemon while that has one thread and no
descriptors of its own; it forks a helper for each request. Helpers end when the daemon's end of their socket closes.
A launcher that has ended is replaced by a new program: to fork again would copy locks that other threads hold.
"""

import gc
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final, NoReturn, Self, TypeVar, TypeVarTuple

from cri_proxy.errors import CriProxyError

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_NAME: Final = "cri-proxy-files"  # as ps shows it; at most 15 characters (prctl(2), PR_SET_NAME)
RESTART_SECONDS: Final = 30.0
"""How long a new launcher may take to load its modules: a third of a second where the machine has time for it."""

_AGAIN: Final = "from cri_proxy.helper_process import launch_again as launch; import sys; launch(*sys.argv[1:])"
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
        """Return the function's result from there. Blocks.

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
    """The process that forks helpers; it touches no files, so that it can always answer. Threads may share it."""

    def __init__(self, control: socket.socket, pid: int, modules: Sequence[str] = ()) -> None:
        """Ask the launcher at the other end; use ``fork``."""
        self._control = control
        self._pid = pid
        self._modules = modules
        self._lock = threading.Lock()

    @classmethod
    def fork(cls, modules: Sequence[str] = ()) -> Self:
        """Load the modules of helpers, and fork the launcher.

        Call it while the process has one thread: locks of others would stay locked in it.
        """
        _load(modules)
        ours, theirs = _pair()
        pid = os.fork()
        if pid == 0:
            _end_with(_launch, theirs.detach())
        theirs.close()
        return cls(ours, pid, modules)

    def start(self) -> HelperProcess:
        """Start a helper, with a new launcher where the present one has ended. Blocks. Raises HelperFailed."""
        ours, theirs = _pair()
        # ``theirs`` is closed here: with a copy in the daemon the end of a helper would never show.
        with self._lock, theirs:
            try:
                try:
                    self._ask_for_helper(theirs)
                except ConnectionError:
                    self._replace()
                    self._ask_for_helper(theirs)
            except (OSError, HelperFailed) as error:
                ours.close()
                problem = error.problem if isinstance(error, HelperFailed) else error.strerror
                raise HelperFailed(f"the launcher has ended: {problem}") from error
        return HelperProcess(ours)

    def _ask_for_helper(self, connection: socket.socket) -> None:
        # A descriptor needs a byte to travel with (unix(7), SCM_RIGHTS).
        socket.send_fds(self._control, [b"+"], [connection.fileno()])

    def watched(self) -> socket.socket:
        """Return a socket that can be read from once the present launcher has ended. The caller closes it."""
        with self._lock:
            return self._control.dup()

    def restore(self) -> None:
        """Replace the launcher if it has ended. Blocks. Raises HelperFailed."""
        with self._lock:
            if _has_ended(self._control):
                self._replace()

    def _replace(self) -> None:
        """Start the launcher as a new program. Raises HelperFailed."""
        self._reap()
        ours, theirs = _pair()
        self._control.close()
        self._control = ours
        with theirs:
            # -P: no file in the working directory is loaded in the place of a module.
            command = (sys.executable, "-P", "-c", _AGAIN, str(theirs.fileno()), *self._modules)
            found_at = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            try:
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], env=found_at)
            except OSError as error:
                raise HelperFailed(f"a new launcher cannot be started: {error}") from error
        self._pid, process.returncode = process.pid, 0  # we reap it, as the one that was forked
        self._control.settimeout(RESTART_SECONDS)
        try:
            answer = self._control.recv(1)
        except OSError as error:
            self._reap()
            raise HelperFailed(f"a new launcher does not answer: {error}") from error
        if not answer:
            raise HelperFailed("a new launcher ended at its start; its last words are in the log")
        self._control.settimeout(None)

    def _reap(self) -> None:
        """End and reap the launcher, which touches no files and so ends at once; nothing where that was done."""
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = 0

    def close(self) -> None:
        """Let the launcher end; helpers that run stay."""
        self._control.close()


def launch_again(descriptor: str, *modules: str) -> NoReturn:
    """Be the launcher in a program of its own, and announce when it can be asked."""
    _load(modules)
    os.write(int(descriptor), b"+")
    _end_with(_launch, int(descriptor))


def _load(modules: Sequence[str]) -> None:
    for name in modules:
        import_module(name)


def _pair() -> tuple[socket.socket, socket.socket]:
    """Return two connected sockets. Raises HelperFailed."""
    try:
        return socket.socketpair()
    except OSError as error:
        raise HelperFailed(f"no socket for it: {error.strerror}") from error


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
