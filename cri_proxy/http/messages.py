"""Values of the HTTP API: requests, responses, refusals, handler types; and the check of ``Host``. No I/O."""

import re
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import TypeAlias

from cri_proxy.steps import Steps

JSON = "application/json; charset=utf-8"
TEXT = "text/plain; charset=utf-8"
EVENTS = "text/event-stream"
_HOST = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[^:\[\]@/]+))(?::\d{1,5})?")


Turn: TypeAlias = Callable[[], AbstractAsyncContextManager[None]]
"""Waits for a turn of the event loop's time, as long as others have theirs."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request; ``query`` holds the first value of each name, '' for a name alone.

    ``is_foreign``: the page of another site has a browser send it. ``is_abandoned`` returns whether the client has
    closed its side: a long answer may be left unfinished. ``turn`` is of the share of its clients.
    """

    method: str
    path: str
    query: Mapping[str, str]
    host: str = ""
    body: bytes = b""
    is_foreign: bool = False
    is_abandoned: Callable[[], bool] = field(default=lambda: False, compare=False)
    turn: Turn = field(default=nullcontext, compare=False)


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


Run: TypeAlias = Callable[[Steps[bytes]], Awaitable[bytes]]
"""Runs work step by step within the share of the clients that it is for."""

StreamHandler: TypeAlias = Callable[[Run], AsyncGenerator[bytes, None]]
"""Answers GET with parts as they come (server-sent events); b"" where there is nothing to send yet."""


def text_response(status: int, text: str, allow: tuple[str, ...] = ()) -> Response:
    """Return a line of plain text."""
    return Response(status, TEXT, f"{text}\n".encode(), allow)


def is_foreign(host: str, origin: str, fetch_site: str) -> bool:
    """Return whether a request comes from the page of another site, by its header fields, '' for those that it lacks.

    Browsers send ``Sec-Fetch-Site`` (Fetch Metadata Request Headers, 2.4), older ones ``Origin`` with what may change
    something; other clients send neither.

    >>> is_foreign("127.0.0.1:8891", "http://127.0.0.1:8891", "same-origin"), is_foreign("::1", "null", "")
    (False, True)
    """
    # "none": a person has typed the address, or used a bookmark.
    if fetch_site not in ("", "same-origin", "none"):
        return True
    return bool(origin) and origin.lower() not in (f"http://{host.lower()}", f"https://{host.lower()}")


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
