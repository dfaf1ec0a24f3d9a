"""TLS and bearer tokens of the HTTP API over TCP: files that are followed, and a stream above asyncio's.

Loaded where the options name the files: it loads OpenSSL, which a daemon without them does not have in memory. asyncio
has been loaded without it by then, so TLS is spoken here, by ``ssl.SSLObject``, which does no I/O.
"""

import asyncio
import hmac
import re
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from cri_proxy.http.messages import Turn

_MAX_TOKEN_BYTES: Final = 64 << 10
_READ_BYTES: Final = 16 << 10
# RFC 6750, 2.1, and long enough that it cannot be guessed.
_TOKEN: Final = re.compile(rb"[A-Za-z0-9._~+/-]{16,}=*")
_PERIOD_SECONDS: Final = 10.0
_SPEAKS_TLS: Final = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nthis address speaks HTTPS\n"
)


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Where certificate and key are (PEM), and the tokens that are accepted, one in a line; None: none is asked for."""

    certificate: Path
    key: Path
    tokens: Path | None = None

    @classmethod
    def named(cls, certificate: str, key: str, tokens: str) -> Self:
        """Return the files that the options name; ``tokens`` '' = none is asked for."""
        return cls(Path(certificate), Path(key), Path(tokens) if tokens else None)

    def load(self) -> "Secrets":
        """Read them all. Blocks. Raises ValueError that names the file."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            # Without a function OpenSSL asks the terminal for the passphrase of a key that has one.
            context.load_cert_chain(self.certificate, self.key, password=lambda: b"")
        except ssl.SSLError as error:
            raise ValueError(f"{self.certificate} and {self.key}: {_words(error)}") from None
        except OSError as error:
            raise ValueError(f"{self._unreadable()}: {error.strerror}") from None
        return Secrets(context, _tokens(self.tokens) if self.tokens else ())

    def _unreadable(self) -> Path:
        """Return which of the two cannot be opened: Python does not say."""
        try:
            self.certificate.open("rb").close()
        except OSError:
            return self.certificate
        return self.key


@dataclass(frozen=True, slots=True)
class Secrets:
    """The content of the files. No tokens: none is asked for."""

    context: ssl.SSLContext
    tokens: tuple[bytes, ...] = ()

    def admits(self, authorization: str) -> bool:
        """Return whether this ``Authorization`` field has one of the tokens; takes as long for any of that length."""
        scheme, _, token = authorization.partition(" ")
        given = token.strip().encode("latin-1", "replace")
        # A list compares all of them: ``any`` alone would end at the first match, and its time tell which one it was.
        matches = [hmac.compare_digest(given, each) for each in self.tokens]
        return not self.tokens or (scheme.lower() == "bearer" and any(matches))


class TlsGuard:
    """The check that clients on TCP pass first. The files are read again every ten seconds, on a thread.

    Where they cannot be used as they are now, what was read last stays in force. ``on_problem`` is called with why, and
    with '' once they can.
    """

    def __init__(
        self, files: TlsFiles, on_problem: Callable[[str], object], *, period_seconds: float = _PERIOD_SECONDS
    ) -> None:
        """Read nothing yet."""
        self._files, self._on_problem, self._period_seconds = files, on_problem, period_seconds
        self._secrets: Secrets | None = None
        self._problem = ""

    async def load(self) -> str:
        """Read the files; return why they cannot be used, else ''."""
        try:
            self._secrets = await asyncio.to_thread(self._files.load)
        except ValueError as error:
            return str(error)
        return ""

    async def keep_loaded(self) -> None:
        """Read the files again and again, until cancelled."""
        while True:
            await asyncio.sleep(self._period_seconds)
            problem = await self.load()
            if problem != self._problem:
                self._problem = problem
                self._on_problem(problem)

    async def secured(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, turn: Turn) -> "TlsStream":
        """Return the connection of a client that speaks TLS. Raises OSError."""
        if self._secrets is None:
            raise ConnectionAbortedError("no certificate")
        stream = TlsStream(self._secrets.context, reader, writer)
        await stream.handshake(turn)
        return stream

    def admits(self, authorization: str) -> bool:
        """Return whether a request with this ``Authorization`` field ('' = without one) is answered."""
        return self._secrets is not None and self._secrets.admits(authorization)


def _tokens(path: Path) -> tuple[bytes, ...]:
    """Return the tokens in a file, for which no words of it are shown. Raises ValueError."""
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_TOKEN_BYTES + 1)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from None
    if len(text) > _MAX_TOKEN_BYTES:
        raise ValueError(f"{path}: larger than {_MAX_TOKEN_BYTES} bytes")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    wrong = next((i for i, line in enumerate(lines, 1) if not _TOKEN.fullmatch(line)), 0)
    if wrong or not lines:
        which = f"token {wrong}" if wrong else "no token"
        raise ValueError(
            f"{path}: {which}: expected at least 16 letters, digits and -._~+/, as from openssl rand -hex 32"
        )
    return tuple(lines)


def _words(error: ssl.SSLError) -> str:
    """Return what is wrong with certificate and key, for people."""
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the key is not that of the certificate"
    return f"expected PEM without a passphrase ({(error.reason or str(error)).lower().replace('_', ' ')})"


class TlsStream:
    """The server's side of a TLS connection, as the streams that ``Connection`` reads and writes.

    Methods raise OSError, which ssl.SSLError is, where the client is gone or does not speak TLS.
    """

    def __init__(self, context: ssl.SSLContext, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Above these streams; ``handshake`` comes first."""
        self._reader, self._writer = reader, writer
        self._received, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._to_send, server_side=True)

    async def handshake(self, turn: Turn) -> None:
        """Agree on keys. What costs time, a millisecond of arithmetic, is done in a turn of the clients."""
        try:
            while not await self._is_agreed(turn):
                await self.drain()
                await self._receive()
        except ssl.SSLError as error:
            self._pass_on()  # the alert that says why
            if error.reason == "HTTP_REQUEST":
                self._writer.write(_SPEAKS_TLS)
            await self._writer.drain()
            raise
        await self.drain()

    async def _is_agreed(self, turn: Turn) -> bool:
        async with turn():
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                return False
            finally:
                self._pass_on()
        return True

    async def read(self, n: int, /) -> bytes:
        """Return at most ``n`` bytes; b"" once the client has closed its side."""
        while True:
            try:
                return self._tls.read(n)
            except ssl.SSLWantReadError:
                await self._receive()
            except ssl.SSLZeroReturnError:
                return b""

    async def _receive(self) -> None:
        """Wait for more from the client. Raises ConnectionResetError where it closes without the word of TLS for it."""
        data = await self._reader.read(_READ_BYTES)
        if not data:
            raise ConnectionResetError("closed inside TLS")
        self._received.write(data)

    def at_eof(self) -> bool:
        """Return whether the client has closed the connection."""
        return self._reader.at_eof()

    def write(self, data: bytes, /) -> None:
        """Encrypt and send; ``drain`` waits until the client takes it."""
        if data:
            self._tls.write(data)
        self._pass_on()

    def write_eof(self) -> None:
        """Say that nothing follows."""
        with suppress(ssl.SSLError):  # what the client would have to say to that is not waited for
            self._tls.unwrap()
        self._pass_on()

    async def drain(self) -> None:
        """Wait until the client takes what was written."""
        await self._writer.drain()

    def _pass_on(self) -> None:
        if data := self._to_send.read():
            self._writer.write(data)

    def is_closing(self) -> bool:
        """Return whether the connection is being closed."""
        return self._writer.is_closing()

    def get_extra_info(self, name: str, /) -> object:
        """Return what asyncio knows of the socket."""
        found: object = self._writer.get_extra_info(name)
        return found
