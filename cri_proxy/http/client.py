"""Asking a running daemon over its admin socket, as the commands do. Blocking."""

import http.client
import json
import socket
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from cri_proxy.errors import CriProxyError

_SECONDS = 10.0


@dataclass(eq=False)
class DaemonUnreachable(CriProxyError):
    """No daemon answers on this socket: why, and the remedy."""

    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


class _Connection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path, seconds: float) -> None:
        super().__init__("localhost", timeout=seconds)
        self._path = path
        self._seconds = seconds

    def connect(self) -> None:
        """Connect to the socket of this path."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self._seconds)
        self.sock.connect(str(self._path))


def ask(path: Path, target: str, query: dict[str, str] | None = None, *, seconds: float = _SECONDS) -> object:
    """The JSON that the daemon answers under this path, a 404 included. Raises DaemonUnreachable."""
    connection = _Connection(path, seconds)
    try:
        connection.request("GET", f"{target}?{urlencode(query)}" if query else target)
        response = connection.getresponse()
        body = response.read()
    except FileNotFoundError:
        raise DaemonUnreachable(str(path), "no such socket: is the daemon running? --admin names another") from None
    except ConnectionRefusedError:
        raise DaemonUnreachable(str(path), "nobody answers: the daemon has stopped") from None
    except PermissionError:
        raise DaemonUnreachable(str(path), "permission denied: only root may ask the daemon") from None
    except (OSError, http.client.HTTPException) as error:
        raise DaemonUnreachable(str(path), f"the daemon does not answer: {error}") from error
    finally:
        connection.close()
    try:
        plain: object = json.loads(body)
    except ValueError:
        raise DaemonUnreachable(
            str(path), f"answered {response.status}: {body[:80].decode(errors='replace')}"
        ) from None
    return plain
