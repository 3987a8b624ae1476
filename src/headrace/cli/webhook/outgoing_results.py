"""What `headrace webhook out` prints as JSON."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from headrace.cli.output import Shape, result


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
    last_success: str | None
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
    last_success: str | None
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
