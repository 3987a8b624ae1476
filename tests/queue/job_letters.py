"""Dead letters as jobs write them, without a job."""

from __future__ import annotations

from typing import Any

from headrace.dead_letters import (
    GROUP_HEADER,
    OFFSET_HEADER,
    PARTITION_HEADER,
    REASON_HEADER,
    TIMESTAMP_HEADER,
    TOPIC_HEADER,
    with_errors,
)

TIME = "2026-11-16T12:00:00.000Z"


def job_letter(
    job: str, topic: str, offset: int, *, reason: str = "not JSON", time: str = TIME
) -> dict[str, Any]:
    """The arguments of `Producer.produce`."""
    errors = {
        TOPIC_HEADER: topic,
        PARTITION_HEADER: "0",
        OFFSET_HEADER: str(offset),
        TIMESTAMP_HEADER: time,
        GROUP_HEADER: job,
        REASON_HEADER: reason,
    }
    return {"value": f"bad {offset}", "headers": [*with_errors((), errors)]}
