"""Errors in the bytes of a batch. Callers add the file or the connection."""

from __future__ import annotations

from headrace.errors import HeadraceError


class InvalidBatch(HeadraceError):
    """The bytes end early or are inconsistent: a wrong checksum, an impossible length, a wrong number of records."""


class UnsupportedCodec(InvalidBatch):
    """The batch has a compression codec that does not exist."""


class DecompressionBomb(InvalidBatch):
    """The records exceed the bound in bytes or in number when they are decoded; nothing beyond it was written."""
