"""The topics with the broker's own state: their configs, and which of them may be changed.

Only the broker creates them. Settings that would lose state (deletion by age, another cleanup policy) are fixed.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.broker.rejections import RequestRejected
from headrace.protocol.error_codes import ErrorCode

# Never deleted by age. The newest segment is not compacted, and a start reads it whole: 16 MiB are some 140,000
# commits and less than two seconds. A group is one record, so thousands of members must fit into a batch.
_KEPT_BY_KEY = {
    "cleanup.policy": "compact",
    "segment.bytes": "16777216",
    "max.message.bytes": "8388608",
    "compression.type": "producer",
}

REASONS_TOPIC = "__headrace_rejections"
"""Consumers write to this one, so it may have any number of partitions."""

INTERNAL_TOPICS: dict[str, dict[str, str]] = {
    "__consumer_offsets": _KEPT_BY_KEY,
    "__transaction_state": _KEPT_BY_KEY,
    # Not compacted: an update of a share group's state is more than the last one of its key. The broker deletes
    # what a later snapshot replaces.
    "__share_group_state": {
        **_KEPT_BY_KEY,
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
    },
    # A reason is used within milliseconds; after a crash of the broker within minutes.
    REASONS_TOPIC: {"cleanup.policy": "delete", "retention.ms": "86400000"},
}


def check_internal_partitions(name: str, partitions: int) -> None:
    """Raise RequestRejected if the broker can't keep its state in this number of partitions."""
    if name in INTERNAL_TOPICS and name != REASONS_TOPIC and partitions != 1:
        raise RequestRejected(
            ErrorCode.INVALID_REQUEST,
            f"the internal topic {name} has 1 partition, not {partitions}",
            hint="the broker creates it when it is first needed",
        )


def check_internal_configs(name: str, configs: Mapping[str, str]) -> None:
    """Raise RequestRejected if the configs change a setting that the broker relies on."""
    for config, fixed in INTERNAL_TOPICS.get(name, {}).items():
        if configs.get(config, fixed) != fixed:
            raise RequestRejected(
                ErrorCode.INVALID_REQUEST,
                f"{config} of the internal topic {name} is {fixed} and can't be changed",
                hint=f"do not set {config}",
            )


def with_fixed_configs(name: str, configs: Mapping[str, str]) -> dict[str, str]:
    """A topic's configs, with those that the broker fixes if it is an internal one."""
    return {**configs, **INTERNAL_TOPICS.get(name, {})}
