"""HTTP/2 header blocks (HPACK, RFC 7541): read passively on their way through, and written as literals.

``HeaderReader`` follows a compression table that belongs to the two ends. What we write ourselves is stateless:
literals that are never indexed, which disturb nobody's table.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import hpack

from cri_proxy.relay.frames import ProtocolError

_MAX_TABLE_BYTES: Final = 1 << 24
_MAX_LIST_BYTES: Final = 1 << 20

Headers = Mapping[bytes, bytes]


class HeaderReader:
    """Decodes every header block of one direction, in order."""

    def __init__(self, table_bytes: int = 4096) -> None:
        """The table starts at the 4096 bytes of RFC 9113, or at 0; later sizes come in the blocks themselves."""
        self._decoder = hpack.Decoder(max_header_list_size=_MAX_LIST_BYTES)
        # The receiver announces the limit and checks it; a reader in the middle only follows.
        self._decoder.header_table_size = table_bytes
        self._decoder.max_allowed_table_size = _MAX_TABLE_BYTES

    def read(self, block: bytes) -> Headers:
        """Header fields by lower-case name; of repeated ones the first. Raises ProtocolError."""
        try:
            fields = self._decoder.decode(block, raw=True)
        except (hpack.HPACKError, ValueError, IndexError) as error:
            raise ProtocolError(f"header block: {error}") from error
        found: dict[bytes, bytes] = {}
        for name, value in fields:
            found.setdefault(bytes(name), bytes(value))
        return found


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
