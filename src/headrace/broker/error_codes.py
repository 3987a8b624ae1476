"""Which error code a failure becomes on the wire."""

from __future__ import annotations

from headrace.broker.configs.client_quotas import InvalidQuota, TooManyQuotas
from headrace.broker.configs.resource_configs import RefusedConfig, TooManyResources
from headrace.broker.configs.topic_configs import InvalidConfig
from headrace.broker.internal_topics import InternalTopic
from headrace.broker.topics import InvalidPartitionCount, TooManyPartitions, TopicExists
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
    InternalTopic: ErrorCode.INVALID_REQUEST,
    TopicExists: ErrorCode.TOPIC_ALREADY_EXISTS,
    TooManyPartitions: ErrorCode.POLICY_VIOLATION,
    InvalidPartitionCount: ErrorCode.INVALID_PARTITIONS,
    InvalidConfig: ErrorCode.INVALID_CONFIG,
    RefusedConfig: ErrorCode.INVALID_REQUEST,
    TooManyResources: ErrorCode.POLICY_VIOLATION,
    TooManyQuotas: ErrorCode.POLICY_VIOLATION,
    InvalidQuota: ErrorCode.INVALID_REQUEST,
    OSError: ErrorCode.KAFKA_STORAGE_ERROR,
}


def error_code(error: Exception) -> ErrorCode:
    """The code of the nearest known class of the error."""
    for kind in type(error).__mro__:
        if kind in _CODES:
            return _CODES[kind]
    return ErrorCode.UNKNOWN_SERVER_ERROR
