"""gRPC status: codes, those that leave the outcome unknown, percent-coded messages, reading a reply's trailers."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final
from urllib.parse import unquote_to_bytes

from cri_proxy.foreign_text import admit


class Code(IntEnum):
    """Status numbers (grpc/doc/statuscodes.md)."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


@dataclass(frozen=True, slots=True)
class Failed:
    """A status other than OK, as the runtime answered it; ``message`` is what ``admit`` leaves of its words.

    The caller gets the runtime's own frames: this is for what the proxy records.
    """

    code: int
    message: str

    def __post_init__(self) -> None:
        """Cut and clean the runtime's words, however this was built."""
        object.__setattr__(self, "message", admit(self.message))


TRAILER_FIELDS: Final = frozenset({b":status", b"grpc-status", b"grpc-message"})
"""The fields that ``from_trailers`` reads."""

MESSAGE_BYTES: Final = 4096
"""A longer message is cut: enough to say what failed, and containerd repeats a request's names, of any length."""

UNKNOWN_OUTCOME: Final = frozenset({Code.CANCELLED, Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE})
"""Statuses that do not say what the runtime did: such a call may have taken effect."""

# grpc/doc/http-grpc-status-mapping.md: only for replies without a grpc-status.
_FROM_HTTP: Final[Mapping[bytes, Code]] = {
    b"400": Code.INTERNAL,
    b"401": Code.UNAUTHENTICATED,
    b"403": Code.PERMISSION_DENIED,
    b"404": Code.UNIMPLEMENTED,
    b"429": Code.UNAVAILABLE,
    b"502": Code.UNAVAILABLE,
    b"503": Code.UNAVAILABLE,
    b"504": Code.UNAVAILABLE,
}


def encode_message(message: str) -> bytes:
    """Percent-encode a status message (PROTOCOL-HTTP2.md: all but 0x20-0x7E without '%').

    >>> encode_message("50% of café")
    b'50%25 of caf%C3%A9'
    """
    raw = message.encode("utf-8", "replace")
    return b"".join(bytes((byte,)) if 0x20 <= byte <= 0x7E and byte != 0x25 else b"%%%02X" % byte for byte in raw)


def decode_message(raw: bytes) -> str:
    """Decode the beginning of a status message; bytes that are not UTF-8 become replacement characters.

    >>> decode_message(b"caf%C3%A9 100%")
    'café 100%'
    """
    if len(raw) < MESSAGE_BYTES:
        return unquote_to_bytes(raw).decode("utf-8", "replace")
    kept = raw[:MESSAGE_BYTES]
    escape = kept.rfind(b"%", -2)  # an escape that the cut has split
    if escape >= 0:
        kept = kept[:escape]
    # Likewise a character.
    return unquote_to_bytes(kept).decode("utf-8", "replace").rstrip("\ufffd")


def from_trailers(headers: Mapping[bytes, bytes]) -> Failed | None:
    """Return the status that ends a call: None for OK, else its code and message."""
    raw = headers.get(b"grpc-status")
    if raw is None:
        http = headers.get(b":status", b"")
        code = _FROM_HTTP.get(http, Code.UNKNOWN)
        return Failed(code, f"reply without grpc-status, HTTP status {http.decode('ascii', 'replace') or 'missing'}")
    # A peer may send any number of digits; ``int`` raises beyond 4300 of them.
    number = int(raw) if raw.isdigit() and len(raw) < 10 else int(Code.UNKNOWN)
    if not number:
        return None
    words = headers.get(b"grpc-message", b"")
    return Failed(number, admit(decode_message(words), goes_on=len(words) >= MESSAGE_BYTES))
