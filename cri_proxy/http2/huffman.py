"""The Huffman code of HPACK strings (RFC 7541, 5.2 and appendix B): encode a string, decode the beginning of one.

Decoding costs the same for every byte of a string, however long it is, and stops where the caller has enough.
"""

from bisect import bisect_right
from typing import Final

from cri_proxy.http2.frames import COMPRESSION_ERROR, ProtocolError

_LONGEST_BITS: Final = 30
_ONES: Final = (1 << _LONGEST_BITS) - 1
_END: Final = 256  # the symbol of the end, which no string contains
_STEP_BYTES: Final = 32  # decoded as one number: what a shift costs grows with the number's length

_Code = tuple[int, int]
"""A symbol, and the bits of its code."""

# The bits of the code of each byte, then of the end (appendix B).
_LENGTHS: Final = """
    13 23 28 28 28 28 28 28 28 24 30 28 28 30 28 28 28 28 28 28 28 28 30 28 28 28 28 28 28 28 28 28 6 10 10 12 13 6 8
    11 10 10 8 11 8 6 6 6 5 5 5 6 6 6 6 6 6 6 7 8 15 6 12 10 13 6 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 8 7 8 13
    19 13 14 6 15 5 6 5 6 5 6 6 6 5 7 7 6 6 6 5 6 7 6 5 5 6 7 7 7 7 7 15 11 14 13 28 20 22 20 20 22 22 22 23 22 23 23
    23 23 23 24 23 24 24 22 23 24 23 23 23 23 21 22 23 22 23 23 24 22 21 20 22 22 23 23 21 23 22 22 24 21 22 23 23 21
    21 22 21 23 22 23 23 20 22 22 22 23 22 22 23 26 26 20 19 22 23 22 25 26 26 26 27 27 26 24 25 19 21 26 27 27 26 27
    24 21 21 26 26 28 27 27 27 20 24 20 21 22 21 21 23 22 22 25 25 24 24 26 23 26 27 26 26 27 27 27 27 27 28 27 27 27
    27 27 26 30
"""
_BITS: Final = tuple(map(int, _LENGTHS.split()))


def _assigned() -> tuple[int, ...]:
    """Return the code of every symbol: each is its predecessor plus one, shorter codes first, then lower symbols."""
    codes = [0] * len(_BITS)
    code, length = -1, 0
    for bits, symbol in sorted((bits, symbol) for symbol, bits in enumerate(_BITS)):
        code, length = code + 1 << bits - length, bits
        codes[symbol] = code
    return tuple(codes)


_ASSIGNED: Final = _assigned()

# Every code, followed by zeros to the length of the longest one. In this order a code ends before the next one begins.
_ORDERED: Final = sorted(
    (code << (_LONGEST_BITS - bits), (symbol, bits))
    for symbol, (code, bits) in enumerate(zip(_ASSIGNED, _BITS, strict=True))
)
_STARTS: Final = tuple(start for start, _ in _ORDERED)
_CODES: Final[tuple[_Code, ...]] = tuple(code for _, code in _ORDERED)


def _by_first_byte() -> tuple[_Code | None, ...]:
    """Return for every byte the code that it begins with; None = longer than a byte."""
    codes = [_CODES[bisect_right(_STARTS, byte << (_LONGEST_BITS - 8)) - 1] for byte in range(256)]
    return tuple(code if code[1] <= 8 else None for code in codes)


_SHORT: Final = _by_first_byte()


def encode(plain: bytes) -> bytes:
    """Return the only encoding of a string: its end is padded with ones to a whole byte."""
    number, length = 0, 0
    for byte in plain:
        bits = _BITS[byte]
        number, length = number << bits | _ASSIGNED[byte], length + bits
    padding = -length % 8
    return (number << padding | (1 << padding) - 1).to_bytes((length + padding) // 8, "big")


def decode(raw: bytes, most: int) -> bytes:
    """Return the first ``most`` bytes of an encoded string; the rest is not looked at. Raises ProtocolError."""
    plain = bytearray()
    bits, left = 0, 0  # what is not decoded yet, and its length
    for start in range(0, len(raw), _STEP_BYTES):
        part = raw[start : start + _STEP_BYTES]
        left += 8 * len(part)
        bits = bits << 8 * len(part) | int.from_bytes(part, "big")
        padded = bits << _LONGEST_BITS | _ONES
        # More is to come: of what is left only codes that are whole for certain are decoded.
        least = _LONGEST_BITS if start + _STEP_BYTES < len(raw) else 1
        while left >= least:
            code = _SHORT[padded >> (left + _LONGEST_BITS - 8) & 0xFF]
            if code is None:
                code = _CODES[bisect_right(_STARTS, padded >> left & _ONES) - 1]
            symbol, length = code
            if length > left:
                break
            if symbol == _END:
                raise ProtocolError("a Huffman string that holds its end", COMPRESSION_ERROR)
            plain.append(symbol)
            left -= length
        if len(plain) >= most:
            return bytes(plain[:most])
        bits &= (1 << left) - 1
    # The end is padded with less than a byte of ones (RFC 7541, 5.2).
    if left >= 8 or bits != (1 << left) - 1:
        raise ProtocolError("a Huffman string that ends within a character", COMPRESSION_ERROR)
    return bytes(plain)
