"""DescribeConfigs: the configs of topics, groups, client metrics and brokers, and the broker's settings."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from headrace.broker.configs.broker_configs import ALL_BROKERS, BROKER_CONFIGS, MIN_INSYNC_REPLICAS
from headrace.broker.configs.client_metrics import CLIENT_METRICS_CONFIGS
from headrace.broker.configs.config_synonyms import BROKER_SYNONYMS
from headrace.broker.configs.definitions import (
    BROKER,
    CLIENT_METRICS,
    GROUP,
    TOPIC,
    ConfigDefinition,
    ConfigType,
)
from headrace.broker.configs.group_configs import GROUP_CONFIGS
from headrace.broker.configs.topic_configs import TOPIC_CONFIGS
from headrace.broker.dispatch import Call, handles
from headrace.broker.endpoint import endpoint_for
from headrace.broker.rejections import RequestRejected
from headrace.broker.settings import BrokerSettings
from headrace.broker.shares.share_partition import group_numbers
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


Results = list[DescribeConfigsResourceResult]

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
    too_many = RequestRejected(ErrorCode.INVALID_REQUEST, message)
    results += [_failed(one, too_many) for one in wanted[described_max:]]
    return DescribeConfigsResponse(results=tuple(results))


def _describe(
    resource: DescribeConfigsResource, request: DescribeConfigsRequest, call: Call, problems: Sequence[str]
) -> DescribeConfigsResult:
    keys = resource.configuration_keys
    try:
        configs = _configs(resource, request, call)
    except RequestRejected as rejected:
        return _failed(resource, rejected)
    if resource.resource_type == BROKER and HEALTH in (keys or ()):
        configs.append(_read_only(HEALTH, problems, STATIC_BROKER_SOURCE))
    return DescribeConfigsResult(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=tuple(config for config in configs if keys is None or config.name in keys),
    )


def _failed(resource: DescribeConfigsResource, rejected: RequestRejected) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=rejected.code,
        error_message=rejected.message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _configs(resource: DescribeConfigsResource, request: DescribeConfigsRequest, call: Call) -> Results:
    kind, name, keys = resource.resource_type, resource.resource_name, resource.configuration_keys or ()
    if kind == TOPIC:
        topic = call.parts.topics.get(name)
        if topic is None:
            raise RequestRejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the topic does not exist")
        configs = _topic_configs(topic, request, call)
        if READ_ONLY_PARTITIONS in keys:
            configs.append(_read_only(READ_ONLY_PARTITIONS, _read_only_reasons(topic), TOPIC_SOURCE))
        return configs
    if kind == GROUP:
        configs = _group_configs(name, request, call)
        if SHARE_NUMBERS in keys:
            configs.append(_read_only(SHARE_NUMBERS, _share_numbers(name, call), GROUP_SOURCE))
        return configs
    if kind == CLIENT_METRICS:
        if not name:
            raise RequestRejected(ErrorCode.INVALID_REQUEST, "the subscription has no name")
        overrides = call.parts.client_metrics.of(name)
        return _resource_configs(CLIENT_METRICS_CONFIGS.values(), overrides, CLIENT_METRICS_SOURCE, request)
    if kind != BROKER:
        raise RequestRejected(ErrorCode.INVALID_REQUEST, f"resources of type {kind} have no configs")
    if name == ALL_BROKERS:
        return _altered_broker_configs(name, request, call)
    if name != str(call.parts.settings.node_id):
        raise RequestRejected(ErrorCode.INVALID_REQUEST, "the broker does not exist")
    return [
        *_altered_broker_configs(name, request, call),
        *_broker_configs(call.parts.settings, request),
        _advertised_listeners(call),
    ]


def _topic_configs(topic: Topic, request: DescribeConfigsRequest, call: Call) -> Results:
    replicas = call.parts.broker_configs.of(ALL_BROKERS)[MIN_INSYNC_REPLICAS]
    inherited = {MIN_INSYNC_REPLICAS: (replicas, ALL_BROKERS_SOURCE)}
    return _resource_configs(TOPIC_CONFIGS.values(), topic.configs, TOPIC_SOURCE, request, inherited)


def _group_configs(group_id: str, request: DescribeConfigsRequest, call: Call) -> Results:
    known = call.parts.group_configs
    inherited = {
        name: (value, STATIC_BROKER_SOURCE)
        for name, value in known.defaults.items()
        if value != GROUP_CONFIGS[name].default
    }
    return _resource_configs(GROUP_CONFIGS.values(), known.of(group_id), GROUP_SOURCE, request, inherited)


def _altered_broker_configs(name: str, request: DescribeConfigsRequest, call: Call) -> Results:
    """Only the configs that are set. For one broker, this includes those of all brokers."""
    of_all, source = call.parts.broker_configs.of(ALL_BROKERS), ALL_BROKERS_SOURCE
    overrides, inherited = of_all, None
    if name != ALL_BROKERS:
        overrides, source = call.parts.broker_configs.of(name), BROKER_SOURCE
        inherited = {each: (value, ALL_BROKERS_SOURCE) for each, value in of_all.items()}
    known = [config for each, config in BROKER_CONFIGS.items() if each in {**of_all, **overrides}]
    return _resource_configs(known, overrides, source, request, inherited, has_defaults=name != ALL_BROKERS)


def _resource_configs(
    configs: Iterable[ConfigDefinition],
    overrides: Mapping[str, str],
    source: int,
    request: DescribeConfigsRequest,
    inherited: Mapping[str, tuple[str, int]] | None = None,
    *,
    has_defaults: bool = True,
) -> Results:
    """`inherited` has values of configs that the resource does not set, with their sources."""
    results = []
    for config in configs:
        synonym = BROKER_SYNONYMS.get(config.name)
        levels = []
        if config.name in overrides:
            levels.append((config.name, overrides[config.name], source))
        if inherited is not None and config.name in inherited:
            levels.append((synonym or config.name, *inherited[config.name]))
        if synonym is not None and has_defaults:
            levels.append((synonym, config.default, DEFAULT_SOURCE))
        synonyms = tuple(
            DescribeConfigsSynonym(name=name, value=value, source=origin) for name, value, origin in levels
        )
        results.append(
            DescribeConfigsResourceResult(
                name=config.name,
                value=levels[0][1] if levels else config.default,
                config_source=levels[0][2] if levels else DEFAULT_SOURCE,
                synonyms=synonyms if request.include_synonyms else (),
                config_type=config.type,
                documentation=config.doc if request.include_documentation else None,
            )
        )
    return results


def _read_only(name: str, value: object, source: int) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=name, value=json.dumps(value), read_only=True, config_source=source
    )


def _share_numbers(group_id: str, call: Call) -> Mapping[str, object]:
    shares = [*call.parts.shares.of_group(group_id)]
    by_member = Counter[str]()
    for share in shares:
        for span in share.window.spans:
            if span.state is RecordState.ACQUIRED:
                by_member[span.member_id] += span.records
    numbers = group_numbers(shares, call.parts.runtime.clock.now_ms())
    return {**numbers, "in_flight_by_member": by_member}


def _read_only_reasons(topic: Topic) -> Mapping[int, str]:
    """The partitions that are read-only until the broker restarts, and the reasons."""
    return {
        partition.index: partition.log.read_only_reason
        for partition in topic.partitions
        if partition.log.read_only_reason is not None
    }


def _broker_configs(settings: BrokerSettings, request: DescribeConfigsRequest) -> Results:
    results = []
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        shown, kind = None if value is None else redacted(str(value)), ConfigType.STRING
        if isinstance(value, bool):
            shown, kind = str(value).lower(), ConfigType.BOOLEAN
        elif isinstance(value, int):
            kind = ConfigType.LONG
        results.append(
            DescribeConfigsResourceResult(
                name=KAFKA_NAMES.get(field.name) or f"headrace.{field.name.replace('_', '.')}",
                value=shown,
                read_only=True,
                config_source=DEFAULT_SOURCE if value == field.default else STATIC_BROKER_SOURCE,
                config_type=kind,
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
        config_type=ConfigType.LIST,
    )
