"""What can be wrong with the bytes of a batch. Whoever holds the file or connection adds where it is."""

from __future__ import annotations

from enum import Enum

from headrace.errors import HeadraceError


class InvalidBatchKind(Enum):
    """What callers treat differently: a torn tail is cut, a bomb is left alone, corruption is reported."""

    TRUNCATED = "truncated"
    CORRUPT = "corrupt"
    UNSUPPORTED_CODEC = "unsupported codec"
    DECOMPRESSION_BOMB = "decompression bomb"


class InvalidBatch(HeadraceError):
    """The bytes are not a record batch that can be used."""

    kind = InvalidBatchKind.CORRUPT


class TruncatedBatch(InvalidBatch):
    """The bytes end before the batch does."""

    kind = InvalidBatchKind.TRUNCATED


class CorruptBatch(InvalidBatch):
    """The bytes contradict themselves: a wrong checksum, an impossible length, records that don't add up."""


class UnsupportedCodec(InvalidBatch):
    """The batch names a compression that does not exist."""

    kind = InvalidBatchKind.UNSUPPORTED_CODEC


class DecompressionBomb(InvalidBatch):
    """The records would grow past the bound when decompressed; nothing past it was written."""

    kind = InvalidBatchKind.DECOMPRESSION_BOMB


class TooManyRecords(DecompressionBomb):
    """The batch claims more records than the bound: a few kilobytes can hold millions of them."""
