"""HTTP/2 header blocks (HPACK, RFC 7541): read blocks in transit, and write literals.

``HeaderReader`` follows a compression table that belongs to the two ends; ``fields.py`` does so for a few fields at
less cost. The static table and the Huffman code are the ``hpack`` library's. Blocks that we write are literals that
are never indexed, so they change no table.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final

import hpack
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

from cri_proxy.http2.frames import ProtocolError

Headers = Mapping[bytes, bytes]
Field = tuple[bytes, bytes]

STATIC: Final[tuple[Field, ...]] = ((b"", b""), *HeaderTable.STATIC_TABLE)  # by index, from 1
FIRST_DYNAMIC: Final = len(STATIC)
ENTRY_OVERHEAD_BYTES: Final = 32  # RFC 7541, 4.1
DEFAULT_TABLE_BYTES: Final = 4096  # RFC 9113, 6.5.2
NO_TABLE: Final = b"\x20"
"""Begins a header block after which the compression table has no room (RFC 7541, 6.3)."""
_MAX_TABLE_BYTES: Final = 1 << 20  # the receiver announces and checks its limit; this one bounds our memory
_MAX_INTEGER_BYTES: Final = 5
_REMEMBERED_STRINGS: Final = 512


class StringReader:
    """Read string literals (5.2), with a cache of Huffman-coded ones: names and paths repeat."""

    def __init__(self) -> None:
        """Start with an empty cache."""
        self._huffman: dict[bytes, bytes] = {}

    def read(self, block: bytes, position: int) -> tuple[bytes, int]:
        """Return the string at this position and the position after it. Raises ProtocolError, IndexError at the end."""
        encoded = block[position] & 0x80
        length, position = read_integer(block, position, 0x7F)
        after = position + length
        if after > len(block):
            raise ProtocolError("a header block ends early")
        raw = block[position:after]
        if not encoded:
            return raw, after
        plain = self._huffman.get(raw)
        return (self._decode(raw) if plain is None else plain), after

    def _decode(self, raw: bytes) -> bytes:
        try:
            plain = _decode_short(raw) or bytes(decode_huffman(raw))
        except hpack.HPACKError as error:
            raise ProtocolError(f"header block: {error}") from error
        if len(self._huffman) >= _REMEMBERED_STRINGS:
            self._huffman.clear()
        self._huffman[raw] = plain
        return plain


class HeaderReader:
    """Decode every header block of one direction, in order."""

    def __init__(self, table_bytes: int = DEFAULT_TABLE_BYTES) -> None:
        """Start with a table of the 4096 bytes of RFC 9113, or of 0; later sizes come in the blocks themselves."""
        self._table: deque[Field] = deque()  # the newest last
        self._size_bytes = 0
        self._max_bytes = table_bytes
        self._string = StringReader().read

    def read(self, block: bytes) -> Headers:
        """Return header fields by name; of repeated ones the last. Raises ProtocolError."""
        found: dict[bytes, bytes] = {}
        table = self._table
        position, end = 0, len(block)
        try:
            while position < end:
                byte = block[position]
                if byte > 0x80:  # indexed (6.1)
                    index, position = read_integer(block, position, 0x7F)
                    name, value = STATIC[index] if index < FIRST_DYNAMIC else table[FIRST_DYNAMIC - 1 - index]
                    found[name] = value
                elif 0x20 <= byte < 0x40:  # table size (6.3)
                    size, position = read_integer(block, position, 0x1F)
                    self._resize(size)
                else:
                    name, value, position = self._literal(block, position, byte)
                    found[name] = value
        except IndexError as error:
            raise ProtocolError("a header block ends early, or names an entry that is not there") from error
        return found

    def _literal(self, block: bytes, position: int, byte: int) -> tuple[bytes, bytes, int]:
        enters = byte & 0x40  # the table (6.2.1), or does not, now or ever (6.2.2, 6.2.3)
        if byte == 0x80:
            raise ProtocolError("a header field of index 0")
        index, position = read_integer(block, position, 0x3F if enters else 0x0F)
        if index:
            name = STATIC[index][0] if index < FIRST_DYNAMIC else self._table[FIRST_DYNAMIC - 1 - index][0]
        else:
            name, position = self._string(block, position)
        value, position = self._string(block, position)
        if enters:
            self._insert(name, value)
        return name, value, position

    def _insert(self, name: bytes, value: bytes) -> None:
        size = len(name) + len(value) + ENTRY_OVERHEAD_BYTES
        self._evict(self._max_bytes - size)
        if size <= self._max_bytes:
            self._table.append((name, value))
            self._size_bytes += size

    def _resize(self, size: int) -> None:
        self._max_bytes = check_table_bytes(size)
        self._evict(size)

    def _evict(self, room_bytes: int) -> None:
        while self._table and self._size_bytes > room_bytes:
            name, value = self._table.popleft()
            self._size_bytes -= len(name) + len(value) + ENTRY_OVERHEAD_BYTES


def check_table_bytes(size: int) -> int:
    """Return a table's new size (6.3). Raises ProtocolError when it is beyond our bound."""
    if size > _MAX_TABLE_BYTES:
        raise ProtocolError(f"a compression table of {size} bytes")
    return size


def _short_codes() -> tuple[tuple[int, int] | None, ...]:
    """Return for every byte the symbol whose Huffman code it begins with, and its bits; None = longer than a byte."""
    short: list[tuple[int, int] | None] = [None] * 256
    for symbol, (code, bits) in enumerate(zip(REQUEST_CODES, REQUEST_CODES_LENGTH, strict=True)):
        if bits <= 8:
            first = code << (8 - bits)
            short[first : first + (1 << (8 - bits))] = [(symbol, bits)] * (1 << (8 - bits))
    return tuple(short)


_SHORT: Final = _short_codes()


def _decode_short(raw: bytes) -> bytes | None:
    """Huffman-decode a string of common characters, such as a grpc-timeout; None for others and damaged strings."""
    bits = int.from_bytes(raw, "big") << 8 | 0xFF
    left = len(raw) * 8
    plain = bytearray()
    while left > 0:
        code = _SHORT[bits >> left & 0xFF]
        if code is None or code[1] > left:  # the end is padded with ones, less than a byte (5.2)
            return bytes(plain) if left < 8 and bits >> left & 0xFF == 0xFF else None
        plain.append(code[0])
        left -= code[1]
    return bytes(plain)


def read_integer(block: bytes, position: int, mask: int) -> tuple[int, int]:
    """Return the integer with this prefix mask, and the position after it (5.1). Raises as ``StringReader.read``."""
    number = block[position] & mask
    position += 1
    if number < mask:
        return number, position
    for shift in range(0, 7 * _MAX_INTEGER_BYTES, 7):
        byte = block[position]
        position += 1
        number += (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
    raise ProtocolError("an integer without an end in a header block")


def _string(raw: bytes) -> bytes:
    """Return a string literal without Huffman coding (RFC 7541, 5.2)."""
    return _integer(len(raw), 7) + raw


def _integer(number: int, prefix_bits: int) -> bytes:
    """Return an integer with this prefix, its other bits 0 (RFC 7541, 5.1)."""
    limit = (1 << prefix_bits) - 1
    if number < limit:
        return bytes((number,))
    out = bytearray((limit,))
    number -= limit
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def write_literals(fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return a header block of never-indexed literals (RFC 7541, 6.2.3): it changes no table."""
    return b"".join(b"\x10" + _string(name) + _string(value) for name, value in fields)
