"""CreateTopics: make topics, by partition count or by an assignment of replicas.

4: -1 for partition count and replication factor takes the broker's default.
5: flexible; the answer holds the topic's settings.
6: creation may be throttled.
7: the answer holds the topic's id.
"""

from __future__ import annotations

from typing import Annotated

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
from headrace.values import value


@value
class CreatableReplicaAssignment:
    partition_index: Int32
    broker_ids: tuple[Int32, ...]


@value
class CreatableTopicConfig:
    name: String
    value: NullableString = None


@value
class CreatableTopic:
    name: String
    num_partitions: Int32 = -1
    replication_factor: Int16 = -1
    assignments: tuple[CreatableReplicaAssignment, ...] = ()
    configs: tuple[CreatableTopicConfig, ...] = ()


@message(ApiKey.CREATE_TOPICS, versions=(2, 7), flexible_since=5)
class CreateTopicsRequest:
    topics: tuple[CreatableTopic, ...]
    timeout_ms: Int32 = 60_000
    validate_only: Bool = False


@value
class CreatableTopicConfigs:
    name: String
    value: NullableString = None
    read_only: Bool = False
    config_source: Int8 = -1
    is_sensitive: Bool = False


@value
class CreatableTopicResult:
    name: String
    topic_id: Annotated[Uuid, since(7)] = ZERO_UUID
    error_code: Int16 = 0
    error_message: NullableString = None
    topic_config_error_code: Annotated[Int16, since(5), tagged(0)] = 0
    num_partitions: Annotated[Int32, since(5)] = -1
    replication_factor: Annotated[Int16, since(5)] = -1
    configs: Annotated[tuple[CreatableTopicConfigs, ...] | None, since(5)] = ()


@message(ApiKey.CREATE_TOPICS, versions=(2, 7), flexible_since=5)
class CreateTopicsResponse:
    throttle_time_ms: Int32 = 0
    topics: tuple[CreatableTopicResult, ...]
