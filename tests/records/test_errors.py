"""Which error a batch raises that cannot be decoded, and that each has a remedy."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from headrace.records.batch import pack_batch, read_header
from headrace.records.compression import Codec
from headrace.records.errors import DecompressionBomb, InvalidBatch, UnsupportedCodec
from headrace.records.record import Record, decode_records, encode_batch

BATCH = encode_batch([Record(offset=0, timestamp_ms=0, key=b"k", value=bytes(5000))], codec=Codec.GZIP)


@pytest.mark.parametrize(
    ("batch", "bytes_max", "expected"),
    [
        (BATCH[:40], 10_000, InvalidBatch),
        (BATCH[:-1], 10_000, InvalidBatch),
        (pack_batch(read_header(BATCH), b"not gzip"), 10_000, InvalidBatch),
        (pack_batch(replace(read_header(BATCH), attributes=7), BATCH[61:]), 10_000, UnsupportedCodec),
        (BATCH, 4000, DecompressionBomb),
    ],
    ids=["header cut", "records cut", "damaged compression", "codec 7", "bomb"],
)
def test_every_invalid_batch_has_its_error_with_a_hint(
    batch: bytes, bytes_max: int, expected: type[InvalidBatch]
) -> None:
    with pytest.raises(InvalidBatch) as caught:
        decode_records(batch, bytes_max=bytes_max)
    assert type(caught.value) is expected
    assert caught.value.hint
