"""What `headrace erase` shows: the report of an erasure, for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct

from headrace.cli.output import Shape, format_time, note, print_table, result

if TYPE_CHECKING:
    from headrace.erasure import Erasure
    from headrace.kafka.cluster import Cluster

SHOWN_TOPICS_MAX = 10


class VerifiedPartition(Struct, frozen=True, kw_only=True):
    partition: int
    first: Annotated[int, "the first offset that the last scan read"]
    end: Annotated[int, "the offset after the last one that it read"]


class TopicReport(Struct, frozen=True, kw_only=True):
    topic: str
    state: Annotated[str, "pending, compacting, waits for retention, kept or complete"]
    cleanup_policy: str
    archived: Annotated[bool, "old segments are also in an archive"]
    records_found: Annotated[int, "of the person, with a value, by the first scan"]
    tombstones: Annotated[int, "written for keys of the person"]
    written_again: Annotated[int, "keys that got a new value after their tombstone"]
    values_left: Annotated[int, "by the last scan"]
    complete: Annotated[str | None, "when the last scan found no value"]
    deleted_by: Annotated[str | None, "when retention will have deleted the records; null if it never does"]
    files_deleted_by: Annotated[str | None, "when the broker deletes the files that compaction replaced"]
    tombstones_until: Annotated[str | None, "when compaction may remove the tombstones, at the earliest"]
    verified: Annotated[list[VerifiedPartition], "what the last scan read"]
    configs_changed: Annotated[bool, "topic configs are changed until it is complete"]
    note: str


class PlaceReport(Struct, frozen=True, kw_only=True):
    place: Annotated[str, "without user and password"]
    found: Annotated[int, "rows of the person"]
    left: Annotated[int | None, "null: not erased yet"]
    complete: Annotated[str | None, "when no row was left"]


@result("erase status", "erase continue", shape=Shape.LIST)
@result("erase key")
class ErasureReport(Struct, frozen=True, kw_only=True):
    id: Annotated[str | None, "null if no topic was named: then there is nothing to continue"]
    state: Annotated[str, "open; waiting (for retention only); complete"]
    requested: Annotated[str | None, "when"]
    complete: Annotated[str | None, "when it was complete everywhere"]
    digest: Annotated[str | None, "SHA-256 of `ID:KEY`; the key itself is not kept when it is complete"]
    topics: list[TopicReport]
    places: list[PlaceReport]
    not_searched: Annotated[list[str], "other topics of the cluster"]


def report_of(erasure: Erasure, cluster: Cluster) -> ErasureReport:
    searched = {each.topic for each in erasure.topics}
    return ErasureReport(
        id=erasure.id,
        state=erasure.state.value,
        requested=format_time(erasure.requested_ms),
        complete=_time(erasure.complete_ms),
        digest=erasure.digest,
        topics=[
            TopicReport(
                topic=each.topic,
                state=each.state.value,
                cleanup_policy=each.policy,
                archived=each.is_archived,
                records_found=each.records_found,
                tombstones=each.tombstones,
                written_again=each.written_again,
                values_left=each.values_left,
                complete=_time(each.complete_ms),
                deleted_by=_time(each.until_ms),
                files_deleted_by=_time(each.files_until_ms),
                tombstones_until=_time(each.tombstones_until_ms),
                verified=[
                    VerifiedPartition(partition=int(number), first=first, end=end)
                    for number, (first, end) in each.verified.items()
                ],
                configs_changed=each.settings is not None,
                note=each.note,
            )
            for each in erasure.topics
        ],
        places=[
            PlaceReport(place=each.name, found=each.found, left=each.left, complete=_time(each.complete_ms))
            for each in erasure.places
        ],
        not_searched=sorted(set(user_topics(cluster)) - searched),
    )


def user_topics(cluster: Cluster) -> list[str]:
    """All topics but those that brokers and erasures keep for themselves."""
    from headrace.erasure import LEDGER_TOPIC

    return [each for each in cluster.topics() if not each.startswith("__") and each != LEDGER_TOPIC]


def print_list(reports: Sequence[ErasureReport]) -> None:
    if not reports:
        print("no erasures: `headrace erase KEY --topic TOPIC` requests one")
        return
    rows = [
        (each.id, each.state, each.requested, each.complete, len(each.topics), len(each.places))
        for each in reports
    ]
    print_table(("id", "state", "requested", "complete", "topics", "places"), rows)


def print_report(report: ErasureReport) -> None:
    if report.topics:
        rows = [
            (
                each.topic,
                each.cleanup_policy,
                each.records_found,
                each.tombstones,
                each.values_left,
                each.state,
                each.complete or each.deleted_by,
            )
            for each in report.topics
        ]
        print_table(("topic", "policy", "found", "tombstones", "left", "state", "at"), rows)
    if report.places:
        rows_of_places = [(each.place, each.found, each.left, each.complete) for each in report.places]
        print_table(("place", "found", "left", "complete"), rows_of_places)
    for each in report.topics:
        if each.note:
            note(f"{each.topic}: {each.note}")
    if report.not_searched:
        shown = report.not_searched[:SHOWN_TOPICS_MAX]
        more = len(report.not_searched) - len(shown)
        note(f"not searched: {', '.join(shown)}{f' and {more} more' if more else ''}")
    print(_outcome(report))


def _outcome(report: ErasureReport) -> str:
    if report.state == "complete":
        where = "everywhere it was requested"
        return f"erasure {report.id} is complete {where}" if report.id else f"erased {where}"
    if report.state == "waiting":
        return f"erasure {report.id} waits for retention; `headrace erase continue {report.id}` looks again"
    if report.id is None:
        return "not complete; repeat the command"
    return f"erasure {report.id} is open; `headrace erase continue {report.id} --wait` continues"


def _time(timestamp_ms: int | None) -> str | None:
    return None if timestamp_ms is None else format_time(timestamp_ms)
