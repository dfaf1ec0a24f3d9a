"""curl as a gRPC client: HTTP/2 by nghttp2, which ends a connection at the first frame that breaks the rules.

Each call is a process and a connection of its own.
"""

import asyncio
import os
import shutil
import subprocess
from functools import cache
from urllib.parse import unquote

import pytest

from cri_proxy.http2.message import pack, unpack_one
from tests.relay.clients import Answer

_HEADERS = ("content-type: application/grpc", "te: trailers", "expect:", "user-agent: grpc-curl/1")
_OWN = ("content-type", "grpc-status", "grpc-message", "grpc-accept-encoding", "grpc-encoding")


@cache
def missing() -> str:
    """What keeps curl from calling; '' when nothing does."""
    if shutil.which("curl") is None:
        return "curl is not installed (apt-get install curl)"
    version = subprocess.run(["curl", "--version"], check=True, capture_output=True, text=True).stdout
    return "" if "nghttp2/" in version else "this curl speaks no HTTP/2 by nghttp2"


class CurlClient:
    """Makes unary calls. Raises AssertionError where curl complains of HTTP/2."""

    def __init__(self, path: str) -> None:
        self._path = path
        if reason := missing():
            (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)

    async def unary(self, method: str, message: bytes) -> Answer:
        command = ["curl", "--silent", "--show-error", "--http2-prior-knowledge", "--unix-socket", self._path]
        command += ["--data-binary", "@-", "--dump-header", "/dev/stderr", "--max-time", "60"]
        command += [word for header in _HEADERS for word in ("--header", header)]
        process = await asyncio.create_subprocess_exec(
            *command, f"http://x{method}", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        body, words = await process.communicate(pack(message))
        assert process.returncode == 0, words.decode()
        initial, _, trailing = words.decode().partition("\r\n\r\n")
        return _answer(initial.splitlines()[1:], trailing.splitlines(), body)

    async def close(self) -> None:
        """Nothing is open between two calls."""


def _answer(initial: list[str], trailing: list[str], body: bytes) -> Answer:
    first, last = _fields(initial), _fields(trailing)
    if not last:  # a reply of trailers only
        first, last = [], first
    status = dict(last)
    replies = (unpack_one(body),) if body else ()
    return Answer(int(status["grpc-status"]), unquote(status.get("grpc-message", "")), replies, _own(first), _own(last))


def _fields(lines: list[str]) -> list[tuple[str, str]]:
    return [(name, value) for name, _, value in (line.partition(": ") for line in lines) if name]


def _own(fields: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(field for field in fields if field[0] not in _OWN))
