"""Changing the configs of resources: what AlterConfigs and IncrementalAlterConfigs share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from headrace.broker import group_configs
from headrace.broker.dispatch import Call
from headrace.broker.error_codes import error_code
from headrace.broker.handlers.describe_configs import GROUP, TOPIC
from headrace.broker.turns import in_turns
from headrace.errors import HeadraceError
from headrace.protocol.error_codes import ErrorCode
from headrace.values import value

Configs = Mapping[str, str]


@value
class Alteration:
    """What a request wants of one resource: its configs are replaced by what `change` makes of them."""

    resource_type: int
    name: str
    change: Callable[[Configs], Configs]


@value
class Outcome:
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


class _Altering:
    """One request: groups are kept in one file, which is written once for all of them."""

    def __init__(self, call: Call, *, validate_only: bool) -> None:
        self._services = call.services
        self._validate_only = validate_only
        self._groups: dict[str, Configs] = {}

    def alter(self, wanted: Alteration) -> Outcome:
        if wanted.resource_type == GROUP:
            return self._alter_group(wanted)
        if wanted.resource_type != TOPIC:
            return Outcome(
                code=ErrorCode.INVALID_REQUEST,
                message="only topics and groups can be altered; the broker's settings are read at its start",
            )
        topics = self._services.topics
        topic = topics.get(wanted.name)
        if topic is None:
            return Outcome(code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message="there is no such topic")
        try:
            configs = wanted.change(topic.configs)
            topics.check_alteration(topic, configs)
            if not self._validate_only:
                topics.alter_configs(topic, configs)
        except (HeadraceError, OSError) as error:
            return _failure(error)
        return Outcome()

    def _alter_group(self, wanted: Alteration) -> Outcome:
        """A group may have configs before it has members."""
        if not wanted.name:
            return Outcome(code=ErrorCode.INVALID_REQUEST, message="a group has a name")
        known = self._services.group_configs
        try:
            configs = wanted.change(self._groups.get(wanted.name, known.of(wanted.name)))
            group_configs.check_configs(configs)
        except HeadraceError as error:
            return _failure(error)
        self._groups[wanted.name] = configs
        return Outcome()

    def store_groups(self) -> Outcome:
        """What comes of the groups that are altered, for all of them."""
        try:
            if self._groups and not self._validate_only:
                self._services.group_configs.replace(self._groups)
        except (HeadraceError, OSError) as error:
            return _failure(error)
        return Outcome()


def _failure(error: Exception) -> Outcome:
    return Outcome(code=error_code(error), message=str(error))


async def alter(wanted: Sequence[Alteration], *, validate_only: bool, call: Call) -> list[Outcome]:
    """Alter resources in their order; what came of each."""
    altering = _Altering(call, validate_only=validate_only)
    outcomes = await in_turns(wanted, altering.alter)
    stored = altering.store_groups()
    if stored.code is ErrorCode.NONE:
        return outcomes
    return [
        stored if one.resource_type == GROUP and outcome.code is ErrorCode.NONE else outcome
        for one, outcome in zip(wanted, outcomes, strict=True)
    ]
