"""DeleteShareGroupOffsets: forget where a share group without members stands in topics."""

from __future__ import annotations

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import ZERO_UUID, Int16, Int32, NullableString, String, Uuid, message
from headrace.values import value


@value
class DeleteShareGroupOffsetsRequestTopic:
    topic_name: String


@message(ApiKey.DELETE_SHARE_GROUP_OFFSETS, versions=(0, 0), flexible_since=0)
class DeleteShareGroupOffsetsRequest:
    group_id: String
    topics: tuple[DeleteShareGroupOffsetsRequestTopic, ...]


@value
class DeleteShareGroupOffsetsResponseTopic:
    topic_name: String
    topic_id: Uuid = ZERO_UUID
    error_code: Int16 = 0
    error_message: NullableString = None


@message(ApiKey.DELETE_SHARE_GROUP_OFFSETS, versions=(0, 0), flexible_since=0)
class DeleteShareGroupOffsetsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    responses: tuple[DeleteShareGroupOffsetsResponseTopic, ...] = ()
