"""The manifest of an archived segment: what its objects contain, with checksums. No I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field, to_builtins

from headrace.log.errors import InvalidFile

MANIFEST_VERSION = 1


class FileSum(Struct, frozen=True, kw_only=True):
    """Size and CRC-32C of one archived file, as a whole and per chunk, so that each chunk can be checked alone."""

    size_bytes: int
    crc32c: int
    chunk_crcs: tuple[int, ...]


class Manifest(Struct, frozen=True, kw_only=True):
    """Enough to check every byte of a segment, and to know which partition it belongs to."""

    topic: str
    topic_id: str
    partition: int
    base_offset: int
    next_offset: int
    max_timestamp_ms: int
    written_ms: int = 0
    aborted_transactions: int
    leader_epochs: tuple[tuple[int, int], ...]
    """(epoch, first offset) of all epochs up to this segment."""
    chunk_bytes: int
    files: Mapping[str, FileSum] = field(default_factory=dict)
    """By suffix."""
    archived_ms: int


def encode_manifest(manifest: Manifest) -> bytes:
    return json.dumps({"version": MANIFEST_VERSION, **to_builtins(manifest)}).encode()


def decode_manifest(content: bytes) -> Manifest:
    try:
        saved: dict[str, Any] = json.loads(content)
        version = saved.pop("version")
        if version != MANIFEST_VERSION:
            raise InvalidFile(f"manifest version {version} is not the supported version {MANIFEST_VERSION}")
        files = {
            suffix: FileSum(
                size_bytes=each["size_bytes"], crc32c=each["crc32c"], chunk_crcs=tuple(each["chunk_crcs"])
            )
            for suffix, each in saved.pop("files").items()
        }
        epochs = tuple((epoch, offset) for epoch, offset in saved.pop("leader_epochs"))
        return Manifest(files=files, leader_epochs=epochs, **saved)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidFile(f"it is not a manifest: {error!r}") from None
