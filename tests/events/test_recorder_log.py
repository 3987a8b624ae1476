from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import pytest

from headrace.events import EventsError, InvalidEvent
from headrace.events.recorder_log import (
    AlreadyRecorded,
    Entry,
    RecorderContent,
    RecorderDraft,
    RecorderLog,
    Tracked,
)
from headrace.kafka.cluster import Cluster
from tests.events.test_partition import read_back

TIMEOUT_S = 30.0
OpenLog = Callable[[], RecorderLog]


@pytest.fixture
def open_log(cluster: Cluster, topic: str) -> Iterator[OpenLog]:
    opened: list[RecorderLog] = []

    def open_log() -> RecorderLog:
        opened.append(RecorderLog(cluster, topic, timeout_s=TIMEOUT_S))
        return opened[-1]

    yield open_log
    for log in opened:
        log.close()


def entry(version: int, originator_id: str = "ada", **fields: object) -> Entry:
    made = Entry(originator_id=originator_id, is_uuid=False, version=version, type="t", state=b"s")
    return msgspec.structs.replace(made, **fields)


def all_of(log: RecorderLog) -> list[Entry]:
    log.refresh()
    return log.database.of_sequence(first=1, last=None, limit=100, types=())


def test_numbers_are_those_of_the_commits_in_every_process(open_log: OpenLog) -> None:
    first, second = open_log(), open_log()
    for number in range(6):
        log = (first, second)[number % 2]
        assert log.transact(lambda draft, number=number: draft.insert(entry(number))) == number + 1  # type: ignore[misc]
    expected = [entry(number, number=number + 1) for number in range(6)]
    assert all_of(first) == all_of(second) == all_of(open_log()) == expected


def test_insert_is_all_or_nothing(open_log: OpenLog) -> None:
    log = open_log()
    log.transact(lambda draft: draft.insert(entry(1)))

    def work(draft: RecorderDraft) -> None:
        draft.track(Tracked(application="up", notification_id=1))
        draft.insert(entry(2))
        draft.insert(entry(1))

    with pytest.raises(AlreadyRecorded, match="version 1 of ada"):
        log.transact(work)
    assert all_of(log) == all_of(open_log()) == [entry(1, number=1)]
    assert log.database.tracked("up") is None


def test_positions_are_no_events(open_log: OpenLog) -> None:
    log = open_log()
    log.transact(lambda draft: draft.track(Tracked(application="up", notification_id=5)))
    assert log.transact(lambda draft: draft.insert(entry(1))) == 1
    other = open_log()
    for same in (5, 4):
        with pytest.raises(AlreadyRecorded, match="is not after 5"):
            other.transact(
                lambda draft, same=same: draft.track(Tracked(application="up", notification_id=same))  # type: ignore[misc]
            )
    assert all_of(other) == [entry(1, number=1)]


@pytest.mark.parametrize("bad", [entry(-1), entry(1, ""), entry(1, state=b"x" * 3_000_000)])
def test_event_that_cannot_be_stored_is_rejected(open_log: OpenLog, bad: Entry) -> None:
    with pytest.raises(InvalidEvent):
        open_log().transact(lambda draft: draft.insert(bad))


def test_draft_is_committed_if_the_log_has_its_insert_id() -> None:
    content, other = RecorderContent("t", 10_000), RecorderContent("t", 10_000)
    events, position, rival = other.draft(), other.draft(), RecorderContent("t", 10_000).draft()
    events.insert(entry(1))
    position.track(Tracked(application="up", notification_id=1))
    rival.insert(entry(1))
    assert not content.has(events)
    content.apply(read_back(events.records[0]))
    content.apply(read_back(events.records[0]))  # known
    assert content.has(events)
    assert not content.has(position)
    content.apply(read_back(position.records[0]))
    assert content.has(position)
    assert not content.has(rival)
    with pytest.raises(EventsError, match="exists already"):
        content.apply(read_back(rival.records[0]))
    assert not content.has(content.draft())


def test_record_of_something_else_is_an_error() -> None:
    content = RecorderContent("t", 10_000)
    draft = content.draft()
    draft.insert(entry(1))
    record = read_back(draft.records[0])
    with pytest.raises(EventsError, match="is not an event of the library eventsourcing"):
        content.apply(msgspec.structs.replace(record, headers={}))
