"""Which partition a key is in: the murmur2 hash of Kafka's Java client.

The owner of an aggregate must know its partition before it writes, and senders of commands in any language must choose
the same one.
"""

from __future__ import annotations

_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C
_FACTOR = 0x5BD1E995
_SHIFT = 24


def partition_of(key: bytes, partitions: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(content: bytes) -> int:
    """As an unsigned number of 32 bits."""
    length = len(content)
    hashed = (_SEED ^ length) & _MASK
    whole = length - length % 4
    for start in range(0, whole, 4):
        word = int.from_bytes(content[start : start + 4], "little")
        word = word * _FACTOR & _MASK
        word ^= word >> _SHIFT
        word = word * _FACTOR & _MASK
        hashed = (hashed * _FACTOR & _MASK) ^ word
    if whole < length:
        hashed ^= int.from_bytes(content[whole:], "little")
        hashed = hashed * _FACTOR & _MASK
    hashed ^= hashed >> 13
    hashed = hashed * _FACTOR & _MASK
    return hashed ^ (hashed >> 15)
