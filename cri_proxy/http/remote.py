"""Query daemons of other nodes over HTTPS, for commands: GET, JSON back, each within a time. Blocks."""

import http.client
import json
import socket
import ssl
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Generic, TypeVar
from urllib.parse import urlencode, urlsplit

from cri_proxy.clock import steady_seconds
from cri_proxy.errors import CommandFailed
from cri_proxy.foreign_text import admit
from cri_proxy.http.client import DaemonUnreachable
from cri_proxy.http.messages import is_loopback

DEFAULT_PORT: Final = 8891
AT_ONCE: Final = 32
_MAX_ANSWER_BYTES: Final = 64 << 20
_MAX_TOKEN_BYTES: Final = 64 << 10
_READ_BYTES: Final = 64 << 10
# X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH of OpenSSL.
_OTHER_NAME: Final = (62, 64)
_AUTHORITY: Final = "--ca-file names its authority"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DaemonUrl:
    """Where a daemon answers; a name without dots or an address, as the certificate has it."""

    is_https: bool
    host: str
    port: int = DEFAULT_PORT

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.is_https else 'http'}://{host}:{self.port}"


def read_url(text: str) -> DaemonUrl:
    """Return the daemon of https://HOST[:PORT], or of http:// on loopback. Raises ValueError.

    >>> str(read_url("https://worker-1"))
    'https://worker-1:8891'
    """
    try:
        url = urlsplit(text)
        port = DEFAULT_PORT if url.port is None else url.port
    except ValueError:
        raise ValueError(f"expected https://HOST[:PORT], got {text!r}") from None
    is_bare = url.path in ("", "/") and not (url.query or url.fragment or "@" in url.netloc)
    if url.scheme not in ("http", "https") or not url.hostname or not port or not is_bare:
        raise ValueError(f"expected https://HOST[:PORT], got {text!r}")
    if url.scheme == "http" and url.hostname != "localhost" and not is_loopback(url.hostname):
        raise ValueError(
            f"{text}: over plain HTTP to another machine all can be read and forged on its way: set httpTLS in the "
            f"daemon's configuration and use https://, or ssh -L 8891:127.0.0.1:{port} {url.hostname} and "
            "http://127.0.0.1:8891"
        )
    return DaemonUrl(url.scheme == "https", url.hostname, port)


class RemoteDaemons:
    """Asks daemons, with one authority and one token for all of them."""

    def __init__(self, *, ca_file: Path | None = None, token_file: Path | None = None, seconds: float) -> None:
        """Trust the authorities in ``ca_file``, else the system's. Raises CommandFailed for a file it cannot use."""
        try:
            self._context = ssl.create_default_context(cafile=ca_file)
        except OSError as error:  # ssl.SSLError too
            raise CommandFailed(f"{ca_file}: expected certificates in PEM: {error.strerror or error}", 2) from error
        self._token = _token(token_file) if token_file else ""
        self.seconds = seconds

    def ask(self, url: DaemonUrl, target: str, query: Mapping[str, str] | None = None) -> object:
        """Return the JSON that the daemon answers to GET, also with an error status. Raises DaemonUnreachable.

        The token goes to HTTPS alone. No redirection is followed, and no proxy of the environment is used.
        """
        deadline = steady_seconds() + self.seconds
        headers = {"Authorization": f"Bearer {self._token}"} if self._token and url.is_https else {}
        try:
            with closing(self._connection(url)) as connection:
                connection.connect()
                limit = partial(_limit, connection.sock, deadline)
                limit()
                connection.request("GET", f"{target}?{urlencode(query)}" if query else target, headers=headers)
                response = connection.getresponse()
                text = b"".join(_parts(response, limit))
        except ssl.SSLCertVerificationError as error:
            remedy = "ask by a name or address that it has" if error.verify_code in _OTHER_NAME else _AUTHORITY
            problem = f"its certificate is not trusted: {error.verify_message}; {remedy}"
            raise DaemonUnreachable(str(url), admit(problem)) from error
        except ssl.SSLError as error:
            problem = f"no HTTPS there: {error.reason or error}: is httpTLS set in its configuration?"
            raise DaemonUnreachable(str(url), admit(problem)) from error
        except TimeoutError as error:
            raise DaemonUnreachable(str(url), f"no answer within {self.seconds:g} s") from error
        except (OSError, http.client.HTTPException) as error:
            words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise DaemonUnreachable(str(url), admit(f"does not answer: {words}")) from error
        if response.status == http.HTTPStatus.UNAUTHORIZED:
            said = "does not accept this token" if headers else "asks for a token: --token-file names it"
            raise DaemonUnreachable(str(url), said)
        try:
            plain: object = json.loads(text)
        except ValueError:
            words = text[:80].decode(errors="replace").strip()
            raise DaemonUnreachable(str(url), admit(f"answered {response.status}: {words}")) from None
        return plain

    def _connection(self, url: DaemonUrl) -> http.client.HTTPConnection:
        if not url.is_https:
            return http.client.HTTPConnection(url.host, url.port, timeout=self.seconds)
        return http.client.HTTPSConnection(url.host, url.port, timeout=self.seconds, context=self._context)


def _limit(sock: socket.socket, deadline: float) -> None:
    """Let no later step of this socket wait beyond the deadline. Raises TimeoutError where it has passed."""
    left_seconds = deadline - steady_seconds()
    if left_seconds <= 0:
        raise TimeoutError
    sock.settimeout(left_seconds)


def _parts(response: http.client.HTTPResponse, limit: Callable[[], None]) -> Iterator[bytes]:
    """Yield the body. Raises TimeoutError at the deadline, however little comes at a time."""
    size_bytes = 0
    while not response.isclosed():  # later Pythons close it, and the socket, with the last part
        limit()
        # read1 returns what has come, however little: each may wait for less.
        part = response.read1(_READ_BYTES)
        if not part:
            return
        size_bytes += len(part)
        if size_bytes > _MAX_ANSWER_BYTES:
            raise http.client.HTTPException(f"an answer of more than {_MAX_ANSWER_BYTES} bytes")
        yield part


def _token(path: Path) -> str:
    """Return the first line of a file; no word of it is shown. Raises CommandFailed."""
    try:
        with path.open("rb") as file:
            lines = file.read(_MAX_TOKEN_BYTES).split()
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror}", 2) from error
    if not lines or not lines[0].isascii():
        raise CommandFailed(f"{path}: expected a token in the first line", 2)
    return lines[0].decode()


@dataclass(frozen=True, slots=True)
class Answered(Generic[T]):
    """The outcome of one of several calls: a result, or why there is none."""

    result: T | None
    problem: str = ""


def ask_all(calls: Sequence[Callable[[], T]], *, seconds: float) -> list[Answered[T]]:
    """Return the outcome of each call, in their order; so many at a time, and none is waited for longer.

    ``seconds`` is what one takes at most to connect to an address, and from beginning to end where that is the only
    one. One that takes more than twice as long, as where a name server hangs, is left behind. The calls raise
    DaemonUnreachable.
    """
    waiting, outcomes = deque(enumerate(calls)), dict[int, Answered[T]]()
    done = threading.Semaphore(0)

    def work() -> None:
        while waiting:
            try:
                i, call = waiting.popleft()
            except IndexError:  # another thread has taken the last
                return
            try:
                outcomes[i] = Answered(call())
            except DaemonUnreachable as error:
                outcomes[i] = Answered(None, error.problem)
            done.release()

    # Twice: of a name with an IPv6 and an IPv4 address the second is tried once the first was, in vain, for so long;
    # and of a daemon that is late its own call tells why, before it counts as left behind here.
    deadline = steady_seconds() + 2 * seconds * (1 + (len(calls) - 1) // AT_ONCE)
    for _ in range(min(AT_ONCE, len(calls))):
        # daemon: at its end the interpreter would join a thread that hangs in a name server.
        threading.Thread(target=work, daemon=True).start()
    for _ in calls:
        if not done.acquire(timeout=max(0.0, deadline - steady_seconds())):
            break
    late: Answered[T] = Answered(None, "no answer in time: does its name resolve?")
    return [outcomes.get(i, late) for i in range(len(calls))]
