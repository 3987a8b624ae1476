from __future__ import annotations

import contextlib
import struct

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from msgspec.structs import replace

from headrace.records.batch import (
    ATTRIBUTES_POSITION,
    HEADER_BYTES,
    TimestampType,
    checksum_matches,
    pack_batch,
    read_header,
)
from headrace.records.compression import Codec
from headrace.records.errors import (
    DecompressionBomb,
    InvalidBatch,
)
from headrace.records.record import (
    Record,
    _all_have_keys,
    decode_records,
    encode_batch,
    encode_record,
    iterate_records,
    recompress,
    records_section,
    records_without_key,
    walk_records,
    with_log_append_time,
)

BOUND_BYTES = 1 << 20

optional_bytes = st.none() | st.binary(max_size=200)
header_lists = st.lists(st.tuples(st.text(max_size=10), optional_bytes), max_size=4).map(tuple)


@st.composite
def record_lists(draw: st.DrawFn) -> list[Record]:
    offset = draw(st.integers(0, 2**40))
    records = []
    for _ in range(draw(st.integers(1, 8))):
        records.append(
            Record(
                offset=offset,
                timestamp_ms=draw(st.integers(0, 2**44)),
                key=draw(optional_bytes),
                value=draw(optional_bytes),
                headers=draw(header_lists),
            )
        )
        offset += draw(st.integers(1, 300))
    return records


def _records(count: int = 3, *, value: bytes | None = b"value") -> list[Record]:
    return [
        Record(offset=n, timestamp_ms=1000 + n, key=b"key %d" % n, value=value, headers=(("name", b"x"),))
        for n in range(count)
    ]


@given(record_lists(), st.sampled_from(Codec))
def test_records_survive_encoding_with_their_offsets(records: list[Record], codec: Codec) -> None:
    data = encode_batch(records, base_offset=records[0].offset, codec=codec)
    assert decode_records(data, bytes_max=BOUND_BYTES) == records
    header = read_header(data)
    assert (header.last_offset, header.record_count) == (records[-1].offset, len(records))
    assert header.max_timestamp_ms == max(record.timestamp_ms for record in records)


@given(record_lists(), st.sampled_from(Codec))
def test_two_other_clients_read_the_same_records(records: list[Record], codec: Codec) -> None:
    data = encode_batch(records, base_offset=records[0].offset, codec=codec)
    expected = [(r.offset, r.timestamp_ms, r.key, r.value, list(r.headers)) for r in records]
    kafka_python = DefaultRecordBatch(data)
    assert kafka_python.validate_crc()
    assert [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in kafka_python] == expected
    aiokafka = AiokafkaBatch(data)
    assert aiokafka.validate_crc()
    assert [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in aiokafka] == expected


@pytest.mark.parametrize("builder_class", [DefaultRecordBatchBuilder, AiokafkaBuilder])
@pytest.mark.parametrize("codec", list(Codec))
def test_batches_of_other_clients_are_read_and_encode_to_the_same_bytes(
    builder_class: type, codec: Codec
) -> None:
    records = [
        Record(
            offset=n, timestamp_ms=5000 - n, key=b"k" * n, value=None if n % 3 else b"v" * 50 * n, headers=()
        )
        for n in range(20)
    ]
    builder = builder_class(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=7,
        producer_epoch=1,
        base_sequence=3,
        batch_size=1 << 20,
    )
    for record in records:
        builder.append(record.offset, record.timestamp_ms, record.key, record.value, [])
    theirs = bytes(builder.build())
    assert decode_records(theirs, bytes_max=BOUND_BYTES) == records
    ours = encode_batch(
        records,
        codec=codec,
        producer_id=7,
        producer_epoch=1,
        base_sequence=3,
        leader_epoch=read_header(theirs).leader_epoch,
    )
    assert records_section(ours, bytes_max=BOUND_BYTES) == records_section(theirs, bytes_max=BOUND_BYTES)
    if codec is Codec.NONE:
        assert ours == theirs


def test_header_name_that_is_no_text_keeps_its_bytes() -> None:
    name = b"\xff\xfe".decode("utf-8", "surrogateescape")
    record = Record(offset=0, timestamp_ms=0, key=None, value=None, headers=((name, b"v"),))
    data = encode_batch([record])
    (read,) = decode_records(data, bytes_max=BOUND_BYTES)
    assert read == record
    assert encode_batch([read]) == data


def test_negative_timestamps_and_none_at_all_survive() -> None:
    records = [
        Record(offset=n, timestamp_ms=timestamp_ms, key=None, value=b"")
        for n, timestamp_ms in enumerate((-1, -(2**62), 2**61))
    ]
    assert decode_records(encode_batch(records), bytes_max=BOUND_BYTES) == records


@pytest.mark.parametrize("source", list(Codec))
@pytest.mark.parametrize("target", list(Codec))
def test_recompressing_changes_the_codec_and_nothing_else(source: Codec, target: Codec) -> None:
    records = _records(50)
    data = encode_batch(
        records, codec=source, producer_id=9, base_sequence=4, leader_epoch=1, is_transactional=True
    )
    changed = recompress(data, target, bytes_max=BOUND_BYTES)
    before, after = read_header(data), read_header(changed)
    assert checksum_matches(changed)
    assert after.compression is target
    assert replace(after, length=0, crc=0, attributes=0) == replace(before, length=0, crc=0, attributes=0)
    assert after.is_transactional
    assert decode_records(changed, bytes_max=BOUND_BYTES) == records


def test_recompressing_a_bomb_is_rejected() -> None:
    data = encode_batch(_records(1, value=bytes(100_000)), codec=Codec.ZSTD)
    with pytest.raises(DecompressionBomb):
        recompress(data, Codec.GZIP, bytes_max=10_000)


@pytest.mark.parametrize("codec", list(Codec))
def test_log_append_time_counts_for_every_record_here_and_in_another_client(codec: Codec) -> None:
    stamped = with_log_append_time(encode_batch(_records(), codec=codec), 777_777)
    assert checksum_matches(stamped)
    assert read_header(stamped).timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {record.timestamp_ms for record in decode_records(stamped, bytes_max=BOUND_BYTES)} == {777_777}
    assert {record.timestamp for record in DefaultRecordBatch(stamped)} == {777_777}
    assert [record.value for record in decode_records(stamped, bytes_max=BOUND_BYTES)] == [b"value"] * 3


def _keyless(data: bytes) -> tuple[int, tuple[int, ...]]:
    return records_without_key(data, bytes_max=BOUND_BYTES, indexes_max=2)


@pytest.mark.parametrize("codec", list(Codec))
def test_missing_key_is_found_wherever_it_is(codec: Codec) -> None:
    records = _records(4)
    assert _keyless(encode_batch(records, codec=codec)) == (0, ())
    for index, record in enumerate(records):
        keyless = Record(offset=record.offset, timestamp_ms=0, key=None, value=b"v")
        changed = encode_batch([*records[:index], keyless, *records[index + 1 :]], codec=codec)
        assert _keyless(changed) == (1, (index,))


def test_empty_key_is_a_key() -> None:
    data = encode_batch([Record(offset=0, timestamp_ms=0, key=b"", value=b"")])
    assert _keyless(data) == (0, ())


def test_only_the_first_records_without_key_are_named_and_all_are_counted() -> None:
    records = [Record(offset=number, timestamp_ms=0, key=None, value=b"v") for number in range(5)]
    assert _keyless(encode_batch(records)) == (5, (0, 1))


def test_batch_of_more_records_than_allowed_is_not_decoded_as_a_whole() -> None:
    data = encode_batch(_records(3))
    assert len(decode_records(data, bytes_max=BOUND_BYTES, records_max=3)) == 3
    with pytest.raises(DecompressionBomb, match="3 records, 2 are allowed"):
        decode_records(data, bytes_max=BOUND_BYTES, records_max=2)


def test_records_are_decoded_one_at_a_time() -> None:
    """A reader of the first few records does not pay for the rest."""
    good = encode_batch(_records(3))
    damaged = pack_batch(replace(read_header(good), record_count=4), good[HEADER_BYTES:])
    assert next(iterate_records(damaged, bytes_max=BOUND_BYTES)).value == b"value"
    with pytest.raises(InvalidBatch):
        decode_records(damaged, bytes_max=BOUND_BYTES)


def test_records_beyond_the_bound_are_a_bomb_in_every_codec() -> None:
    for codec in Codec:
        data = encode_batch(_records(1, value=bytes(5000)), codec=codec)
        with pytest.raises(DecompressionBomb):
            decode_records(data, bytes_max=4000)


@pytest.mark.parametrize("record_count", [-1, 2, 4, 2**31 - 1])
def test_invalid_record_count_is_rejected(record_count: int) -> None:
    data = encode_batch(_records(3))
    wrong = pack_batch(replace(read_header(data), record_count=record_count), data[HEADER_BYTES:])
    with pytest.raises(InvalidBatch):
        list(iterate_records(wrong, bytes_max=BOUND_BYTES))


def test_negative_record_count_is_rejected_even_without_records() -> None:
    header = replace(read_header(encode_batch(_records())), record_count=-1)
    with pytest.raises(InvalidBatch):
        decode_records(pack_batch(header, b""), bytes_max=BOUND_BYTES)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("000000 03 0279 00", "the key has length -2"),
        ("000000 0278 03 00", "the value has length -2"),
        ("000000 0278 0479 00", "the value takes the place of the header count"),
        ("000000 0278 0279 04 0261 00", "two headers are promised and one is there"),
        ("000000 0278 0279 02 0161", "the name of a header is missing"),
        ("000000 0278 0279 02 0261 0462", "the value of a header is cut off"),
        ("000000 0278 0279 02 0261 80", "the length of a header's value does not end with the batch"),
        ("000000 0278 0279 80", "the number of headers does not end with the batch"),
        ("000000 0278 0279 02 0261 00 00", "a byte follows the headers"),
    ],
)
def test_record_that_contradicts_itself_is_corrupt(body: str, why: str) -> None:
    record = bytes.fromhex(body)
    section = bytes([2 * len(record)]) + record
    data = pack_batch(read_header(encode_batch(_records(1))), section)
    with pytest.raises(InvalidBatch):
        decode_records(data, bytes_max=BOUND_BYTES)


def test_batch_cut_at_any_byte_is_truncated() -> None:
    data = encode_batch(_records(2))
    for end in range(len(data)):
        with pytest.raises(InvalidBatch, match=r"are left|ends after"):
            decode_records(data[:end], bytes_max=BOUND_BYTES)


def test_records_cut_at_any_byte_are_corrupt_and_never_fewer() -> None:
    data = encode_batch(_records(3))
    for end in range(HEADER_BYTES, len(data)):
        with pytest.raises(InvalidBatch):
            decode_records(pack_batch(read_header(data), data[HEADER_BYTES:end]), bytes_max=BOUND_BYTES)


def test_any_damaged_byte_of_the_records_raises_no_other_error() -> None:
    data = encode_batch(_records(2))
    for position in range(HEADER_BYTES, len(data)):
        for value in (0, 1, 2, 0x7F, 0x80, 0xFF):
            damaged = bytearray(data)
            damaged[position] = value
            _decodes_or_is_invalid(bytes(damaged))


@pytest.mark.fuzz
@given(st.binary(max_size=400), st.integers(0, 20), st.integers(0, 7))
def test_random_records_are_decoded_or_invalid(section: bytes, record_count: int, codec: int) -> None:
    header = replace(read_header(encode_batch(_records())), record_count=record_count, attributes=codec)
    _decodes_or_is_invalid(pack_batch(header, section))


def _decodes_or_is_invalid(data: bytes) -> None:
    with contextlib.suppress(InvalidBatch):
        assert len(decode_records(data, bytes_max=BOUND_BYTES)) == read_header(data).record_count


def test_unknown_codec_is_invalid() -> None:
    data = bytearray(encode_batch(_records()))
    struct.pack_into(">h", data, ATTRIBUTES_POSITION, 5)
    with pytest.raises(InvalidBatch, match="compression 5"):
        decode_records(bytes(data), bytes_max=BOUND_BYTES)


def test_record_that_promises_gigabytes_of_headers_is_rejected() -> None:
    record = bytearray(encode_record(_records(1)[0], timestamp_delta_ms=0, offset_delta=0))
    # The header count is the byte after the value; five bytes of a huge count replace it.
    promised = bytes(record).replace(b"\x02\x08name\x02x", b"\xfe\xff\xff\xff\x0f\x00\x00\x00")
    assert promised != bytes(record)
    data = pack_batch(read_header(encode_batch(_records(1))), promised)
    with pytest.raises(InvalidBatch):
        decode_records(data, bytes_max=BOUND_BYTES)


@given(st.binary(max_size=60), st.integers(0, 3))
def test_quick_look_for_keys_never_overlooks_what_the_careful_one_finds(data: bytes, count: int) -> None:
    if _all_have_keys(data, count):
        assert all(span.key is not None for span in walk_records(data, count))


@given(st.data())
def test_quick_look_for_keys_finds_damage_and_missing_keys(data: st.DataObject) -> None:
    records = [
        Record(key=data.draw(st.none() | st.binary(max_size=200)), value=value, timestamp_ms=0, offset=0)
        for value in data.draw(st.lists(st.none() | st.binary(max_size=200), max_size=5))
    ]
    section = bytearray(
        b"".join(
            encode_record(
                record,
                timestamp_delta_ms=data.draw(st.integers(0, 10**7)),
                offset_delta=data.draw(st.integers(0, 10**5)),
            )
            for record in records
        )
    )
    for at in data.draw(st.lists(st.integers(0, max(len(section) - 1, 0)), max_size=3)):
        if section:
            section[at] = data.draw(st.integers(0, 255))
    if _all_have_keys(bytes(section), len(records)):
        assert all(span.key is not None for span in walk_records(bytes(section), len(records)))
