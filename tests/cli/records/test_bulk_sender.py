"""Record batches of whole blocks; tests/cli/records/test_sender.py sends them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.records.bulk_sender import BulkSender, encoded
from headrace.records.batch import MAGIC, BatchHeader, pack_batch
from headrace.records.record import iterate_records


def decoded(records: bytes, count: int) -> list[tuple[bytes | None, bytes | None, tuple[object, ...]]]:
    header = BatchHeader(
        base_offset=0,
        length=0,
        leader_epoch=-1,
        magic=MAGIC,
        crc=0,
        attributes=0,
        last_offset_delta=count - 1,
        base_timestamp_ms=1,
        max_timestamp_ms=1,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=count,
    )
    batch = memoryview(pack_batch(header, records))
    found = [*iterate_records(batch, bytes_max=1 << 30)]
    assert [each.offset for each in found] == [*range(count)]
    return [(each.key, each.value, each.headers) for each in found]


@given(
    st.lists(
        st.one_of(st.binary(max_size=20), st.sampled_from([b"", b"x" * 63, b"x" * 64, b"x" * 20_000])),
        min_size=1,
    ),
    st.none() | st.binary(max_size=100),
    st.lists(st.tuples(st.text(max_size=5), st.none() | st.text(max_size=5) | st.binary(max_size=5))),
)
def test_records_of_a_block_are_read_back_with_key_and_headers(
    values: list[bytes], key: bytes | None, headers: list[tuple[str, str | bytes | None]]
) -> None:
    head, tail = BulkSender.around(key, headers)

    found = decoded(encoded(values, head, tail), len(values))

    as_bytes = tuple((name, value.encode() if isinstance(value, str) else value) for name, value in headers)
    assert found == [(key, value, as_bytes) for value in values]
