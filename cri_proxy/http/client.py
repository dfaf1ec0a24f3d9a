"""Query the daemon over its admin socket, for commands: GET or POST, JSON back. Blocks."""

import contextlib
import http.client
import json
import socket
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode

from cri_proxy.errors import FileError

_SECONDS = 10.0


class DaemonUnreachable(FileError):
    """No daemon answers on this socket, or not as expected."""


def ask(
    path: Path,
    target: str,
    query: Mapping[str, str] | None = None,
    *,
    post: str | None = None,
    seconds: float = _SECONDS,
) -> object:
    """Return the JSON that the daemon answers to GET, or to POST of this text; also with an error status.

    Raises DaemonUnreachable.
    """
    connection = http.client.HTTPConnection("localhost")
    body = None if post is None else post.encode()
    try:
        connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.sock.settimeout(seconds)
        connection.sock.connect(str(path))
        with contextlib.suppress(BrokenPipeError):  # it has answered already, without reading the whole text
            url = f"{target}?{urlencode(query)}" if query else target
            connection.request("GET" if body is None else "POST", url, body)
        response = connection.getresponse()
        text = response.read()
    except FileNotFoundError:
        raise DaemonUnreachable(str(path), "no such socket: is the daemon running? --admin names another") from None
    except ConnectionRefusedError:
        raise DaemonUnreachable(str(path), "no process listens: the daemon has stopped") from None
    except PermissionError:
        raise DaemonUnreachable(str(path), "permission denied: only root may use the admin socket") from None
    except (OSError, http.client.HTTPException) as error:
        raise DaemonUnreachable(str(path), f"the daemon does not answer: {error}") from error
    finally:
        connection.close()
    try:
        plain: object = json.loads(text)
    except ValueError:
        problem = f"answered {response.status}: {text[:80].decode(errors='replace').strip()}"
        raise DaemonUnreachable(str(path), problem) from None
    return plain
