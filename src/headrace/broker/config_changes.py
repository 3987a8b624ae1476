"""Changing the configs of resources: what AlterConfigs and IncrementalAlterConfigs share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from headrace.broker.configs import broker_configs, client_metrics, group_configs, topic_configs
from headrace.broker.configs.resource_configs import RefusedConfig, ResourceConfig, ResourceConfigs
from headrace.broker.configs.resource_types import BROKER, CLIENT_METRICS, GROUP, TOPIC
from headrace.broker.configs.topic_configs import TopicConfig
from headrace.broker.dispatch import Call
from headrace.broker.error_codes import error_code
from headrace.broker.turns import in_turns
from headrace.errors import HeadraceError
from headrace.protocol.error_codes import ErrorCode

Configs = Mapping[str, str]

DEFINITIONS: dict[int, Callable[[str], TopicConfig | ResourceConfig]] = {
    TOPIC: topic_configs.definition,
    GROUP: group_configs.definition,
    BROKER: broker_configs.definition,
    CLIENT_METRICS: client_metrics.definition,
}
"""What a config of a resource is, by the resource's type."""


class Alteration(Struct, frozen=True, kw_only=True):
    """A requested change of one resource: `change` gets its configs, and returns the new ones."""

    resource_type: int
    name: str
    change: Callable[[Configs], Configs]


class Outcome(Struct, frozen=True, kw_only=True):
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


class _Altering:
    """One request. Resources other than topics have one file for each type, which is written once per request."""

    def __init__(self, call: Call, *, validate_only: bool) -> None:
        self._parts = call.parts
        self._validate_only = validate_only
        self._stores: dict[int, ResourceConfigs] = {
            GROUP: call.parts.group_configs,
            BROKER: call.parts.broker_configs,
            CLIENT_METRICS: call.parts.client_metrics,
        }
        self._changes: defaultdict[int, dict[str, Configs]] = defaultdict(dict)

    def alter(self, wanted: Alteration) -> Outcome:
        try:
            if wanted.resource_type == TOPIC:
                return self._alter_topic(wanted)
            self._alter_other(wanted)
        except (HeadraceError, OSError) as error:
            return _failure(error)
        return Outcome()

    def _alter_topic(self, wanted: Alteration) -> Outcome:
        topics = self._parts.topics
        topic = topics.get(wanted.name)
        if topic is None:
            return Outcome(code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message="the topic does not exist")
        configs = wanted.change(topic.configs)
        topics.check_alteration(topic, configs)
        if not self._validate_only:
            topics.alter_configs(topic, configs)
        return Outcome()

    def _alter_other(self, wanted: Alteration) -> None:
        """A group, or a subscription, may have configs before it exists."""
        kind, name = wanted.resource_type, wanted.name
        store = self._stores.get(kind)
        if store is None:
            raise RefusedConfig(f"resources of type {kind} have no configs")
        node_id = str(self._parts.settings.node_id)
        if kind == BROKER and name not in (broker_configs.ALL_BROKERS, node_id):
            raise RefusedConfig(f"there is no broker {name}", hint=f"the only one is {node_id}")
        if kind != BROKER and not name:
            raise RefusedConfig("a group, or a subscription, has a name")
        configs = wanted.change(self._changes[kind].get(name, store.of(name)))
        store.check(name, configs)
        self._changes[kind][name] = configs

    def store(self) -> dict[int, Outcome]:
        """The failures to write, by resource type."""
        failed: dict[int, Outcome] = {}
        if not self._validate_only:
            for kind, changes in self._changes.items():
                try:
                    if changes:
                        self._stores[kind].replace(changes)
                except (HeadraceError, OSError) as error:
                    failed[kind] = _failure(error)
        return failed


def _failure(error: Exception) -> Outcome:
    return Outcome(code=error_code(error), message=str(error))


async def alter(wanted: Sequence[Alteration], *, validate_only: bool, call: Call) -> list[Outcome]:
    """Alter resources in their order; the outcome of each."""
    altering = _Altering(call, validate_only=validate_only)
    outcomes = await in_turns(wanted, altering.alter)
    failed = altering.store()
    return [
        failed.get(one.resource_type, outcome) if outcome.code is ErrorCode.NONE else outcome
        for one, outcome in zip(wanted, outcomes, strict=True)
    ]
