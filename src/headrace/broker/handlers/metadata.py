"""Metadata: this broker leads every partition. A missing topic is created if the client and the settings allow it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence

from headrace.broker.authorized_operations import (
    CLUSTER_OPERATIONS_ALL,
    NOT_REQUESTED,
    TOPIC_OPERATIONS_ALL,
)
from headrace.broker.dispatch import Call, handles
from headrace.broker.endpoint import endpoint_for
from headrace.broker.error_codes import error_code
from headrace.broker.topics import Topic
from headrace.broker.turns import in_turns
from headrace.errors import HeadraceError
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from headrace.protocol.types import ZERO_UUID

logger = logging.getLogger(__name__)

TOPICS_AT_ONCE_MAX = 10
"""Topics that are described without a pause: the creation of a missing one takes a millisecond or two."""


@handles(ApiKey.METADATA, versions=(0, 13), is_long=True)
def metadata(request: MetadataRequest, call: Call) -> MetadataResponse | Awaitable[MetadataResponse]:
    wants_all = request.topics is None or (call.version == 0 and not request.topics)
    if wants_all:
        return _response([_describe(topic, request, call) for topic in call.parts.topics], request, call)
    wanted = request.topics or ()
    if len(wanted) > TOPICS_AT_ONCE_MAX:
        return _find_in_turns(wanted, request, call)
    return _response([_find(topic, request, call) for topic in wanted], request, call)


async def _find_in_turns(
    wanted: Sequence[MetadataRequestTopic], request: MetadataRequest, call: Call
) -> MetadataResponse:
    return _response(await in_turns(wanted, lambda topic: _find(topic, request, call)), request, call)


def _response(
    topics: Sequence[MetadataResponseTopic], request: MetadataRequest, call: Call
) -> MetadataResponse:
    parts = call.parts
    endpoint = endpoint_for(call.client, parts.settings)
    broker = MetadataResponseBroker(node_id=endpoint.node_id, host=endpoint.host, port=endpoint.port)
    return MetadataResponse(
        brokers=(broker,),
        cluster_id=parts.cluster_id,
        controller_id=parts.settings.node_id,
        topics=tuple(topics),
        cluster_authorized_operations=CLUSTER_OPERATIONS_ALL
        if request.include_cluster_authorized_operations
        else NOT_REQUESTED,
    )


def _find(wanted: MetadataRequestTopic, request: MetadataRequest, call: Call) -> MetadataResponseTopic:
    topics = call.parts.topics
    if wanted.topic_id != ZERO_UUID:
        by_id = topics.get_by_id(wanted.topic_id)
        if by_id is not None:
            return _describe(by_id, request, call)
        # Before version 12 a response must have a name.
        return MetadataResponseTopic(
            name=wanted.name if call.version >= 12 else wanted.name or "",
            topic_id=wanted.topic_id,
            error_code=ErrorCode.UNKNOWN_TOPIC_ID,
        )
    name = wanted.name or ""
    topic = topics.get(name)
    if topic is None and request.allow_auto_topic_creation and call.parts.settings.auto_create_topics:
        return _create(name, request, call)
    if topic is None:
        return MetadataResponseTopic(name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return _describe(topic, request, call)


def _create(name: str, request: MetadataRequest, call: Call) -> MetadataResponseTopic:
    parts = call.parts
    try:
        topic = parts.topics.create(name, parts.topics.default_partition_count(name), {})
    except (HeadraceError, OSError) as error:
        logger.warning("topic not created", extra={"topic": name, "reason": str(error)})
        return MetadataResponseTopic(name=name, error_code=error_code(error))
    return _describe(topic, request, call)


def _describe(topic: Topic, request: MetadataRequest, call: Call) -> MetadataResponseTopic:
    node = call.parts.settings.node_id
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=tuple(
            MetadataResponsePartition(
                partition_index=partition.index,
                leader_id=node,
                leader_epoch=partition.log.leader_epoch,
                replica_nodes=(node,),
                isr_nodes=(node,),
            )
            for partition in topic.partitions
        ),
        topic_authorized_operations=TOPIC_OPERATIONS_ALL
        if request.include_topic_authorized_operations
        else NOT_REQUESTED,
    )
