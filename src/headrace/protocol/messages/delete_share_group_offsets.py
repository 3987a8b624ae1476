"""DeleteShareGroupOffsets: delete the positions of a share group without members in topics."""

from __future__ import annotations

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import ZERO_UUID, Int16, Int32, NullableString, String, Uuid, message


class DeleteShareGroupOffsetsRequestTopic(Struct, frozen=True, kw_only=True):
    topic_name: String


@message(ApiKey.DELETE_SHARE_GROUP_OFFSETS, versions=(0, 0), flexible_since=0)
class DeleteShareGroupOffsetsRequest(Struct, frozen=True, kw_only=True):
    group_id: String
    topics: tuple[DeleteShareGroupOffsetsRequestTopic, ...]


class DeleteShareGroupOffsetsResponseTopic(Struct, frozen=True, kw_only=True):
    topic_name: String
    topic_id: Uuid = ZERO_UUID
    error_code: Int16 = 0
    error_message: NullableString = None


@message(ApiKey.DELETE_SHARE_GROUP_OFFSETS, versions=(0, 0), flexible_since=0)
class DeleteShareGroupOffsetsResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: NullableString = None
    responses: tuple[DeleteShareGroupOffsetsResponseTopic, ...] = ()
