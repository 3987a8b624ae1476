"""Dead letters of queues and jobs, and late rows: one scheme of topic names and headers, that of KIP-1191.

A dead letter is a copy of a record, in the topic `dlq.NAME` of the group or job that could not process it. Headers
`__dlq.errors.*` state the origin of the record and the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

TOPIC_PREFIX = "dlq."

HEADER_PREFIX = "__dlq."
"""A record that was redriven and failed again has only the headers of its last failure."""

TOPIC_HEADER = "__dlq.errors.topic"
PARTITION_HEADER = "__dlq.errors.partition"
OFFSET_HEADER = "__dlq.errors.offset"
TIMESTAMP_HEADER = "__dlq.errors.timestamp"
GROUP_HEADER = "__dlq.errors.group"
"""The group or the job that could not process the record."""
DELIVERY_COUNT_HEADER = "__dlq.errors.delivery.count"
REASON_HEADER = "__dlq.errors.message"
FILE_HEADER = "__dlq.errors.file"
LINE_HEADER = "__dlq.errors.line"
"""Of a row of a file; the first line is 1."""
TRUNCATED_HEADER = "__dlq.errors.truncated.from.bytes"

OPERATOR_HEADER = "__dlq.errors.operator"
WINDOW_START_HEADER = "__dlq.errors.window.start"
WINDOW_END_HEADER = "__dlq.errors.window.end"
WATERMARK_HEADER = "__dlq.errors.watermark"

TOPIC_CONFIG = {"retention.ms": "-1"}
"""Retention does not delete dead letters."""

Header = tuple[str, bytes | None]


def dead_letter_topic(name: str) -> str:
    """The topic of a group or a job, unless another one is set."""
    return TOPIC_PREFIX + name


def is_error_header(name: str) -> bool:
    return name.startswith(HEADER_PREFIX)


def with_errors(own: Iterable[Header], errors: Mapping[str, str]) -> tuple[Header, ...]:
    """The headers of a dead letter: those of its record, and those of this failure."""
    return (
        *(header for header in own if not is_error_header(header[0])),
        *((name, text.encode()) for name, text in errors.items()),
    )
