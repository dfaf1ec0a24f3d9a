"""Compute the fingerprint of a set of pods, by which schedulers see whether an object counts the pods they know of.

Sources: version 1 of github.com/k8stopologyawareschedwg/podfingerprint; XXH64 of the xxHash specification 0.1.1.
"""

import struct
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

_SIGN: Final = "pfp0v001"
_MASK: Final = (1 << 64) - 1
_PRIMES: Final = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_STRIPE: Final = struct.Struct("<4Q")


def fingerprint(pods: Iterable[tuple[str, str]]) -> str:
    """Return the fingerprint of these pods, pairs of namespace and name, in any order.

    >>> fingerprint([("production", "jaeger-dpgjk"), ("production", "nginx-rt684"), ("production", "envoy-g9m22")])
    'pfp0v001607b76a0e9d3aeb4'
    """
    hashes = sorted(_hash_of(*pod) for pod in pods)
    return f"{_SIGN}{xxh64(struct.pack(f'<{len(hashes)}Q', *hashes)):016x}"


@lru_cache(maxsize=1024)  # most pods are in the set of before too
def _hash_of(namespace: str, name: str) -> int:
    return xxh64(name.encode(), xxh64(namespace.encode()))


def xxh64(data: bytes, seed: int = 0) -> int:
    """Return the 64 bit xxHash of these bytes.

    >>> f"{xxh64(b''):016x}", f"{xxh64(b'abc'):016x}"
    ('ef46db3751d8e999', '44bc2cf5ad770999')
    """
    p1, p2, _, _, p5 = _PRIMES
    length = len(data)
    stripes = length & ~31
    result = _of_stripes(data[:stripes], seed) if stripes else seed + p5
    result = result + length & _MASK
    words = stripes + (length - stripes & ~7)
    for at in range(stripes, words, 8):
        result = _turned(result ^ _mixed(0, int.from_bytes(data[at : at + 8], "little")), 27) * p1 + _PRIMES[3] & _MASK
    if length - words >= 4:
        half = int.from_bytes(data[words : words + 4], "little")
        result = _turned(result ^ half * p1 & _MASK, 23) * p2 + _PRIMES[2] & _MASK
        words += 4
    for byte in data[words:]:
        result = _turned(result ^ byte * p5 & _MASK, 11) * p1 & _MASK
    return _avalanche(result)


def _of_stripes(data: bytes, seed: int) -> int:
    """Return what four lanes make of blocks of 32 bytes."""
    p1, p2, _, p4, _ = _PRIMES
    lanes = [seed + p1 + p2 & _MASK, seed + p2 & _MASK, seed, seed - p1 & _MASK]
    for words in _STRIPE.iter_unpack(data):
        lanes = [_mixed(lane, word) for lane, word in zip(lanes, words, strict=True)]
    result = sum(_turned(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
    for lane in lanes:
        result = (result ^ _mixed(0, lane)) * p1 + p4 & _MASK
    return result


def _mixed(lane: int, word: int) -> int:
    return _turned(lane + word * _PRIMES[1] & _MASK, 31) * _PRIMES[0] & _MASK


def _turned(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK


def _avalanche(value: int) -> int:
    value = (value ^ value >> 33) * _PRIMES[1] & _MASK
    value = (value ^ value >> 29) * _PRIMES[2] & _MASK
    return value ^ value >> 32
