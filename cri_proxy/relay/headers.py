"""HTTP/2 header blocks (HPACK, RFC 7541): read passively on their way through, and written as literals.

``HeaderReader`` follows a compression table that belongs to the two ends. It is on the path of every call, so it reads
only what following needs; the static table and the Huffman code are the ``hpack`` library's. What we write ourselves
is stateless: literals that are never indexed, which disturb nobody's table.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import hpack
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

from cri_proxy.relay.frames import ProtocolError

Headers = Mapping[bytes, bytes]
Field = tuple[bytes, bytes]

_STATIC: Final[tuple[Field, ...]] = ((b"", b""), *HeaderTable.STATIC_TABLE)  # by index, from 1
_FIRST_DYNAMIC: Final = len(_STATIC)
_ENTRY_OVERHEAD_BYTES: Final = 32  # RFC 7541, 4.1
_MAX_TABLE_BYTES: Final = 1 << 20  # the receiver announces a limit and checks it; this one only protects us
_MAX_INTEGER_BYTES: Final = 5
_REMEMBERED_STRINGS: Final = 512
_MOST_BYTES_PER_CHARACTER: Final = 4  # of the Huffman code: its longest is 30 bits (RFC 7541, appendix B)

_Entry = tuple[bytes, bytes | None, int]
"""A field of the compression table: name, value (None: not wanted), and what it takes of the table at least."""


class HeaderReader:
    """Decodes every header block of one direction, in order."""

    def __init__(self, table_bytes: int = 4096, *, names: frozenset[bytes] | None = None) -> None:
        """The table starts at the 4096 bytes of RFC 9113, or at 0; later sizes come in the blocks themselves.

        ``names``: the fields whose values are wanted (None: all). Other values are stepped over: a grpc-timeout is new
        in every call, and its Huffman code would be most of the work.
        """
        self._names = names
        self._table: list[_Entry] = []  # the newest last
        self._size_bytes = 0
        self._max_bytes = table_bytes
        self._huffman: dict[bytes, bytes] = {}

    def read(self, block: bytes) -> Headers:
        """Header fields by name; of repeated ones the last. Those not wanted may be missing. Raises ProtocolError.

        Written out for indexes of one and two bytes, which is what nearly every field of a gRPC call is.
        """
        found: dict[bytes, bytes] = {}
        table = self._table
        position, end = 0, len(block)
        try:
            while position < end:
                byte = block[position]
                if byte > 0x80:  # indexed (6.1)
                    position += 1
                    if byte != 0xFF:
                        index = byte & 0x7F
                    elif block[position] < 0x80:
                        index = 0x7F + block[position]
                        position += 1
                    else:
                        index, position = _read_integer(block, position - 1, 0x7F)
                    entry = _STATIC[index] if index < _FIRST_DYNAMIC else table[_FIRST_DYNAMIC - 1 - index]
                    value = entry[1]
                    if value is not None:
                        found[entry[0]] = value
                elif 0x20 <= byte < 0x40:  # table size (6.3)
                    size, position = _read_integer(block, position, 0x1F)
                    self._resize(size)
                else:
                    name, value, position = self._literal(block, position, byte)
                    if value is not None:
                        found[name] = value
        except IndexError as error:
            raise ProtocolError("a header block ends early, or names an entry that is not there") from error
        return found

    def _literal(self, block: bytes, position: int, byte: int) -> tuple[bytes, bytes | None, int]:
        enters = byte & 0x40  # the table (6.2.1), or does not, now or ever (6.2.2, 6.2.3)
        if byte == 0x80:
            raise ProtocolError("a header field of index 0")
        mask = 0x3F if enters else 0x0F
        index = byte & mask
        if index == mask:
            index, position = _read_integer(block, position, mask)
        else:
            position += 1
        if index:
            name = _STATIC[index][0] if index < _FIRST_DYNAMIC else self._table[_FIRST_DYNAMIC - 1 - index][0]
        else:
            name, position = self._string(block, position)
        value: bytes | None = None
        if self._names is None or name in self._names:
            value, position = self._string(block, position)
            length = len(value)
        else:
            length, position = _step_over_string(block, position)
        if enters:
            self._insert(name, value, len(name) + length + _ENTRY_OVERHEAD_BYTES)
        return name, value, position

    def _string(self, block: bytes, position: int) -> tuple[bytes, int]:
        encoded = block[position] & 0x80
        length, position = _read_integer(block, position, 0x7F)
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

    def _insert(self, name: bytes, value: bytes | None, size: int) -> None:
        room_bytes = self._max_bytes - size
        if self._size_bytes > room_bytes:
            self._evict(room_bytes)
        if room_bytes >= 0:
            self._table.append((name, value, size))
            self._size_bytes += size

    def _resize(self, size: int) -> None:
        if size > _MAX_TABLE_BYTES:
            raise ProtocolError(f"a compression table of {size} bytes")
        self._max_bytes = size
        self._evict(size)

    def _evict(self, room_bytes: int) -> None:
        """Forget the oldest, but none that its encoder may still name: sizes here are never above the true ones."""
        while self._table and self._size_bytes > room_bytes:
            self._size_bytes -= self._table.pop(0)[2]


def _step_over_string(block: bytes, position: int) -> tuple[int, int]:
    """The least length that the string here can have when decoded, and the position after it."""
    first = block[position]
    length = first & 0x7F
    position += 1
    if length == 0x7F:
        length, position = _read_integer(block, position - 1, 0x7F)
    after = position + length
    if after > len(block):
        raise ProtocolError("a header block ends early")
    return (length // _MOST_BYTES_PER_CHARACTER if first & 0x80 else length), after


def _short_codes() -> tuple[tuple[int, int] | None, ...]:
    """For every byte the symbol whose Huffman code it begins with, and the code's bits; None if longer than a byte."""
    short: list[tuple[int, int] | None] = [None] * 256
    for symbol, (code, bits) in enumerate(zip(REQUEST_CODES, REQUEST_CODES_LENGTH, strict=True)):
        if bits <= 8:
            first = code << (8 - bits)
            short[first : first + (1 << (8 - bits))] = [(symbol, bits)] * (1 << (8 - bits))
    return tuple(short)


_SHORT: Final = _short_codes()


def _decode_short(raw: bytes) -> bytes | None:
    """Huffman-decode a string of common characters, such as a grpc-timeout; None if there is another, or damage."""
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


def _read_integer(block: bytes, position: int, mask: int) -> tuple[int, int]:
    """An integer whose prefix is under this mask, and the position after it (5.1)."""
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
    """A string literal without Huffman coding (RFC 7541, 5.2)."""
    return _integer(len(raw), 7) + raw


def _integer(number: int, prefix_bits: int) -> bytes:
    """An integer with this prefix, its other bits 0 (RFC 7541, 5.1)."""
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
    """A header block of literals that are never indexed (RFC 7541, 6.2.3): it changes no table."""
    return b"".join(b"\x10" + _string(name) + _string(value) for name, value in fields)
