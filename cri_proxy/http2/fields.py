"""Read a few header fields of each block (HPACK, RFC 7541) at the least cost.

An index beyond the table is a decoding error (RFC 7541, 2.3.3) that this reader does not detect: it keeps no whole
table, so such an entry looks like one that is not wanted. The runtime gets the same bytes, acts on none of them and
closes the connection.
"""

from typing import Final

from cri_proxy.http2.frames import ProtocolError
from cri_proxy.http2.headers import (
    ENTRY_OVERHEAD_BYTES,
    FIRST_DYNAMIC,
    STATIC,
    Field,
    Headers,
    StringReader,
    check_table_bytes,
    read_integer,
)

_NUMBERS_BEGIN: Final = 1 << 40
"""Above every index of the static table."""


# This runs for every call. An encoder names an entry by its distance from the newest, so entries are kept by number;
# entries that are not wanted are not kept. An encoder never names an entry that it has evicted, so sizes are not
# counted. Values that are not wanted are not decoded: a grpc-timeout is new in every call, and its Huffman code would
# be most of the work.
class FieldReader:
    """Find the fields of these names in every header block of one direction, in order."""

    def __init__(self, names: frozenset[bytes], table_bytes: int = 4096) -> None:
        """Start with a table of the 4096 bytes of RFC 9113; later sizes come in the blocks themselves."""
        self._names = names
        self._table_bytes = table_bytes
        self._string = StringReader().read
        self._next = _NUMBERS_BEGIN  # what index 0 would be: the newest is FIRST_DYNAMIC below
        # By number, the oldest first, after the static ones by index.
        self._entries: dict[int, Field] = {index: field for index, field in enumerate(STATIC) if field[0] in names}

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
                        index, position = read_integer(block, position - 1, 0x7F)
                    entry = entry_of(index if index < FIRST_DYNAMIC else begin - index)
                    if entry is not None:
                        found[entry[0]] = entry[1]
                elif 0x20 <= byte < 0x40:  # table size (6.3)
                    size, position = read_integer(block, position, 0x1F)
                    self._table_bytes = check_table_bytes(size)
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
            index, position = read_integer(block, position - 1, mask)
        if index:
            entry = self._entries.get(index if index < FIRST_DYNAMIC else self._next - index)
            name = entry[0] if entry is not None else None
        else:
            name, position = self._string(block, position)
        if enters:
            self._next += 1
        if name is None or name not in self._names:
            return _after_string(block, position)
        value, position = self._string(block, position)
        found[name] = value
        if enters and len(name) + len(value) + ENTRY_OVERHEAD_BYTES <= self._table_bytes:
            self._entries[self._next - FIRST_DYNAMIC] = (name, value)
            self._forget_old()
        return position

    def _forget_old(self) -> None:
        """Forget entries that must have been evicted, even if the entries after them were of the least size."""
        oldest = self._next - FIRST_DYNAMIC - self._table_bytes // ENTRY_OVERHEAD_BYTES
        for number in [number for number in self._entries if FIRST_DYNAMIC <= number <= oldest]:
            del self._entries[number]


def _after_string(block: bytes, position: int) -> int:
    """Return the position after the string literal at this position (5.2)."""
    length = block[position] & 0x7F
    position += 1
    if length == 0x7F:
        length, position = read_integer(block, position - 1, 0x7F)
    position += length
    if position > len(block):
        raise ProtocolError("a header block ends early")
    return position
