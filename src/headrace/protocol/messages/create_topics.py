"""CreateTopics: create topics, by partition count or by an assignment of replicas.

4: -1 for partition count and replication factor takes the broker's default.
5: flexible; the response has the topic's configs.
6: creation may be throttled.
7: the response has the topic's id.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from headrace.protocol.api_keys import ApiKey
from headrace.protocol.types import (
    ZERO_UUID,
    Bool,
    Int8,
    Int16,
    Int32,
    NullableString,
    String,
    Uuid,
    message,
    since,
    tagged,
)


class CreatableReplicaAssignment(Struct, frozen=True, kw_only=True):
    partition_index: Int32
    broker_ids: tuple[Int32, ...]


class CreatableTopicConfig(Struct, frozen=True, kw_only=True):
    name: String
    value: NullableString = None


class CreatableTopic(Struct, frozen=True, kw_only=True):
    name: String
    num_partitions: Int32 = -1
    replication_factor: Int16 = -1
    assignments: tuple[CreatableReplicaAssignment, ...] = ()
    configs: tuple[CreatableTopicConfig, ...] = ()


@message(ApiKey.CREATE_TOPICS, versions=(2, 7), flexible_since=5)
class CreateTopicsRequest(Struct, frozen=True, kw_only=True):
    topics: tuple[CreatableTopic, ...]
    timeout_ms: Int32 = 60_000
    validate_only: Bool = False


class CreatableTopicConfigs(Struct, frozen=True, kw_only=True):
    name: String
    value: NullableString = None
    read_only: Bool = False
    config_source: Int8 = -1
    is_sensitive: Bool = False


class CreatableTopicResult(Struct, frozen=True, kw_only=True):
    name: String
    topic_id: Annotated[Uuid, since(7)] = ZERO_UUID
    error_code: Int16 = 0
    error_message: NullableString = None
    topic_config_error_code: Annotated[Int16, since(5), tagged(0)] = 0
    num_partitions: Annotated[Int32, since(5)] = -1
    replication_factor: Annotated[Int16, since(5)] = -1
    configs: Annotated[tuple[CreatableTopicConfigs, ...] | None, since(5)] = ()


@message(ApiKey.CREATE_TOPICS, versions=(2, 7), flexible_since=5)
class CreateTopicsResponse(Struct, frozen=True, kw_only=True):
    throttle_time_ms: Int32 = 0
    topics: tuple[CreatableTopicResult, ...]
