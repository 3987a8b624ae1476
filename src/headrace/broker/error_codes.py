"""Which error code and message a failure becomes on the wire."""

from __future__ import annotations

from collections.abc import Awaitable

from msgspec import Struct

from headrace.broker.rejections import RequestRejected
from headrace.errors import HeadraceError
from headrace.log import errors as log
from headrace.protocol.error_codes import ErrorCode
from headrace.records import errors as records
from headrace.topic_names import InvalidTopicName

_CODES: dict[type[Exception], ErrorCode] = {
    records.UnsupportedCodec: ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    records.DecompressionBomb: ErrorCode.MESSAGE_TOO_LARGE,
    records.InvalidBatch: ErrorCode.CORRUPT_MESSAGE,
    log.BatchTooLarge: ErrorCode.MESSAGE_TOO_LARGE,
    log.InvalidRecord: ErrorCode.INVALID_RECORD,
    log.InvalidTimestamp: ErrorCode.INVALID_TIMESTAMP,
    log.OutOfOrderSequence: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    log.DuplicateSequence: ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
    log.InvalidProducerEpoch: ErrorCode.INVALID_PRODUCER_EPOCH,
    log.InvalidTransactionState: ErrorCode.INVALID_TXN_STATE,
    log.OffsetOutOfRange: ErrorCode.OFFSET_OUT_OF_RANGE,
    log.CorruptSegment: ErrorCode.CORRUPT_MESSAGE,
    log.CorruptArchive: ErrorCode.CORRUPT_MESSAGE,
    log.ArchiveUnreachable: ErrorCode.KAFKA_STORAGE_ERROR,
    log.StorageFailed: ErrorCode.KAFKA_STORAGE_ERROR,
    log.LogReadOnly: ErrorCode.KAFKA_STORAGE_ERROR,
    InvalidTopicName: ErrorCode.INVALID_TOPIC_EXCEPTION,
    OSError: ErrorCode.KAFKA_STORAGE_ERROR,
}


def error_code(error: Exception) -> ErrorCode:
    """The code of a rejection, or of the nearest known class of the error."""
    if isinstance(error, RequestRejected):
        return error.code
    for kind in type(error).__mro__:
        if kind in _CODES:
            return _CODES[kind]
    return ErrorCode.UNKNOWN_SERVER_ERROR


class Outcome(Struct, frozen=True, kw_only=True):
    """Of one item of a request."""

    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


def failure(error: Exception) -> Outcome:
    return Outcome(code=error_code(error), message=str(error))


async def outcome_of(work: Awaitable[None]) -> Outcome:
    try:
        await work
    except (HeadraceError, OSError) as error:
        return failure(error)
    return Outcome()
