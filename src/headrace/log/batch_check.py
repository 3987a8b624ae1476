"""What a batch off the wire must be before it may stand in a log: whole, unharmed, and within its topic's rules.

One `unpack_from` of the header is all that the hot path decodes; records are looked at only where the topic's
settings make it necessary.
"""

from __future__ import annotations

from headrace.log.config import LogConfig
from headrace.log.errors import BatchTooLarge, InvalidRecord, InvalidTimestamp, RecordsWithoutKey
from headrace.records.batch import (
    ATTRIBUTES_POSITION,
    CODEC_BITS,
    CONTROL_BIT,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    Buffer,
    Codec,
    CorruptBatch,
    TruncatedBatch,
    crc32c,
)
from headrace.records.record import recompress, records_without_key, with_log_append_time

NO_TIMESTAMP = -1
HeaderFields = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]

_unpack_header = HEADER.unpack_from


def check_batch(batch: Buffer, config: LogConfig, now_ms: int, *, from_client: bool) -> HeaderFields:
    """The header's fields in order; raises what the producer should hear."""
    size = len(batch)
    if size > config.batch_bytes_max:
        raise too_large(size, config)
    if size < HEADER_BYTES:
        raise TruncatedBatch(f"a batch has at least {HEADER_BYTES} bytes, this one {size}")
    header: HeaderFields = _unpack_header(batch)
    _, length, _, magic, crc, attributes, last_offset_delta, _, _, producer_id, _, base_sequence, count = (
        header
    )
    if magic != MAGIC:
        raise InvalidRecord(
            f"the batch has format {magic}, only format {MAGIC} is stored",
            hint="use a client of Kafka 0.11 or newer",
        )
    if length + LOG_OVERHEAD_BYTES != size:
        raise CorruptBatch(f"the batch claims {length + LOG_OVERHEAD_BYTES} bytes and has {size}")
    if crc32c(batch, ATTRIBUTES_POSITION) != crc:
        raise CorruptBatch(
            "the checksum of the batch does not match", hint="it was damaged on its way; send it again"
        )
    if count < 1 or last_offset_delta != count - 1:
        raise InvalidRecord(f"the batch claims {count} records and offsets up to +{last_offset_delta}")
    if from_client:
        if producer_id >= 0 and base_sequence < 0 and not attributes & CONTROL_BIT:
            raise InvalidRecord(f"producer {producer_id} sent a batch without a sequence number")
        _check_client_batch(batch, header, config, now_ms)
    return header


def _check_client_batch(batch: Buffer, header: HeaderFields, config: LogConfig, now_ms: int) -> None:
    attributes, base_timestamp_ms, max_timestamp_ms = header[5], header[7], header[8]
    if attributes & CONTROL_BIT:
        raise InvalidRecord("clients may not write control batches", hint="only the broker ends transactions")
    if attributes & LOG_APPEND_TIME_BIT:
        raise InvalidTimestamp(
            "the batch claims timestamps of the broker's clock", hint="producers write CreateTime"
        )
    if config.timestamp_type == "CreateTime":
        if max_timestamp_ms - now_ms > config.timestamp_after_max_ms:
            raise InvalidTimestamp(
                f"timestamp {max_timestamp_ms} lies {max_timestamp_ms - now_ms} ms in the future",
                hint=f"set the producer's clock, or raise message.timestamp.after.max.ms"
                f" ({config.timestamp_after_max_ms})",
            )
        if now_ms - base_timestamp_ms > config.timestamp_before_max_ms and base_timestamp_ms != NO_TIMESTAMP:
            raise InvalidTimestamp(
                f"timestamp {base_timestamp_ms} lies {now_ms - base_timestamp_ms} ms in the past",
                hint=f"raise message.timestamp.before.max.ms ({config.timestamp_before_max_ms})",
            )
    if config.is_compacted:
        keyless = records_without_key(batch, bytes_max=config.decompressed_bytes_max)
        if keyless:
            raise RecordsWithoutKey(indexes=keyless)


def is_stored_as_it_came(config: LogConfig) -> bool:
    return config.compression == "producer" and config.timestamp_type == "CreateTime"


def as_stored(batch: Buffer, attributes: int, config: LogConfig, now_ms: int) -> Buffer:
    """The batch in the codec and with the timestamps that the topic asks for."""
    codec = config.compression
    if isinstance(codec, Codec) and (attributes & CODEC_BITS) != codec:
        level = config.compression_level
        batch = recompress(batch, codec, level, bytes_max=config.decompressed_bytes_max)
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
