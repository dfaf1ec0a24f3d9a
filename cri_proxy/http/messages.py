"""HTTP/1.1 as far as we speak it: GET and HEAD requests in, responses out (RFC 9112). No I/O."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import parse_qs, unquote, urlsplit

MAX_HEADER_BYTES = 8192
JSON = "application/json; charset=utf-8"
TEXT = "text/plain; charset=utf-8"
METHODS = ("GET", "HEAD")


@dataclass(frozen=True, slots=True)
class Request:
    """A request without its body; ``query`` holds the first value of each name, '' for a name alone."""

    method: str
    path: str
    query: Mapping[str, str]
    keeps_alive: bool
    host: str = ""


@dataclass(frozen=True, slots=True)
class Response:
    """What is answered."""

    status: int
    content_type: str
    body: bytes


@dataclass(eq=False)
class BadRequest(ValueError):
    """A request that is answered with this status."""

    status: int
    problem: str

    def __str__(self) -> str:
        return self.problem


def text_response(status: int, text: str) -> Response:
    """A line of plain text."""
    return Response(status, TEXT, f"{text}\n".encode())


def parse_request(head: bytes) -> Request:
    """Read the request line and the header fields, up to and with the empty line. Raises BadRequest."""
    lines = head.decode("latin-1").split("\r\n")
    parts = lines[0].split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise BadRequest(HTTPStatus.BAD_REQUEST, "expected METHOD TARGET HTTP/1.1")
    method, target, version = parts
    read = [_field(line) for line in lines[1:] if line]
    fields = dict(read)
    if [name for name, _ in read].count("host") > 1:  # RFC 9112, 3.2: two readers must not see two hosts
        raise BadRequest(HTTPStatus.BAD_REQUEST, "expected one Host")
    if method not in METHODS:
        raise BadRequest(HTTPStatus.METHOD_NOT_ALLOWED, f"{method} is not offered: nothing here changes anything")
    if "transfer-encoding" in fields or fields.get("content-length", "0") != "0":
        raise BadRequest(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "a request here has no body")
    try:
        url = urlsplit(target)
        query = {
            name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True, max_num_fields=20).items()
        }
    except ValueError as error:
        raise BadRequest(HTTPStatus.BAD_REQUEST, f"cannot read the target: {error}") from None
    connection = fields.get("connection", "").lower()
    keeps_alive = connection == "keep-alive" if version == "HTTP/1.0" else connection != "close"
    return Request(method, unquote(url.path), query, keeps_alive, fields.get("host", ""))


def _field(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not name or name != name.strip():
        raise BadRequest(HTTPStatus.BAD_REQUEST, "expected header fields as NAME: VALUE")
    return name.lower(), value.strip()


def render_response(response: Response, *, has_body: bool, keeps_alive: bool) -> bytes:
    """The bytes to send; a HEAD request gets the same without the body."""
    try:
        phrase = HTTPStatus(response.status).phrase
    except ValueError:
        phrase = ""
    # RFC 9110, 15.5.6: whoever is refused a method is told those that there are.
    allow = f"Allow: {', '.join(METHODS)}\r\n" if response.status == HTTPStatus.METHOD_NOT_ALLOWED else ""
    head = (
        f"HTTP/1.1 {int(response.status)} {phrase}\r\n"
        f"Content-Type: {response.content_type}\r\n"
        f"Content-Length: {len(response.body)}\r\n"
        f"{allow}"
        "Cache-Control: no-store\r\n"
        "X-Content-Type-Options: nosniff\r\n"
        f"Connection: {'keep-alive' if keeps_alive else 'close'}\r\n\r\n"
    )
    return head.encode("latin-1") + (response.body if has_body else b"")
