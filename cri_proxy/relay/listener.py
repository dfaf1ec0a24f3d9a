"""The socket that the kubelet connects to: claimed, published and withdrawn without a moment of doubt.

It is bound under a temporary name with an empty umask for others, gets the runtime socket's owner and mode, and only
then takes its name, by rename: nobody ever sees it half made. At the end it is unlinked only if it is still ours.
"""

import itertools
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cri_proxy.errors import ConfigError

_DEFAULT_MODE: Final = 0o600
_PRIVATE_UMASK: Final = 0o177
_MAX_PATH_BYTES: Final = 107  # unix(7): sun_path, with its final zero
_numbers: Final = itertools.count()


def socket_path(endpoint: str) -> Path:
    """The path of a Unix endpoint, given as 'unix:///path', 'unix:/path' or a path.

    >>> socket_path("unix:///run/containerd/containerd.sock")
    PosixPath('/run/containerd/containerd.sock')
    """
    return Path(endpoint.removeprefix("unix:").removeprefix("//"))


@dataclass(frozen=True, slots=True)
class Published:
    """A socket under its final name, and the inode that is ours."""

    path: Path
    device: int
    inode: int

    def withdraw(self) -> None:
        """Unlink the socket, unless somebody else has taken the name meanwhile."""
        try:
            found = self.path.stat(follow_symlinks=False)
            if (found.st_dev, found.st_ino) == (self.device, self.inode):
                self.path.unlink()
        except FileNotFoundError:
            pass


def claim(listen: Path, *, take_over: bool = False) -> Path:
    """A temporary name to bind to, in the directory of ``listen``, once its own name is known to be free.

    A stale socket is no obstacle. ConfigError when somebody answers there (unless ``take_over``), or when the path
    is no socket, or too long.
    """
    if len(os.fsencode(listen)) > _MAX_PATH_BYTES:
        raise ConfigError(str(listen), 0, "listen", f"a socket path may have {_MAX_PATH_BYTES} bytes; choose a shorter")
    with named_errors(listen):
        listen.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        mode = listen.stat().st_mode if listen.exists() else None
    if mode is not None and not stat.S_ISSOCK(mode):
        raise ConfigError(str(listen), 0, "listen", "is there and is not a socket; remove it or choose another path")
    if mode is not None and not take_over and _answers(listen):
        problem = "another process answers there; stop it or choose another path"
        raise ConfigError(str(listen), 0, "listen", problem)
    temporary = listen.parent / f".{os.getpid():x}-{next(_numbers):x}"
    temporary.unlink(missing_ok=True)
    return temporary


@contextmanager
def named_errors(listen: Path) -> Iterator[None]:
    """What the system refuses becomes a ConfigError that names the socket."""
    try:
        yield
    except OSError as error:
        problem = f"{error.strerror or error}; check its directory and the rights there"
        raise ConfigError(str(listen), 0, "listen", problem) from error


@contextmanager
def private_umask() -> Iterator[None]:
    """While this holds, sockets are made for their owner only. A umask belongs to the whole process: keep it short."""
    old = os.umask(_PRIVATE_UMASK)
    try:
        yield
    finally:
        os.umask(old)


def publish(temporary: Path, listen: Path, runtime: Path) -> Published:
    """Give a bound socket the runtime socket's owner and mode (0600 without one) and its final name."""
    try:
        model = runtime.stat()
    except OSError:
        temporary.chmod(_DEFAULT_MODE)
    else:
        os.chown(temporary, model.st_uid, model.st_gid)
        temporary.chmod(stat.S_IMODE(model.st_mode))
    ours = temporary.stat()
    temporary.rename(listen)
    return Published(listen, ours.st_dev, ours.st_ino)


def listen_on(listen: Path, runtime: Path, *, take_over: bool = False) -> tuple[socket.socket, Published]:
    """A listening socket under its final name."""
    temporary = claim(listen, take_over=take_over)
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        with named_errors(listen):
            with private_umask():
                server.bind(str(temporary))
            server.listen(128)
            return server, publish(temporary, listen, runtime)
    except ConfigError:
        server.close()
        temporary.unlink(missing_ok=True)
        raise


def _answers(path: Path) -> bool:
    """Whether a process listens there. A full backlog counts as an answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as probe:
        try:
            probe.connect(str(path))
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True
