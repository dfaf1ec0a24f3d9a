"""A few header fields of each block (HPACK, RFC 7541), for a reader that follows and wants nothing else.

On the path of every call, so it does as little as following needs. An encoder names an entry of the compression table
by its distance from the newest, so entries need a number and not a table; those that nobody asks for need not be kept,
and those that the encoder has evicted it never names again, so sizes need not be counted. Values that nobody asks for
are not decoded: a grpc-timeout is new in every call, and its Huffman code would be most of the work.

What is damaged where we do not look is for the receiver to find, and so is an index beyond the table: a decoding error
(RFC 7541, 2.3.3), but it takes a whole table to tell such an entry from one that nobody asks for. Here it is a field
without a name. The runtime has the same bytes, acts on none of them and closes the connection; the client's goes with
it.
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
"""So that the number of an entry is no index of the static table."""


class FieldReader:
    """Finds fields of these names in every header block of one direction, in order."""

    def __init__(self, names: frozenset[bytes], table_bytes: int = 4096) -> None:
        """The table starts at the 4096 bytes of RFC 9113; later sizes come in the blocks themselves."""
        self._names = names
        self._table_bytes = table_bytes
        self._string = StringReader().read
        self._next = _NUMBERS_BEGIN  # what index 0 would be: the newest is FIRST_DYNAMIC below
        # By number, the oldest first, after the static ones by index.
        self._entries: dict[int, Field] = {index: field for index, field in enumerate(STATIC) if field[0] in names}

    def read(self, block: bytes) -> Headers:
        """The wanted fields of a block; of repeated ones the last. Raises ProtocolError.

        Written out for indexes of one and two bytes, which is what nearly every field of a gRPC call is.
        """
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
        """Forget what cannot be in the table any more, however small the entries after it are."""
        oldest = self._next - FIRST_DYNAMIC - self._table_bytes // ENTRY_OVERHEAD_BYTES
        for number in [number for number in self._entries if FIRST_DYNAMIC <= number <= oldest]:
            del self._entries[number]


def _after_string(block: bytes, position: int) -> int:
    """The position after the string literal that stands here (5.2)."""
    length = block[position] & 0x7F
    position += 1
    if length == 0x7F:
        length, position = read_integer(block, position - 1, 0x7F)
    position += length
    if position > len(block):
        raise ProtocolError("a header block ends early")
    return position
