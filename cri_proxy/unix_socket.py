"""Listening Unix sockets of relays and the admin API: bind, publish by rename or take systemd's, remove at the end.

Clients never see it incomplete. At the end it is unlinked only if its inode is still ours; systemd's stays in place.
"""

import itertools
import os
import socket
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cri_proxy.errors import ConfigError
from cri_proxy.systemd import passed_sockets

_DEFAULT_MODE: Final = 0o600
_PRIVATE_UMASK: Final = 0o177
_MAX_PATH_BYTES: Final = 107  # unix(7): sun_path, with its final zero
_numbers: Final = itertools.count()


def socket_path(endpoint: str) -> Path:
    """Return the path of a Unix endpoint, given as 'unix:///path', 'unix:/path' or a path.

    >>> socket_path("unix:///run/containerd/containerd.sock")
    PosixPath('/run/containerd/containerd.sock')
    """
    return Path(endpoint.removeprefix("unix:").removeprefix("//"))


@dataclass(frozen=True, slots=True)
class Published:
    """A socket under its final name, and the inode that is ours. ``is_passed``: the name is systemd's to remove."""

    path: Path
    device: int
    inode: int
    is_passed: bool = False

    @property
    def is_ours(self) -> bool:
        """Whether the name still leads to our socket: it was not removed or replaced."""
        try:
            found = self.path.stat(follow_symlinks=False)
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == (self.device, self.inode)

    @property
    def problem(self) -> str:
        """Why new clients cannot connect, as a sentence; '' while the name leads to our socket."""
        return "" if self.is_ours else f"the socket {self.path} was removed or replaced: restart the daemon"

    def withdraw(self) -> None:
        """Unlink the socket, unless another one has its name by now."""
        if self.is_ours and not self.is_passed:
            self.path.unlink(missing_ok=True)


def claim(listen: Path, *, take_over: bool = False) -> Path:
    """Return a temporary name to bind to, in the directory of ``listen``.

    Raises ConfigError when another process answers at ``listen`` (unless ``take_over``), or when that path is not a
    socket or too long. A stale socket is no obstacle.
    """
    if len(os.fsencode(listen)) > _MAX_PATH_BYTES:
        problem = f"a socket path may have {_MAX_PATH_BYTES} bytes; choose a shorter one"
        raise ConfigError(str(listen), 0, "listen", problem)
    with named_errors(listen):
        listen.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        mode = listen.stat().st_mode if listen.exists() else None
    if mode is not None and not stat.S_ISSOCK(mode):
        raise ConfigError(str(listen), 0, "listen", "exists and is not a socket; remove it or choose another path")
    if mode is not None and not take_over and answers(listen):
        raise ConfigError(str(listen), 0, "listen", "another process answers there; stop it or choose another path")
    temporary = listen.parent / f".{os.getpid():x}-{next(_numbers):x}"
    temporary.unlink(missing_ok=True)  # of an earlier process that had this number
    return temporary


@contextmanager
def named_errors(listen: Path) -> Iterator[None]:
    """Raise an OSError of the block as a ConfigError that names the socket."""
    try:
        yield
    except OSError as error:
        problem = f"{error.strerror or error}; check its directory and the rights there"
        raise ConfigError(str(listen), 0, "listen", problem) from error


@contextmanager
def private_umask() -> Iterator[None]:
    """Create sockets for their owner only, within the block. The umask is the whole process's: keep the block short."""
    old = os.umask(_PRIVATE_UMASK)
    try:
        yield
    finally:
        os.umask(old)


def publish(temporary: Path, listen: Path, runtime: Path | None) -> Published:
    """Give a bound socket the runtime socket's owner and mode (0600 without one) and its final name."""
    # Before it has its name: more users than may connect to the runtime must never reach it.
    if not _resemble(temporary, runtime):
        temporary.chmod(_DEFAULT_MODE)
    ours = temporary.stat()  # before the rename: the name may be another process's right after it
    temporary.rename(listen)
    return Published(listen, ours.st_dev, ours.st_ino)


def _resemble(path: Path, runtime: Path | None) -> bool:
    """Give our socket the runtime socket's owner and mode; False without a runtime socket."""
    if runtime is None:
        return False
    try:
        model = runtime.stat()
    except OSError:
        return False
    # The mode first: after chown it would take CAP_FOWNER, which the unit does not grant.
    path.chmod(stat.S_IMODE(model.st_mode))
    os.chown(path, model.st_uid, model.st_gid)
    return True


def passed_socket(listen: Path, descriptors: Sequence[int]) -> socket.socket | None:
    """Return a copy of the socket among these descriptors that listens under this name; None without one.

    The original stays open: the relay may have to be opened again, with other settings.
    """
    for descriptor in descriptors:
        found = socket.socket(fileno=os.dup(descriptor))
        listens = found.family == socket.AF_UNIX and found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        if listens and found.getsockname() == str(listen):
            found.setblocking(False)
            os.set_inheritable(descriptor, False)  # as sd_listen_fds(3): no child keeps the socket open
            return found
        found.close()
    return None


def refuse_passed(listen: Path) -> None:
    """Raise ConfigError when systemd has opened this socket: for a relay that can only bind its own.

    Binding under the same name would leave systemd with a socket that clients no longer find.
    """
    passed = passed_socket(listen, passed_sockets(os.environ, os.getpid()))
    if passed is not None:
        passed.close()
        problem = (
            "systemd opened it (cri-proxy.socket), which --relay grpc cannot use: disable it, or use --relay splice"
        )
        raise ConfigError(str(listen), 0, "listen", problem)


def listen_on(listen: Path, runtime: Path | None, *, take_over: bool = False) -> tuple[socket.socket, Published]:
    """Return a listening socket under its final name: the one that systemd passed, or a new one.

    It resembles the runtime's socket; without one it is its owner's alone.
    """
    passed = passed_socket(listen, passed_sockets(os.environ, os.getpid()))
    if passed is not None:
        with named_errors(listen):
            _resemble(listen, runtime)  # without a runtime it keeps the owner and mode of its unit
            there = listen.stat()
            return passed, Published(listen, there.st_dev, there.st_ino, is_passed=True)
    temporary = claim(listen, take_over=take_over)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        with named_errors(listen):
            # A chmod after ``bind`` would leave a moment in which the umask alone decides about the rights.
            with private_umask():
                server.bind(str(temporary))
            server.listen(128)  # before it has its name: a client that finds it would be refused
            return server, publish(temporary, listen, runtime)
    except ConfigError:
        server.close()
        temporary.unlink(missing_ok=True)
        raise


def answers(path: Path) -> bool:
    """Whether a process listens there. A full backlog counts as an answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as probe:
        try:
            probe.connect(str(path))
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True
