"""DescribeConfigs: the configs of topics, groups, client metrics and brokers, and the broker's settings."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from headrace.broker.configs.broker_configs import ALL_BROKERS, BROKER_CONFIGS, MIN_INSYNC_REPLICAS
from headrace.broker.configs.client_metrics import CLIENT_METRICS_CONFIGS
from headrace.broker.configs.config_synonyms import BROKER_SYNONYMS
from headrace.broker.configs.group_configs import GROUP_CONFIGS
from headrace.broker.configs.resource_configs import ResourceConfig
from headrace.broker.configs.resource_types import BROKER, CLIENT_METRICS, GROUP, TOPIC
from headrace.broker.configs.topic_configs import TOPIC_CONFIGS, ConfigType, TopicConfig
from headrace.broker.dispatch import Call, handles
from headrace.broker.endpoint import endpoint_for
from headrace.broker.settings import BrokerSettings
from headrace.broker.shares.numbers import group_numbers
from headrace.broker.shares.states import RecordState
from headrace.broker.topics import Topic
from headrace.broker.turns import in_turns
from headrace.protocol.api_keys import ApiKey
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from headrace.redaction import redacted

TOPIC_SOURCE, BROKER_SOURCE, ALL_BROKERS_SOURCE, STATIC_BROKER_SOURCE, DEFAULT_SOURCE = 1, 2, 3, 4, 5
CLIENT_METRICS_SOURCE, GROUP_SOURCE = 7, 8

# Values that no Kafka API has a field for. They are not configs, so only a request that names them gets them.
SHARE_NUMBERS = "headrace.share.numbers"
READ_ONLY_PARTITIONS = "headrace.read.only.partitions"
HEALTH = "headrace.health"


class Inherited(Struct, frozen=True, kw_only=True):
    """The value of a config that the resource does not set, and its source."""

    value: str
    source: int


NOTHING: Mapping[str, Inherited] = MappingProxyType({})

# Settings with the same meaning as a setting of Kafka: tools look for them under its name.
KAFKA_NAMES = {
    "auto_create_topics": "auto.create.topics.enable",
    "connections_max": "max.connections",
    "data_dir": "log.dirs",
    "checkpoint_interval_ms": "log.flush.offset.checkpoint.interval.ms",
    "compaction_interval_ms": "log.cleaner.backoff.ms",
    "default_partitions": "num.partitions",
    "fetch_bytes_max": "fetch.max.bytes",
    "fetch_sessions_max": "max.incremental.fetch.session.cache.slots",
    "group_initial_rebalance_delay_ms": "group.initial.rebalance.delay.ms",
    "group_members_max": "group.max.size",
    "group_session_timeout_ms_max": "group.max.session.timeout.ms",
    "group_session_timeout_ms_min": "group.min.session.timeout.ms",
    "housekeeping_interval_ms": "log.retention.check.interval.ms",
    "idle_connection_ms_max": "connections.max.idle.ms",
    "node_id": "node.id",
    "offset_metadata_bytes_max": "offset.metadata.max.bytes",
    "producer_id_expiration_ms": "producer.id.expiration.ms",
    "request_bytes_max": "socket.request.max.bytes",
    "share_record_lock_duration_ms": "group.share.record.lock.duration.ms",
}


@handles(ApiKey.DESCRIBE_CONFIGS, versions=(1, 4), is_long=True)
async def describe_configs(request: DescribeConfigsRequest, call: Call) -> DescribeConfigsResponse:
    # Each only once: a response is many times as large as its request.
    resources = {
        (one.resource_type, one.resource_name, one.configuration_keys): one for one in request.resources
    }
    problems: Sequence[str] = ()
    if any(HEALTH in (resource.configuration_keys or ()) for resource in resources.values()):
        problems = await call.parts.health.problems()
    wanted = list(resources.values())
    described_max = call.parts.settings.partitions_max
    results = await in_turns(
        wanted[:described_max], lambda resource: _describe(resource, request, call, problems)
    )
    message = f"{len(wanted)} resources are in the request; name at most {described_max}"
    results += [_failed(one, ErrorCode.INVALID_REQUEST, message) for one in wanted[described_max:]]
    return DescribeConfigsResponse(results=tuple(results))


def _describe(
    resource: DescribeConfigsResource, request: DescribeConfigsRequest, call: Call, problems: Sequence[str]
) -> DescribeConfigsResult:
    name, keys = resource.resource_name, resource.configuration_keys
    if resource.resource_type == TOPIC:
        topic = call.parts.topics.get(name)
        if topic is None:
            return _failed(resource, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the topic does not exist")
        configs = _topic_configs(topic, request, call)
        if READ_ONLY_PARTITIONS in (keys or ()):
            configs.append(_read_only_partitions(topic))
    elif resource.resource_type == GROUP:
        configs = _group_configs(name, request, call)
        if SHARE_NUMBERS in (keys or ()):
            configs.append(_share_numbers(name, call))
    elif resource.resource_type == CLIENT_METRICS:
        if not name:
            return _failed(resource, ErrorCode.INVALID_REQUEST, "the subscription has no name")
        overrides = call.parts.client_metrics.of(name)
        configs = _resource_configs(
            CLIENT_METRICS_CONFIGS.values(), overrides, CLIENT_METRICS_SOURCE, request
        )
    elif resource.resource_type == BROKER:
        if name not in (ALL_BROKERS, str(call.parts.settings.node_id)):
            return _failed(resource, ErrorCode.INVALID_REQUEST, "the broker does not exist")
        configs = _altered_broker_configs(name, request, call)
        if name != ALL_BROKERS:
            configs += [*_broker_configs(call.parts.settings, request), _advertised_listeners(call)]
        if HEALTH in (keys or ()):
            configs.append(_health(problems))
    else:
        return _failed(
            resource,
            ErrorCode.INVALID_REQUEST,
            f"resources of type {resource.resource_type} have no configs",
        )
    return DescribeConfigsResult(
        resource_type=resource.resource_type,
        resource_name=name,
        configs=tuple(config for config in configs if keys is None or config.name in keys),
    )


def _failed(resource: DescribeConfigsResource, code: ErrorCode, message: str) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _topic_configs(
    topic: Topic, request: DescribeConfigsRequest, call: Call
) -> list[DescribeConfigsResourceResult]:
    of_all_brokers = call.parts.broker_configs.of(ALL_BROKERS)
    inherited = {
        MIN_INSYNC_REPLICAS: Inherited(value=of_all_brokers[MIN_INSYNC_REPLICAS], source=ALL_BROKERS_SOURCE)
    }
    return _resource_configs(
        TOPIC_CONFIGS.values(), topic.configs, TOPIC_SOURCE, request, inherited=inherited
    )


def _group_configs(
    group_id: str, request: DescribeConfigsRequest, call: Call
) -> list[DescribeConfigsResourceResult]:
    known = call.parts.group_configs
    inherited = {
        name: Inherited(value=value, source=STATIC_BROKER_SOURCE)
        for name, value in known.defaults.items()
        if value != GROUP_CONFIGS[name].default
    }
    return _resource_configs(
        GROUP_CONFIGS.values(), known.of(group_id), GROUP_SOURCE, request, inherited=inherited
    )


def _altered_broker_configs(
    name: str, request: DescribeConfigsRequest, call: Call
) -> list[DescribeConfigsResourceResult]:
    """Only the configs that are set. For one broker, this includes those of all brokers."""
    of_all, source = call.parts.broker_configs.of(ALL_BROKERS), ALL_BROKERS_SOURCE
    overrides, inherited = of_all, NOTHING
    if name != ALL_BROKERS:
        overrides, source = call.parts.broker_configs.of(name), BROKER_SOURCE
        inherited = {each: Inherited(value=of_all[each], source=ALL_BROKERS_SOURCE) for each in of_all}
    known = [config for each, config in BROKER_CONFIGS.items() if each in {**of_all, **overrides}]
    return _resource_configs(
        known, overrides, source, request, inherited=inherited, has_defaults=name != ALL_BROKERS
    )


def _resource_configs(
    configs: Iterable[TopicConfig | ResourceConfig],
    overrides: Mapping[str, str],
    source: int,
    request: DescribeConfigsRequest,
    *,
    inherited: Mapping[str, Inherited] = NOTHING,
    has_defaults: bool = True,
) -> list[DescribeConfigsResourceResult]:
    results = []
    for config in configs:
        synonym = BROKER_SYNONYMS.get(config.name)
        levels = []
        if config.name in overrides:
            levels.append(
                DescribeConfigsSynonym(name=config.name, value=overrides[config.name], source=source)
            )
        if (from_broker := inherited.get(config.name)) is not None:
            levels.append(
                DescribeConfigsSynonym(
                    name=synonym or config.name, value=from_broker.value, source=from_broker.source
                )
            )
        if synonym is not None and has_defaults:
            levels.append(DescribeConfigsSynonym(name=synonym, value=config.default, source=DEFAULT_SOURCE))
        results.append(
            DescribeConfigsResourceResult(
                name=config.name,
                value=levels[0].value if levels else config.default,
                config_source=levels[0].source if levels else DEFAULT_SOURCE,
                synonyms=tuple(levels) if request.include_synonyms else (),
                config_type=config.type,
                documentation=config.doc if request.include_documentation else None,
            )
        )
    return results


def _share_numbers(group_id: str, call: Call) -> DescribeConfigsResourceResult:
    shares = [*call.parts.shares.of_group(group_id)]
    numbers: dict[str, object] = {**group_numbers(shares, call.parts.runtime.clock.now_ms())}
    by_member = Counter[str]()
    for share in shares:
        for span in share.window.spans():
            if span.state is RecordState.ACQUIRED:
                by_member[span.member_id] += span.records
    numbers["in_flight_by_member"] = by_member
    return DescribeConfigsResourceResult(
        name=SHARE_NUMBERS, value=json.dumps(numbers), read_only=True, config_source=GROUP_SOURCE
    )


def _health(problems: Sequence[str]) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=HEALTH, value=json.dumps(problems), read_only=True, config_source=STATIC_BROKER_SOURCE
    )


def _read_only_partitions(topic: Topic) -> DescribeConfigsResourceResult:
    """The partitions that are read-only until the broker restarts, and the reasons."""
    reasons = {
        partition.index: partition.log.read_only_reason
        for partition in topic.partitions
        if partition.log.read_only_reason is not None
    }
    return DescribeConfigsResourceResult(
        name=READ_ONLY_PARTITIONS, value=json.dumps(reasons), read_only=True, config_source=TOPIC_SOURCE
    )


def _broker_configs(
    settings: BrokerSettings, request: DescribeConfigsRequest
) -> list[DescribeConfigsResourceResult]:
    results = []
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        results.append(
            DescribeConfigsResourceResult(
                name=KAFKA_NAMES.get(field.name) or f"headrace.{field.name.replace('_', '.')}",
                value=None
                if value is None
                else str(value).lower()
                if isinstance(value, bool)
                else redacted(str(value)),
                read_only=True,
                config_source=DEFAULT_SOURCE if value == field.default else STATIC_BROKER_SOURCE,
                synonyms=(),
                config_type=_config_type(value),
                documentation=field.metadata["doc"] if request.include_documentation else None,
            )
        )
    return results


def _advertised_listeners(call: Call) -> DescribeConfigsResourceResult:
    """The address that this client gets, under the name and in the format of Kafka."""
    endpoint = endpoint_for(call.client, call.parts.settings)
    return DescribeConfigsResourceResult(
        name="advertised.listeners",
        value=f"PLAINTEXT://{endpoint.host}:{endpoint.port}",
        read_only=True,
        config_source=STATIC_BROKER_SOURCE,
        synonyms=(),
        config_type=ConfigType.LIST,
    )


def _config_type(value: object) -> ConfigType:
    if isinstance(value, bool):
        return ConfigType.BOOLEAN
    return ConfigType.LONG if isinstance(value, int) else ConfigType.STRING
