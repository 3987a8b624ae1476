"""What `headrace webhook out` prints as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Struct

from headrace.cli.output import Shape, format_time, result
from headrace.redaction import redacted

if TYPE_CHECKING:
    from headrace.webhooks.outgoing.attempts import Attempt
    from headrace.webhooks.outgoing.state import TargetStatus
    from headrace.webhooks.outgoing.target import Target


@result("webhook out add")
class AddedTarget(Struct, frozen=True, kw_only=True):
    name: str
    source: Annotated[str, "the topic"]
    to: Annotated[str, "the URL, without its query"]
    secret: Annotated[str | None, "the generated secret, shown only now; null if it was given"]


@result("webhook out list", shape=Shape.LIST)
class ListedTarget(Struct, frozen=True, kw_only=True):
    name: str
    source: Annotated[str, "the topic"]
    to: Annotated[str, "the URL, without its query"]
    state: Annotated[str, "new, running, paused, failed, stopped or killed"]
    delivered: Annotated[int, "since the process started"]
    pending: Annotated[int, "records that are read and not delivered"]
    last_success: Annotated[str | None, "when a request was last answered with 2xx; null: never"]
    error: Annotated[str, "why it is paused or failed; empty otherwise"]


@result("webhook out show")
class ShownTarget(Struct, frozen=True, kw_only=True):
    name: str
    topic: str | None
    queue: str | None
    group: Annotated[str, "the consumer group or share group"]
    to: Annotated[str, "the URL, without its query"]
    filter: str | None
    envelope: str
    ordered_by_key: bool
    parallel: Annotated[int, "requests at a time"]
    timeout_ms: int
    headers: Annotated[list[str], "names only"]
    allow_inside: bool
    secrets: Annotated[int, "that sign now"]
    state: Annotated[str, "new, running, paused, failed, stopped or killed"]
    error: str
    delivered: Annotated[int, "since the process started, as all counts"]
    failed: Annotated[int, "attempts"]
    skipped: Annotated[int, "records that the filter does not match"]
    dead_letters: int
    pending: Annotated[int, "records that are read and not delivered"]
    last_success: Annotated[str | None, "when a request was last answered with 2xx; null: never"]
    failing_since: Annotated[str | None, "the first failure since the last success"]


@result("webhook out remove")
class RemovedTarget(Struct, frozen=True, kw_only=True):
    name: str


@result("webhook out pause")
@result("webhook out resume")
class TargetPause(Struct, frozen=True, kw_only=True):
    name: str
    is_paused: bool


@result("webhook out rotate")
class RotatedTarget(Struct, frozen=True, kw_only=True):
    name: str
    secrets: Annotated[int, "that are kept, the new one included"]
    secret: Annotated[str | None, "the generated secret, shown only now; null if it was given"]


@result("webhook out attempts", shape=Shape.LIST)
class ShownAttempt(Struct, frozen=True, kw_only=True):
    time: str
    record: Annotated[str, "TOPIC-PARTITION@OFFSET"]
    attempt: Annotated[int, "number of the attempt for this record"]
    outcome: Annotated[str, "delivered, failed, rejected or gone"]
    status: Annotated[int | None, "null: there was no answer"]
    ms: Annotated[float, "until the head of the answer"]
    error: str
    next: Annotated[str | None, "when the next attempt is due"]
    id: Annotated[str, "the header webhook-id"]


@result("webhook out test")
class SampleAnswer(Struct, frozen=True, kw_only=True):
    id: Annotated[str, "the header webhook-id"]
    is_delivered: bool
    status: Annotated[int | None, "null: there was no answer"]
    ms: float
    error: str


def listed_target(target: Target, status: TargetStatus) -> ListedTarget:
    return ListedTarget(
        name=target.name,
        source=target.source,
        to=redacted(target.url),
        state=status.state.value,
        delivered=status.delivered,
        pending=status.pending,
        last_success=_time(status.last_success_ms),
        error=status.error,
    )


def shown_attempt(attempt: Attempt) -> ShownAttempt:
    return ShownAttempt(
        time=format_time(attempt.time_ms),
        record=f"{attempt.topic}-{attempt.partition}@{attempt.offset}",
        attempt=attempt.number,
        outcome=attempt.verdict.value,
        status=attempt.status,
        ms=attempt.latency_ms,
        error=attempt.error,
        next=_time(attempt.next_ms),
        id=attempt.message_id,
    )


def shown_target(target: Target, status: TargetStatus, now_ms: int) -> ShownTarget:
    return ShownTarget(
        name=target.name,
        topic=target.topic or None,
        queue=target.queue or None,
        group=target.group,
        to=redacted(target.url),
        filter=target.filter or None,
        envelope=target.envelope,
        ordered_by_key=target.ordered_by_key,
        parallel=target.parallel,
        timeout_ms=target.timeout_ms,
        headers=sorted(target.headers),
        allow_inside=target.allow_inside,
        secrets=sum(each.is_valid(now_ms) for each in target.secrets),
        state=status.state.value,
        error=status.error,
        delivered=status.delivered,
        failed=status.failed,
        skipped=status.skipped,
        dead_letters=status.dead_letters,
        pending=status.pending,
        last_success=_time(status.last_success_ms),
        failing_since=_time(status.failing_since_ms),
    )


def _time(time_ms: int | None) -> str | None:
    return None if time_ms is None else format_time(time_ms)
