"""Values of the HTTP API: requests, responses, refusals, handler types; and the check of ``Host``. No I/O."""

import re
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias

from cri_proxy.steps import Steps

JSON = "application/json; charset=utf-8"
TEXT = "text/plain; charset=utf-8"
_HOST = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[^:\[\]@/]+))(?::\d{1,5})?")


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request; ``query`` holds the first value of each name, '' for a name alone.

    ``is_abandoned`` returns whether the client has closed its side: a long answer may be left unfinished.
    """

    method: str
    path: str
    query: Mapping[str, str]
    host: str = ""
    body: bytes = b""
    is_abandoned: Callable[[], bool] = field(default=lambda: False, compare=False)


@dataclass(frozen=True, slots=True)
class Response:
    """A whole response; ``allow`` lists the methods that a 405 must name (RFC 9110, 15.5.6)."""

    status: int
    content_type: str
    body: bytes
    allow: tuple[str, ...] = ()


Query: TypeAlias = Mapping[str, str]

Handler: TypeAlias = Callable[[Query], Response | Steps[Response]]
"""Answers GET and HEAD: at once, or step by step where that would keep the event loop busy for long."""

PostHandler: TypeAlias = Callable[[HttpRequest], Awaitable[Response | Steps[Response]]]
"""Answers POST; may wait, and then write the answer step by step as a ``Handler`` does."""


@dataclass(eq=False)
class BadRequest(ValueError):
    """A request that is refused with this status; its connection is closed."""

    status: int
    problem: str
    allow: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.problem


def text_response(status: int, text: str, allow: tuple[str, ...] = ()) -> Response:
    """Return a line of plain text."""
    return Response(status, TEXT, f"{text}\n".encode(), allow)


def is_loopback(address: str) -> bool:
    """Return whether this is a numeric address of the loopback interface."""
    packed = _packed(address)
    return packed[:1] == b"\x7f" if len(packed) == 4 else packed == b"\0" * 15 + b"\1"


def _packed(address: str) -> bytes:
    """Return the bytes of a numeric address; b"" for another text."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with suppress(OSError, ValueError):
            return socket.inet_pton(family, address.partition("%")[0])
    return b""


def names_this_machine(host: str) -> bool:
    """Return whether a ``Host`` field is a numeric address or ``localhost``, with or without a port, or absent ('').

    A page elsewhere can have its name resolve to 127.0.0.1 (DNS rebinding): the browser's requests then come from this
    node, but ``Host`` has the page's name.

    >>> [names_this_machine(host) for host in ("127.0.0.1:8891", "[::1]", "localhost:8891", "page.example:8891")]
    [True, True, True, False]
    """
    if not host:  # HTTP/1.0; browsers always send it
        return True
    match = _HOST.fullmatch(host)
    if match is None:
        return False
    name = match["six"] or match["name"].lower().removesuffix(".")
    return name == "localhost" or bool(_packed(name))
