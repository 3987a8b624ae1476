"""Changing the configs of resources: what AlterConfigs and IncrementalAlterConfigs share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.broker.configs import broker_configs, client_metrics, group_configs, topic_configs
from headrace.broker.configs.definitions import BROKER, CLIENT_METRICS, GROUP, TOPIC, ConfigDefinition
from headrace.broker.configs.resource_configs import ResourceConfigs
from headrace.broker.dispatch import Call
from headrace.broker.error_codes import Outcome, failure
from headrace.broker.rejections import RequestRejected
from headrace.broker.turns import in_turns
from headrace.errors import HeadraceError
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages import alter_configs, incremental_alter_configs
from headrace.protocol.messages.alter_configs import AlterConfigsResourceResponse

Configs = Mapping[str, str]

DEFINITIONS: dict[int, Callable[[str], ConfigDefinition]] = {
    TOPIC: topic_configs.definition,
    GROUP: group_configs.definition,
    BROKER: broker_configs.definition,
    CLIENT_METRICS: client_metrics.definition,
}
"""What a config of a resource is, by the resource's type."""


Request = alter_configs.AlterConfigsRequest | incremental_alter_configs.IncrementalAlterConfigsRequest
Resource = alter_configs.AlterConfigsResource | incremental_alter_configs.AlterConfigsResource
Change = Callable[[Any, Configs], Configs]
"""The configs that a resource of the request shall have, from those that it has."""


class _Altering:
    """One request. Resources other than topics have one file for each type, which is written once per request."""

    def __init__(self, call: Call, change: Change, *, validate_only: bool) -> None:
        self._parts = call.parts
        self._change = change
        self._validate_only = validate_only
        self._stores: dict[int, ResourceConfigs] = {
            GROUP: call.parts.group_configs,
            BROKER: call.parts.broker_configs,
            CLIENT_METRICS: call.parts.client_metrics,
        }
        self._changes: defaultdict[int, dict[str, Configs]] = defaultdict(dict)

    def alter(self, resource: Resource) -> Outcome:
        try:
            if resource.resource_type == TOPIC:
                self._alter_topic(resource)
            else:
                self._alter_other(resource)
        except (HeadraceError, OSError) as error:
            return failure(error)
        return Outcome()

    def _alter_topic(self, resource: Resource) -> None:
        topics = self._parts.topics
        topic = topics.get(resource.resource_name)
        if topic is None:
            raise RequestRejected(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the topic does not exist")
        configs = self._change(resource, topic.configs)
        topics.check_alteration(topic, configs)
        if not self._validate_only:
            topics.alter_configs(topic, configs)

    def _alter_other(self, resource: Resource) -> None:
        """A group, or a subscription, may have configs before it exists."""
        kind, name = resource.resource_type, resource.resource_name
        store = self._stores.get(kind)
        if store is None:
            raise RequestRejected(ErrorCode.INVALID_REQUEST, f"resources of type {kind} have no configs")
        node_id = str(self._parts.settings.node_id)
        if kind == BROKER and name not in (broker_configs.ALL_BROKERS, node_id):
            raise RequestRejected(
                ErrorCode.INVALID_REQUEST, f"there is no broker {name}", hint=f"the only one is {node_id}"
            )
        if kind != BROKER and not name:
            raise RequestRejected(ErrorCode.INVALID_REQUEST, "a group, or a subscription, has a name")
        configs = self._change(resource, self._changes[kind].get(name, store.of(name)))
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
                    failed[kind] = failure(error)
        return failed


async def alter(request: Request, change: Change, call: Call) -> tuple[AlterConfigsResourceResponse, ...]:
    """Alter the resources of a request in their order; the outcome of each."""
    altering = _Altering(call, change, validate_only=request.validate_only)
    resources: Sequence[Resource] = request.resources
    outcomes = await in_turns(resources, altering.alter)
    failed = altering.store()
    responses = []
    for resource, outcome in zip(resources, outcomes, strict=True):
        if outcome.code is ErrorCode.NONE:
            outcome = failed.get(resource.resource_type, outcome)
        responses.append(
            AlterConfigsResourceResponse(
                error_code=outcome.code,
                error_message=outcome.message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return tuple(responses)
