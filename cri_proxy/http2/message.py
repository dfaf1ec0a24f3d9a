"""Pack and unpack gRPC messages in HTTP/2 DATA: the five-byte prefix, decompression and the size limit."""

import zlib
from dataclasses import dataclass
from typing import Final

from cri_proxy.errors import CriProxyError
from cri_proxy.http2.status import Code

PREFIX_BYTES: Final = 5
MAX_MESSAGE_BYTES: Final = 16 * 1024 * 1024
"""The bound of containerd and the kubelet: 16 MiB (k8s.io/cri-client, containerd defaults)."""

SLACK_BYTES: Final = 64 * 1024
"""Held above that bound, so that the runtime itself refuses what is just too large."""

# As zlib counts: 16 more for gzip's header and end; "deflate" is zlib's own format (RFC 9110, 8.4.1.2).
_WINDOW_BITS: Final = {b"gzip": 31, b"deflate": 15}


@dataclass(eq=False)
class MessageError(CriProxyError):
    """A body is not exactly one readable message: the status to refuse it with, and why."""

    code: Code
    problem: str


def pack(message: bytes) -> bytes:
    r"""Return the message behind the prefix of an uncompressed one.

    >>> pack(b"abc")
    b'\x00\x00\x00\x00\x03abc'
    """
    return b"\0" + len(message).to_bytes(4, "big") + message


def unpack_one(body: bytes, encoding: bytes = b"") -> bytes:
    """Return the single message of a unary call, decompressed with its grpc-encoding when flagged.

    Raises MessageError: INTERNAL when it is not exactly one message, UNIMPLEMENTED for an encoding that we cannot
    read, RESOURCE_EXHAUSTED when it would grow beyond the bound.
    """
    if len(body) < PREFIX_BYTES or len(body) - PREFIX_BYTES != int.from_bytes(body[1:PREFIX_BYTES], "big"):
        raise MessageError(Code.INTERNAL, f"expected exactly one gRPC message, got {len(body)} bytes that are not")
    message = body[PREFIX_BYTES:]
    if body[0] == 0:
        return message
    bits = _WINDOW_BITS.get(encoding)
    if bits is None:
        name = encoding.decode("ascii", "replace") or "identity"
        problem = f"cannot read a message compressed with {name}; use gzip, deflate or none"
        raise MessageError(Code.UNIMPLEMENTED, problem)
    inflator = zlib.decompressobj(bits)
    try:
        # At most this much is made of it: a few kilobytes may hold a gigabyte.
        plain = inflator.decompress(message, MAX_MESSAGE_BYTES + SLACK_BYTES)
    except zlib.error as error:
        raise MessageError(Code.INTERNAL, f"compressed message is damaged: {error}") from error
    if inflator.unconsumed_tail:
        raise MessageError(Code.RESOURCE_EXHAUSTED, f"message grows beyond {MAX_MESSAGE_BYTES} bytes")
    if not inflator.eof:
        raise MessageError(Code.INTERNAL, "compressed message ends early")
    # Go's gzip reader takes a second member for more of the message: it would act on another than was read here.
    if inflator.unused_data:
        raise MessageError(Code.INTERNAL, f"compressed message is followed by {len(inflator.unused_data)} bytes")
    return plain
