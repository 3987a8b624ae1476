"""CreateTopics: create topics, each with its number of partitions and its configs."""

from __future__ import annotations

from collections import Counter

from headrace.broker.configs.topic_configs import TOPIC_CONFIGS
from headrace.broker.dispatch import Call, handles
from headrace.broker.error_codes import error_code
from headrace.broker.handlers.describe_configs import DEFAULT_SOURCE, TOPIC_SOURCE
from headrace.broker.internal_topics import with_fixed_configs
from headrace.broker.rejections import RequestRejected
from headrace.broker.turns import Turns
from headrace.errors import HeadraceError
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.protocol.types import ZERO_UUID


@handles(ApiKey.CREATE_TOPICS, versions=(2, 7), is_long=True)
async def create_topics(request: CreateTopicsRequest, call: Call) -> CreateTopicsResponse:
    named = Counter(topic.name for topic in request.topics)
    turns = Turns()
    results = []
    for topic in request.topics:
        try:
            if named[topic.name] > 1:
                raise RequestRejected(ErrorCode.INVALID_REQUEST, "the topic is in the request more than once")
            results.append(await _create(topic, request.validate_only, call, turns))
        except (HeadraceError, OSError) as error:
            results.append(
                CreatableTopicResult(name=topic.name, error_code=error_code(error), error_message=str(error))
            )
        await turns.next()
    return CreateTopicsResponse(topics=tuple(results))


async def _create(
    wanted: CreatableTopic, validate_only: bool, call: Call, turns: Turns
) -> CreatableTopicResult:
    topics = call.parts.topics
    _check_replicas(wanted, call.parts.settings.node_id)
    partitions = len(wanted.assignments) or wanted.num_partitions
    if partitions == -1:
        partitions = topics.default_partition_count(wanted.name)
    configs = {config.name: config.value for config in wanted.configs if config.value is not None}
    topics.check_creation(wanted.name, partitions, configs)
    topic_id = ZERO_UUID
    if not validate_only:
        topic_id = (await turns.run(topics.creating(wanted.name, partitions, configs))).id
    return CreatableTopicResult(
        name=wanted.name,
        topic_id=topic_id,
        num_partitions=partitions,
        replication_factor=1,
        configs=_configs(wanted.name, configs),
    )


def _check_replicas(wanted: CreatableTopic, node_id: int) -> None:
    if wanted.assignments:
        if (wanted.num_partitions, wanted.replication_factor) != (-1, -1):
            raise RequestRejected(
                ErrorCode.INVALID_REQUEST,
                "an assignment sets the numbers of partitions and replicas; leave both numbers at -1",
            )
        numbers = sorted(one.partition_index for one in wanted.assignments)
        if numbers != list(range(len(numbers))) or any(
            one.broker_ids != (node_id,) for one in wanted.assignments
        ):
            raise RequestRejected(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"the assignment must put partitions 0, 1, … on the only broker, {node_id}",
            )
    elif wanted.replication_factor not in (-1, 1):
        raise RequestRejected(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {wanted.replication_factor} needs more than the only broker; "
            "use 1, or Apache Kafka for replicas",
        )


def _configs(name: str, given: dict[str, str]) -> tuple[CreatableTopicConfigs, ...]:
    overrides = with_fixed_configs(name, given)
    return tuple(
        CreatableTopicConfigs(
            name=config.name,
            value=overrides.get(config.name, config.default),
            config_source=TOPIC_SOURCE if config.name in overrides else DEFAULT_SOURCE,
        )
        for config in TOPIC_CONFIGS.values()
    )
