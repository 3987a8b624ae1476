"""CreateTopics: create topics, each with its number of partitions and its configs."""

from __future__ import annotations

from collections import Counter

from headrace.broker.configs.topic_configs import TOPIC_CONFIGS
from headrace.broker.dispatch import Call, handles
from headrace.broker.error_codes import error_code
from headrace.broker.handlers.describe_configs import DEFAULT_SOURCE, TOPIC_SOURCE
from headrace.broker.internal_topics import with_fixed_configs
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


@handles(ApiKey.CREATE_TOPICS, versions=(2, 7), is_long=True)
async def create_topics(request: CreateTopicsRequest, call: Call) -> CreateTopicsResponse:
    named = Counter(topic.name for topic in request.topics)
    turns = Turns()
    results = []
    for topic in request.topics:
        if named[topic.name] > 1:
            twice = "the topic is in the request more than once"
            result = CreatableTopicResult(
                name=topic.name, error_code=ErrorCode.INVALID_REQUEST, error_message=twice
            )
        else:
            result = await _create(topic, request.validate_only, call, turns)
        results.append(result)
        await turns.next()
    return CreateTopicsResponse(topics=tuple(results))


async def _create(
    wanted: CreatableTopic, validate_only: bool, call: Call, turns: Turns
) -> CreatableTopicResult:
    parts = call.parts
    partitions = _partition_count(wanted, parts.topics.default_partition_count(wanted.name))
    configs = {config.name: config.value for config in wanted.configs if config.value is not None}
    problem = _replica_problem(wanted, parts.settings.node_id)
    if problem is not None:
        code, message = problem
        return CreatableTopicResult(name=wanted.name, error_code=code, error_message=message)
    try:
        parts.topics.check_creation(wanted.name, partitions, configs)
        topic = None
        if not validate_only:
            topic = await turns.run(parts.topics.creating(wanted.name, partitions, configs))
    except (HeadraceError, OSError) as error:
        return CreatableTopicResult(name=wanted.name, error_code=error_code(error), error_message=str(error))
    result = CreatableTopicResult(
        name=wanted.name,
        num_partitions=partitions,
        replication_factor=1,
        configs=_configs(wanted.name, configs),
    )
    if topic is None:
        return result
    return CreatableTopicResult(
        name=wanted.name,
        topic_id=topic.id,
        num_partitions=partitions,
        replication_factor=1,
        configs=result.configs,
    )


def _partition_count(wanted: CreatableTopic, default: int) -> int:
    if wanted.assignments:
        return len(wanted.assignments)
    return default if wanted.num_partitions == -1 else wanted.num_partitions


def _replica_problem(wanted: CreatableTopic, node_id: int) -> tuple[ErrorCode, str] | None:
    if wanted.assignments:
        if (wanted.num_partitions, wanted.replication_factor) != (-1, -1):
            message = "an assignment sets the numbers of partitions and replicas; leave both numbers at -1"
            return ErrorCode.INVALID_REQUEST, message
        numbers = sorted(one.partition_index for one in wanted.assignments)
        if numbers != list(range(len(numbers))) or any(
            one.broker_ids != (node_id,) for one in wanted.assignments
        ):
            message = f"the assignment must put partitions 0, 1, … on the only broker, {node_id}"
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT, message
        return None
    if wanted.replication_factor not in (-1, 1):
        message = (
            f"replication factor {wanted.replication_factor} needs more than the only broker; "
            "use 1, or Apache Kafka for replicas"
        )
        return ErrorCode.INVALID_REPLICATION_FACTOR, message
    return None


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
