"""Inputs that are nearly right: a seed with a few wounds. The same number gives the same input."""

import random
from collections.abc import Sequence
from typing import Final

MAX_BYTES: Final = 1 << 17
# What parsers trip over, besides single bits.
TOKENS: Final = (
    b"\0", b"\xff" * 4, b"\n", b"\r\n\r\n", b": ", b"- ", b"[" * 50, b"{" * 50, b"&a ", b"*a", b"!!x ", b"'", b'"',
    b"-1", b"9" * 40, b"0x", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\x7f\xff\xff\xff\xff\xff", b"1e999", b"null",
    b"%00", b"|",
)  # fmt: skip


def mangled(seeds: Sequence[bytes], number: int) -> bytes:
    """The input of this number."""
    chance = random.Random(number)
    data = bytearray(chance.choice(seeds))
    for _ in range(chance.randint(1, 6)):
        wound(data, chance, seeds)
    return bytes(data[:MAX_BYTES])


def wound(data: bytearray, chance: random.Random, seeds: Sequence[bytes]) -> None:
    """Change one place."""
    at = chance.randint(0, len(data))
    match chance.randrange(7):
        case 0 if data:
            data[at % len(data)] ^= 1 << chance.randrange(8)
        case 1 if data:
            data[at % len(data)] = chance.randrange(256)
        case 2:
            del data[at : at + chance.randint(1, 8)]
        case 3:
            data[at:at] = chance.choice(TOKENS)
        case 4:
            data[at:at] = data[at : at + chance.randint(1, 64)] * chance.randint(1, 20)
        case 5:
            del data[at:]
        case _:
            other = chance.choice(seeds)
            data[at:] = other[chance.randint(0, len(other)) :]
