"""Changing the configs of a resource: what AlterConfigs and IncrementalAlterConfigs share."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headrace.broker import group_configs
from headrace.broker.dispatch import Call
from headrace.broker.error_codes import error_code
from headrace.broker.handlers.describe_configs import GROUP, TOPIC
from headrace.errors import HeadraceError
from headrace.protocol.error_codes import ErrorCode


def alter_resource(
    resource_type: int,
    name: str,
    change: Callable[[Mapping[str, str]], Mapping[str, str]],
    *,
    validate_only: bool,
    call: Call,
) -> tuple[ErrorCode, str | None]:
    """Replace a resource's configs by what `change` makes of them; the error code and message to answer with."""
    if resource_type == GROUP:
        return _alter_group(name, change, validate_only=validate_only, call=call)
    if resource_type != TOPIC:
        return (
            ErrorCode.INVALID_REQUEST,
            "only topics and groups can be altered; the broker's settings are read at its start",
        )
    topic = call.services.topics.get(name)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such topic"
    try:
        configs = change(topic.configs)
        call.services.topics.check_alteration(topic, configs)
        if not validate_only:
            call.services.topics.alter_configs(topic, configs)
    except (HeadraceError, OSError) as error:
        return error_code(error), str(error)
    return ErrorCode.NONE, None


def _alter_group(
    name: str,
    change: Callable[[Mapping[str, str]], Mapping[str, str]],
    *,
    validate_only: bool,
    call: Call,
) -> tuple[ErrorCode, str | None]:
    """A group may have configs before it has members."""
    if not name:
        return ErrorCode.INVALID_REQUEST, "a group has a name"
    known = call.services.group_configs
    try:
        configs = change(known.of(name))
        group_configs.check_configs(configs)
        if not validate_only:
            known.replace(name, configs)
    except (HeadraceError, OSError) as error:
        return error_code(error), str(error)
    return ErrorCode.NONE, None
