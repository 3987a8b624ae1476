"""The manifest of an archived segment."""

from __future__ import annotations

import pytest

from headrace.log.archive.manifest import FileSum, Manifest, decode_manifest, encode_manifest
from headrace.log.errors import InvalidFile

MANIFEST = Manifest(
    topic="orders",
    topic_id="some-id",
    partition=3,
    base_offset=0,
    next_offset=10,
    max_timestamp_ms=500,
    written_ms=600,
    aborted_transactions=2,
    leader_epochs=((0, 0), (3, 7)),
    chunk_bytes=400,
    files={".log": FileSum(size_bytes=1000, crc32c=1, chunk_crcs=(1, 2, 3))},
    archived_ms=900,
)


def test_manifest_survives_being_written() -> None:
    assert decode_manifest(encode_manifest(MANIFEST)) == MANIFEST


NO_MANIFEST = [
    b"",
    b"{}",
    b"[]",
    b"\xff",
    b'{"version": 9, "segments": 0}',
    b'{"version": 1, "segments": 1}\n{}',
]


@pytest.mark.parametrize("content", NO_MANIFEST)
def test_something_else_is_not_a_manifest(content: bytes) -> None:
    with pytest.raises(InvalidFile):
        decode_manifest(content)


def test_manifest_of_a_later_version_is_rejected_with_both_versions() -> None:
    later = encode_manifest(MANIFEST).replace(b'"version": 1', b'"version": 2')
    with pytest.raises(InvalidFile, match="version 2 is not the supported version 1"):
        decode_manifest(later)
