"""CreatePartitions: give topics more partitions; `count` is the new total.

2: flexible.
3: creation may be throttled.
"""

from __future__ import annotations

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import Bool, Int16, Int32, NullableString, String, message


class CreatePartitionsAssignment(Struct, frozen=True, kw_only=True):
    broker_ids: tuple[Int32, ...]


class CreatePartitionsTopic(Struct, frozen=True, kw_only=True):
    name: String
    count: Int32
    assignments: tuple[CreatePartitionsAssignment, ...] | None = None


@message(ApiKey.CREATE_PARTITIONS, versions=(0, 3), flexible_since=2)
class CreatePartitionsRequest(Struct, frozen=True, kw_only=True):
    topics: tuple[CreatePartitionsTopic, ...]
    timeout_ms: Int32 = 60_000
    validate_only: Bool = False


class CreatePartitionsTopicResult(Struct, frozen=True, kw_only=True):
    name: String
    error_code: Int16 = 0
    error_message: NullableString = None


@message(ApiKey.CREATE_PARTITIONS, versions=(0, 3), flexible_since=2)
class CreatePartitionsResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    results: tuple[CreatePartitionsTopicResult, ...]
