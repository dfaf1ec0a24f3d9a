"""HPACK header blocks (RFC 7541): read a few fields of each block, whole or part by part as it comes; write literals.

Reading follows a compression table that belongs to the two ends. Blocks that we write are literals that are never
indexed, so they change no table.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from typing import Final

from cri_proxy.http2 import huffman
from cri_proxy.http2.frames import COMPRESSION_ERROR, ENHANCE_YOUR_CALM, ProtocolError

Headers = Mapping[bytes, bytes]
_Field = tuple[bytes, bytes]

_NAMES: Final = b"""
    accept-language accept-ranges accept access-control-allow-origin age allow authorization cache-control
    content-disposition content-encoding content-language content-length content-location content-range
    content-type cookie date etag expect expires from host if-match if-modified-since if-none-match if-range
    if-unmodified-since last-modified link location max-forwards proxy-authenticate proxy-authorization range
    referer refresh retry-after server set-cookie strict-transport-security transfer-encoding user-agent vary via
    www-authenticate
"""
_STATIC: Final[tuple[_Field, ...]] = (  # by index, from 1 (RFC 7541, appendix A)
    (b"", b""),
    (b":authority", b""),
    (b":method", b"GET"),
    (b":method", b"POST"),
    (b":path", b"/"),
    (b":path", b"/index.html"),
    (b":scheme", b"http"),
    (b":scheme", b"https"),
    (b":status", b"200"),
    (b":status", b"204"),
    (b":status", b"206"),
    (b":status", b"304"),
    (b":status", b"400"),
    (b":status", b"404"),
    (b":status", b"500"),
    (b"accept-charset", b""),
    (b"accept-encoding", b"gzip, deflate"),
    *((name, b"") for name in _NAMES.split()),
)
_FIRST_DYNAMIC: Final = len(_STATIC)
_ENTRY_OVERHEAD_BYTES: Final = 32  # RFC 7541, 4.1
DEFAULT_TABLE_BYTES: Final = 4096  # RFC 9113, 6.5.2
NO_TABLE: Final = b"\x20"
"""Begins a header block after which the compression table has no room (RFC 7541, 6.3)."""

VALUE_BYTES: Final = 4096
"""A longer value is cut here: no path that we know has a tenth of it, and of a status message this is enough."""

_ENOUGH_BYTES: Final = 16 * 1024  # holds VALUE_BYTES of the longest Huffman codes (30 bits), and any name
_MAX_TABLE_BYTES: Final = 1 << 20  # the receiver announces and checks its limit; this one bounds our memory
_MAX_INTEGER_BYTES: Final = 5  # of seven bits each: enough for 32, and a bound there must be (RFC 7541, 5.1)
_MAX_UNUSUAL_FIELDS: Final = 4096  # in a block, of some microseconds each; a call of the kubelet has none or two
_REMEMBERED_STRINGS: Final = 512
_REMEMBERED_BLOCKS: Final = 64  # a client calls few methods, each with the same timeout
_REMEMBERED_BYTES: Final = 128  # of one string: those of gRPC are shorter
_REMEMBERED_BLOCK_BYTES: Final = 256  # a block that uses no table has nearly 200


_Entry = tuple[_Field | None, int]
"""An entry of the dynamic table: its field if that is wanted, and its size."""


def _least_length(length: int, *, is_coded: int) -> int:
    """Return the least length of a string that has this length encoded: a code has 30 bits at most."""
    return length * 8 // 30 if is_coded else length


# By the byte that begins a value: its entry if nothing of it is wanted. None = the length takes more than this byte.
_UNWANTED: Final[tuple[_Entry | None, ...]] = tuple(
    None if byte & 0x7F == 0x7F else (None, _ENTRY_OVERHEAD_BYTES + _least_length(byte & 0x7F, is_coded=byte & 0x80))
    for byte in range(256)
)
_NEWEST_NAME: Final = 0x40 + _FIRST_DYNAMIC
"""Begins a literal that enters the table with the name of the newest entry (6.2.1)."""


# This runs for every call. Values are not decoded unless each is needed: a grpc-timeout is new in every call, and its
# Huffman code would be most of the work. The length of such a value is known only by its lower bound, and the sizes of
# entries likewise, so an entry stays here at least as long as its encoder may name it. An index beyond is an error.
class FieldReader:
    """Find the fields of these names in every header block of one direction, in order, at the least cost.

    A name that a block has twice has no value: two receivers might choose different ones. Memory is bounded for blocks
    of any length; a value that is not wanted is skipped as it comes. Values of ``encoded`` names, which few need,
    are cut early and for ``decoded`` to read.
    """

    def __init__(
        self,
        names: frozenset[bytes],
        table_bytes: int = DEFAULT_TABLE_BYTES,
        *,
        encoded: frozenset[bytes] = frozenset(),
    ) -> None:
        """Start with a table of this size; later sizes come in the blocks themselves, but for 0, which stays."""
        self._names, self._static = _wanted(names | encoded)
        self._encoded = encoded
        self._table_bytes = table_bytes
        self._max_table_bytes = _MAX_TABLE_BYTES if table_bytes else 0
        self._dynamic: deque[_Entry] = deque()  # the newest first
        self._dynamic_bytes = 0
        self._is_changed = False  # the table, by the block that is read
        self._huffman: dict[bytes, bytes] = {}  # decoded strings: paths repeat
        self._blocks: dict[bytes, Headers] = {}  # what short blocks mean while the table stays as it is
        self.block_bytes = 0
        """The length of the parts so far."""
        self._unusual_fields = 0  # so far, that take more than a glance
        self._found: dict[bytes, bytes] = {}  # in the block so far
        self._is_whole = False  # it comes in one part
        self._rest = b""  # the beginning of a field
        self._skipped_bytes = 0  # what is still to come of a string that is not kept

    def read(self, block: bytes) -> Headers:
        """Return the wanted fields of a whole block. Raises ProtocolError."""
        known = self._blocks.get(block)
        if known is not None:
            return known
        found: dict[bytes, bytes] = {}
        self._skipped_bytes = self._unusual_fields = 0
        self._is_changed = False
        if self._fields(block, found) != len(block) or self._skipped_bytes:
            raise ProtocolError("a header block ends early", COMPRESSION_ERROR)
        if self._is_changed:
            self._blocks.clear()
        elif len(block) <= _REMEMBERED_BLOCK_BYTES and len(self._blocks) < _REMEMBERED_BLOCKS:
            self._blocks[block] = found
        return found

    def begin(self, *, is_whole: bool = False) -> None:
        """Begin a block that comes in parts, or in one."""
        self.block_bytes = self._skipped_bytes = self._unusual_fields = 0
        self._rest, self._found, self._is_whole = b"", {}, is_whole

    def feed(self, part: bytes) -> None:
        """Read the next part of a block. Raises ProtocolError."""
        self.block_bytes += len(part)
        if self._is_whole:  # such ones repeat, and are remembered
            self._found = dict(self.read(part))
            return
        if self._skipped_bytes:
            skipped = min(self._skipped_bytes, len(part))
            self._skipped_bytes -= skipped
            part = part[skipped:]
        block = self._rest + part
        self._rest = block[self._fields(block, self._found) :]
        self._blocks.clear()  # the block may change the table

    def finish(self) -> Headers:
        """Return the wanted fields of a block of which all parts were fed. Raises ProtocolError."""
        if self._rest or self._skipped_bytes:
            raise ProtocolError("a header block ends early", COMPRESSION_ERROR)
        return self._found

    def _fields(self, block: bytes, found: dict[bytes, bytes]) -> int:
        """Read the whole fields; return the position after them. Of the next one nothing is noted."""
        # Read inline is what nearly every field of a gRPC call is: an index of one or two bytes, or a new short value
        # of a name that has an entry and is not wanted.
        static, dynamic = self._static, self._dynamic
        whole = position = 0
        end = len(block)
        try:
            while position < end:
                byte = block[position]
                if byte > 0x80:  # indexed (6.1)
                    position += 1
                    index = byte & 0x7F
                    if byte == 0xFF:
                        if block[position] < 0x80:
                            index += block[position]
                            position += 1
                        else:
                            index, position = _read_integer(block, position - 1, 0x7F)
                    field = static[index] if index < _FIRST_DYNAMIC else dynamic[index - _FIRST_DYNAMIC][0]
                    if field is not None:
                        name = field[0]
                        found[name] = b"" if name in found else field[1]
                elif (
                    0x40 < byte <= _NEWEST_NAME
                    and (static[byte - 0x40] if byte < _NEWEST_NAME else dynamic[0][0]) is None
                    and (entry := _UNWANTED[block[position + 1]]) is not None
                    and position + 2 + (block[position + 1] & 0x7F) <= end
                ):
                    position += 2 + (block[position + 1] & 0x7F)
                    dynamic.appendleft(entry)
                    self._is_changed = True
                    self._dynamic_bytes += entry[1]
                    if self._dynamic_bytes > self._table_bytes:
                        self._evict()
                else:
                    position = self._other(block, position, byte, found)
                whole = position
        except IndexError:  # the field goes on after the block, or there is no such entry
            self._check_index(block, whole)
            return whole
        return end

    def _check_index(self, block: bytes, position: int) -> None:
        """Raise ProtocolError if the field there names an entry that the table does not have (2.3.3)."""
        byte = block[position]
        mask = 0x7F if byte >= 0x80 else 0x3F if byte >= 0x40 else 0x0F
        with suppress(IndexError):
            index, _ = _read_integer(block, position, mask)
            if index >= _FIRST_DYNAMIC + len(self._dynamic):
                problem = f"entry {index} of a compression table that has {_FIRST_DYNAMIC - 1 + len(self._dynamic)}"
                raise ProtocolError(problem, COMPRESSION_ERROR)

    def _other(self, block: bytes, position: int, byte: int, found: dict[bytes, bytes]) -> int:
        """Read a new size of the table, or a literal, and return the position after it."""
        self._unusual_fields += 1
        if self._unusual_fields > _MAX_UNUSUAL_FIELDS:
            problem = f"a header block with more than {_MAX_UNUSUAL_FIELDS} literals"
            raise ProtocolError(problem, ENHANCE_YOUR_CALM)
        if byte == 0x80:
            raise ProtocolError("a header field of index 0", COMPRESSION_ERROR)
        if not 0x20 <= byte < 0x40:
            return self._literal(block, position, byte, found)
        size, position = _read_integer(block, position, 0x1F)  # 6.3
        if size > self._max_table_bytes:
            raise ProtocolError(f"a compression table of {size} bytes", COMPRESSION_ERROR)
        self._table_bytes = size
        self._is_changed = True
        self._evict()
        return position

    def _literal(self, block: bytes, position: int, byte: int, found: dict[bytes, bytes]) -> int:
        """Read a literal; return the position after it, or the end where the rest of its value is skipped."""
        enters = byte & 0x40  # the table (6.2.1), or does not, now or ever (6.2.2, 6.2.3)
        size = _ENTRY_OVERHEAD_BYTES
        index, position = _read_integer(block, position, 0x3F if enters else 0x0F)
        if index:
            field = self._static[index] if index < _FIRST_DYNAMIC else self._dynamic[index - _FIRST_DYNAMIC][0]
            name = field[0] if field is not None else None
        else:
            start, position, is_coded = _string_bounds(block, position)
            if position - start > _ENOUGH_BYTES:
                raise ProtocolError(f"a header name of {position - start} bytes", COMPRESSION_ERROR)
            size += _least_length(position - start, is_coded=is_coded)
            name = self._names.get((is_coded, block[start:position]))  # if cut off, the next line raises
        start, after, is_coded = _string_bounds(block, position)
        # The value goes on, and too little of it is here to keep its beginning and skip the rest.
        if after > len(block) and len(block) - start < _ENOUGH_BYTES:
            raise IndexError
        size += _least_length(after - start, is_coded=is_coded)
        field = None
        if name is not None:
            raw = block[start : min(after, start + _ENOUGH_BYTES)]
            if name in self._encoded:
                value = bytes((is_coded,)) + raw[:_REMEMBERED_BYTES]
            else:
                value = self._decoded(raw) if is_coded else raw[:VALUE_BYTES]
                size = max(size, len(name) + len(value) + _ENTRY_OVERHEAD_BYTES)
            found[name] = b"" if name in found else value
            field = (name, value)
        self._skipped_bytes = max(0, after - len(block))
        if enters:
            self._dynamic.appendleft((field, size))
            self._is_changed = True
            self._dynamic_bytes += size
            self._evict()
        return min(after, len(block))

    def _decoded(self, raw: bytes) -> bytes:
        plain = self._huffman.get(raw)
        if plain is None:
            plain = huffman.decode(raw, VALUE_BYTES)
            if len(raw) <= _REMEMBERED_BYTES:
                if len(self._huffman) >= _REMEMBERED_STRINGS:
                    self._huffman.clear()
                self._huffman[raw] = plain
        return plain

    def _evict(self) -> None:
        """Forget the oldest entries that the table has no room for (RFC 7541, 4.3 and 4.4)."""
        while self._dynamic_bytes > self._table_bytes:
            self._dynamic_bytes -= self._dynamic.pop()[1]


def decoded(value: bytes) -> bytes:
    """Return the value of an ``encoded`` name, b"" where it has none. Raises ProtocolError."""
    return huffman.decode(value[1:], VALUE_BYTES) if value[:1] == b"\x80" else value[1:]


@cache
def _wanted(names: frozenset[bytes]) -> tuple[dict[tuple[int, bytes], bytes], tuple[_Field | None, ...]]:
    """Return these names by their two encodings, plain and Huffman; and the static entries that have one of them."""
    encodings = {(0, name): name for name in names} | {(0x80, huffman.encode(name)): name for name in names}
    return encodings, tuple(field if field[0] in names else None for field in _STATIC)


def _string_bounds(block: bytes, position: int) -> tuple[int, int, int]:
    """Return where a string literal (5.2) begins and ends, perhaps after the block; 0x80 if it is Huffman-coded."""
    is_coded = block[position] & 0x80
    length, position = _read_integer(block, position, 0x7F)
    return position, position + length, is_coded


def _read_integer(block: bytes, position: int, mask: int) -> tuple[int, int]:
    """Return the integer with this prefix mask, and the position after it (5.1). Raises IndexError at the end."""
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
    raise ProtocolError("an integer without an end in a header block", COMPRESSION_ERROR)


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
