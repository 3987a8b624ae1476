"""Checks of a received batch before it is appended: complete, undamaged, and within the rules of its topic.

`check_batch` decodes only the header, so that it may run in the event loop. `inspect` decodes records, if the settings
of the topic require it; it belongs into a thread.
"""

from __future__ import annotations

from headrace.log.config import LogConfig
from headrace.log.errors import BatchTooLarge, InvalidRecord, InvalidTimestamp, RecordsWithoutKey
from headrace.log.producer_state import SEQUENCE_LIMIT
from headrace.records.batch import (
    ATTRIBUTES_POSITION,
    CODEC_BITS,
    CONTROL_BIT,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    TRANSACTIONAL_BIT,
    Buffer,
    crc32c,
)
from headrace.records.compression import Codec
from headrace.records.errors import InvalidBatch
from headrace.records.record import (
    check_record_count,
    recompress,
    records_without_key,
    with_log_append_time,
)

NO_TIMESTAMP = -1
RECORDS_NAMED_MAX = 10
"""How many records without a key an error names: the first few show the problem, and the response stays small."""

HeaderFields = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]

_unpack_header = HEADER.unpack_from


def check_batch(batch: Buffer, config: LogConfig, now_ms: int, *, from_client: bool) -> HeaderFields:
    """The fields of the header in order; raises the error for the producer."""
    size = len(batch)
    if size > config.batch_bytes_max:
        raise too_large(size, config)
    if size < HEADER_BYTES:
        raise InvalidBatch(f"a batch has at least {HEADER_BYTES} bytes, this one {size}")
    header: HeaderFields = _unpack_header(batch)
    _, length, _, magic, crc, attributes, last_offset_delta, _, _, producer_id, _, base_sequence, count = (
        header
    )
    if magic != MAGIC:
        raise InvalidRecord(
            f"the batch has format {magic}, only format {MAGIC} is supported",
            hint="use a client of Kafka 0.11 or newer",
        )
    if length + LOG_OVERHEAD_BYTES != size:
        raise InvalidBatch(f"the batch claims {length + LOG_OVERHEAD_BYTES} bytes and has {size}")
    if crc32c(batch, ATTRIBUTES_POSITION) != crc:
        raise InvalidBatch(
            "the checksum of the batch does not match", hint="it was damaged in transit; send it again"
        )
    if count < 1 or last_offset_delta != count - 1:
        raise InvalidRecord(f"the batch claims {count} records and offsets up to +{last_offset_delta}")
    if from_client:
        if producer_id >= 0 and base_sequence < 0 and not attributes & CONTROL_BIT:
            raise InvalidRecord(f"producer {producer_id} sent a batch without a sequence number")
        _check_client_batch(header, config, now_ms)
    return header


def follows(header: HeaderFields, previous: HeaderFields) -> bool:
    """Whether a checked batch of a client continues the sequence of the one before; batches without a sequence do."""
    if (header[5] | previous[5]) & TRANSACTIONAL_BIT or header[9] != previous[9]:
        return False
    if header[9] < 0:
        return True
    return header[10] == previous[10] and header[11] == (previous[11] + previous[6] + 1) % SEQUENCE_LIMIT


def _check_client_batch(header: HeaderFields, config: LogConfig, now_ms: int) -> None:
    attributes, base_timestamp_ms, max_timestamp_ms = header[5], header[7], header[8]
    check_record_count(header[12], config.batch_records_max)
    if attributes & CONTROL_BIT:
        raise InvalidRecord("clients may not write control batches", hint="only the broker ends transactions")
    if attributes & LOG_APPEND_TIME_BIT:
        raise InvalidTimestamp(
            "the batch claims timestamps of the broker's clock", hint="producers write CreateTime"
        )
    if config.timestamp_type == "CreateTime":
        if max_timestamp_ms - now_ms > config.timestamp_after_max_ms:
            raise InvalidTimestamp(
                f"timestamp {max_timestamp_ms} is {max_timestamp_ms - now_ms} ms in the future",
                hint=f"set the producer's clock, or raise message.timestamp.after.max.ms"
                f" ({config.timestamp_after_max_ms})",
            )
        if now_ms - base_timestamp_ms > config.timestamp_before_max_ms and base_timestamp_ms != NO_TIMESTAMP:
            raise InvalidTimestamp(
                f"timestamp {base_timestamp_ms} is {now_ms - base_timestamp_ms} ms in the past",
                hint=f"raise message.timestamp.before.max.ms ({config.timestamp_before_max_ms})",
            )


def may_inspect(config: LogConfig) -> bool:
    """Whether batches of the topic may have to be decompressed before they are stored."""
    return config.is_compacted or config.compression != "producer"


def must_inspect(batch: Buffer, config: LogConfig) -> bool:
    """Whether this batch of a client has to be decompressed; one that is too short is rejected without it."""
    if len(batch) < HEADER_BYTES:
        return False
    return config.is_compacted or _is_in_other_codec(batch, config)


def _is_in_other_codec(batch: Buffer, config: LogConfig) -> bool:
    attributes = batch[ATTRIBUTES_POSITION + 1]  # of two bytes; the second has all the bits in use
    if attributes & CONTROL_BIT or config.compression == "producer":
        return False
    return (attributes & CODEC_BITS) != config.compression


def inspect(batch: Buffer, config: LogConfig, *, from_client: bool) -> Buffer:
    """The batch in the codec of the topic; raises if its records break the rules of the topic.

    The batch has passed `check_batch`. The time that this takes grows with the size and number of its records.
    """
    if from_client and config.is_compacted:
        count, indexes = records_without_key(
            batch, bytes_max=config.decompressed_bytes_max, indexes_max=RECORDS_NAMED_MAX
        )
        if count:
            raise RecordsWithoutKey(count=count, indexes=indexes)
    if isinstance(config.compression, Codec) and _is_in_other_codec(batch, config):
        return recompress(
            batch,
            config.compression,
            config.compression_level,
            bytes_max=config.decompressed_bytes_max,
        )
    return batch


def inspected_batch(batch: Buffer, config: LogConfig, now_ms: int) -> Buffer:
    """A client's batch, checked and inspected in a thread; `append` it with `is_inspected`."""
    check_batch(batch, config, now_ms, from_client=True)
    return inspect(batch, config, from_client=True)


def is_stored_unchanged(config: LogConfig) -> bool:
    return config.compression == "producer" and config.timestamp_type == "CreateTime"


def as_stored(batch: Buffer, config: LogConfig, now_ms: int) -> Buffer:
    """An inspected batch with the timestamps that the topic requires."""
    if config.timestamp_type == "LogAppendTime":
        batch = with_log_append_time(batch, now_ms)
    if len(batch) > config.batch_bytes_max:
        raise too_large(len(batch), config)
    return batch


def too_large(size: int, config: LogConfig) -> BatchTooLarge:
    return BatchTooLarge(
        f"the batch has {size} bytes, {config.batch_bytes_max} are allowed",
        hint="lower the producer's batch.size or raise the topic's max.message.bytes",
    )
