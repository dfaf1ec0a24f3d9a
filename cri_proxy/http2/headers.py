"""HPACK header blocks (RFC 7541): read all fields with the hpack library, or a few with our decoder; write literals.

Reading follows a compression table that belongs to the two ends. Blocks that we write are literals that are never
indexed, so they change no table.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import hpack
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

from cri_proxy.http2.frames import ProtocolError

Headers = Mapping[bytes, bytes]
_Field = tuple[bytes, bytes]

_STATIC: Final[tuple[_Field, ...]] = ((b"", b""), *HeaderTable.STATIC_TABLE)  # by index, from 1
_FIRST_DYNAMIC: Final = len(_STATIC)
_ENTRY_OVERHEAD_BYTES: Final = 32  # RFC 7541, 4.1
DEFAULT_TABLE_BYTES: Final = 4096  # RFC 9113, 6.5.2
NO_TABLE: Final = b"\x20"
"""Begins a header block after which the compression table has no room (RFC 7541, 6.3)."""
_MAX_TABLE_BYTES: Final = 1 << 20  # the receiver announces and checks its limit; this one bounds our memory
_MAX_LIST_BYTES: Final = 1 << 20
_MAX_INTEGER_BYTES: Final = 5
_REMEMBERED_STRINGS: Final = 512
_NUMBERS_BEGIN: Final = 1 << 40
"""Above every index of the static table."""


class HeaderReader:
    """Decode every header block of one direction, in order, with the ``hpack`` library."""

    def __init__(self, table_bytes: int = DEFAULT_TABLE_BYTES) -> None:
        """Start with a table of the 4096 bytes of RFC 9113, or of 0; later sizes come in the blocks themselves."""
        self._decoder = hpack.Decoder(max_header_list_size=_MAX_LIST_BYTES)
        self._decoder.max_allowed_table_size = _MAX_TABLE_BYTES
        self._decoder.header_table_size = table_bytes

    def read(self, block: bytes) -> Headers:
        """Return header fields by name; of repeated ones the last. Raises ProtocolError."""
        try:
            return {bytes(name): bytes(value) for name, value in self._decoder.decode(block, raw=True)}
        except (hpack.HPACKError, IndexError) as error:
            raise ProtocolError(f"header block: {error}") from error


# This runs for every call. An encoder names an entry by its distance from the newest, so entries are kept by number;
# entries that are not wanted are not kept. An encoder never names an entry that it has evicted, so sizes are not
# counted. Values that are not wanted are not decoded: a grpc-timeout is new in every call, and its Huffman code would
# be most of the work.
class FieldReader:
    """Find the fields of these names in every header block of one direction, in order, at the least cost.

    An index beyond the table is a decoding error (RFC 7541, 2.3.3) that this reader does not detect: it keeps no whole
    table, so such an entry looks like one that is not wanted. The runtime gets the same bytes, acts on none of them and
    closes the connection.
    """

    def __init__(self, names: frozenset[bytes], table_bytes: int = 4096) -> None:
        """Start with a table of the 4096 bytes of RFC 9113; later sizes come in the blocks themselves."""
        self._names = names
        self._table_bytes = table_bytes
        self._beyond = _beyond(table_bytes)
        self._huffman: dict[bytes, bytes] = {}  # decoded strings: names and paths repeat
        self._next = _NUMBERS_BEGIN  # what index 0 would be: the newest is _FIRST_DYNAMIC below
        # By number, the oldest first, after the static ones by index.
        self._entries: dict[int, _Field] = {index: field for index, field in enumerate(_STATIC) if field[0] in names}

    def read(self, block: bytes) -> Headers:
        """Return the wanted fields of a block; of repeated ones the last. Raises ProtocolError."""
        # Indexes of one and two bytes are read inline: nearly every field of a gRPC call has such a one.
        found: dict[bytes, bytes] = {}
        entry_of, begin = self._entries.get, self._next
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
                    entry = entry_of(index if index < _FIRST_DYNAMIC else begin - index)
                    if entry is not None:
                        found[entry[0]] = entry[1]
                    elif index >= self._beyond:
                        raise ProtocolError(f"entry {index} of a compression table of size 0")
                elif 0x20 <= byte < 0x40:  # table size (6.3)
                    size, position = _read_integer(block, position, 0x1F)
                    if size > _MAX_TABLE_BYTES:
                        raise ProtocolError(f"a compression table of {size} bytes")
                    self._table_bytes, self._beyond = size, _beyond(size)
                    self._forget_old()
                else:
                    position = self._literal(block, position, byte, found)
                    begin = self._next
        except IndexError as error:
            raise ProtocolError("a header block ends early") from error
        return found

    def _literal(self, block: bytes, position: int, byte: int, found: dict[bytes, bytes]) -> int:
        enters = byte & 0x40  # the table (6.2.1), or does not, now or ever (6.2.2, 6.2.3)
        if byte == 0x80:
            raise ProtocolError("a header field of index 0")
        mask = 0x3F if enters else 0x0F
        index = byte & mask
        position += 1
        if index == mask:
            index, position = _read_integer(block, position - 1, mask)
        if index:
            entry = self._entries.get(index if index < _FIRST_DYNAMIC else self._next - index)
            if entry is None and index >= self._beyond:
                raise ProtocolError(f"entry {index} of a compression table of size 0")
            name = entry[0] if entry is not None else None
        else:
            name, position = self._string(block, position)
        if enters:
            self._next += 1
        if name is None or name not in self._names:
            return _after_string(block, position)
        value, position = self._string(block, position)
        found[name] = value
        if enters and len(name) + len(value) + _ENTRY_OVERHEAD_BYTES <= self._table_bytes:
            self._entries[self._next - _FIRST_DYNAMIC] = (name, value)
            self._forget_old()
        return position

    def _string(self, block: bytes, position: int) -> tuple[bytes, int]:
        """Return the string literal (5.2) there, and its end. Raises ProtocolError, IndexError at the end."""
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

    def _forget_old(self) -> None:
        """Forget entries that must have been evicted, even if the entries after them were of the least size."""
        oldest = self._next - _FIRST_DYNAMIC - self._table_bytes // _ENTRY_OVERHEAD_BYTES
        for number in [number for number in self._entries if _FIRST_DYNAMIC <= number <= oldest]:
            del self._entries[number]


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


def _read_integer(block: bytes, position: int, mask: int) -> tuple[int, int]:
    """Return the integer with this prefix mask, and the position after it (5.1). Raises as ``FieldReader._string``."""
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
    """Return a string literal without Huffman coding (RFC 7541, 5.1 and 5.2)."""
    if len(raw) < 0x7F:
        return bytes((len(raw),)) + raw
    length, number = bytearray((0x7F,)), len(raw) - 0x7F
    while number >= 0x80:
        length.append(number & 0x7F | 0x80)
        number >>= 7
    length.append(number)
    return bytes(length) + raw


def write_literals(fields: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return a header block of never-indexed literals (RFC 7541, 6.2.3): it changes no table."""
    return b"".join(b"\x10" + _string(name) + _string(value) for name, value in fields)


def _beyond(table_bytes: int) -> int:
    """Return the first index that is an error: the first dynamic one if the table has size 0, else out of reach."""
    return _NUMBERS_BEGIN if table_bytes else _FIRST_DYNAMIC


def _after_string(block: bytes, position: int) -> int:
    """Return the position after the string literal at this position (5.2)."""
    length = block[position] & 0x7F
    position += 1
    if length == 0x7F:
        length, position = _read_integer(block, position - 1, 0x7F)
    position += length
    if position > len(block):
        raise ProtocolError("a header block ends early")
    return position
