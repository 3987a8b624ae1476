"""DeleteTopics: delete topics and all that is in them.

4: flexible.
5: error messages; deletion may be throttled.
6: by name or by id: `topics` replaces `topic_names`.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import (
    ZERO_UUID,
    Int16,
    Int32,
    NullableString,
    String,
    Uuid,
    message,
    nullable_since,
    since,
    until,
)


class DeleteTopicState(Struct, frozen=True, kw_only=True):
    name: NullableString = None
    topic_id: Uuid = ZERO_UUID


@message(ApiKey.DELETE_TOPICS, versions=(1, 6), flexible_since=4)
class DeleteTopicsRequest(Struct, frozen=True, kw_only=True):
    topics: Annotated[tuple[DeleteTopicState, ...], since(6)] = ()
    topic_names: Annotated[tuple[String, ...], until(5)] = ()
    timeout_ms: Int32 = 60_000


class DeletableTopicResult(Struct, frozen=True, kw_only=True):
    name: Annotated[NullableString, nullable_since(6)]
    topic_id: Annotated[Uuid, since(6)] = ZERO_UUID
    error_code: Int16 = 0
    error_message: Annotated[NullableString, since(5)] = None


@message(ApiKey.DELETE_TOPICS, versions=(1, 6), flexible_since=4)
class DeleteTopicsResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    responses: tuple[DeletableTopicResult, ...]
