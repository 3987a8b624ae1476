from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.events import EventsError, InvalidEvent, Rejection
from headrace.events.records import (
    InRecord,
    OutRecord,
    Snapshot,
    StoredEvent,
    Topics,
    check_size,
    event_record,
    header_map,
    read_event,
    read_rejection,
    read_snapshot,
    rejection_record,
    snapshot_record,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
SOME_TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
TIMES = st.integers(0, 2**50)


def read_back(record: OutRecord) -> InRecord:
    return InRecord(
        topic=record.topic,
        partition=0,
        offset=7,
        timestamp_ms=record.timestamp_ms,
        key=record.key,
        value=record.value,
        headers=header_map(record.headers),
    )


@given(
    st.builds(
        StoredEvent,
        aggregate_id=SOME_TEXT,
        version=st.integers(1, 2**40),
        type=SOME_TEXT,
        id=SOME_TEXT,
        timestamp_ms=TIMES,
        data=st.binary(),
        correlation_id=TEXT,
        causation_id=TEXT,
        offset=st.just(7),
    )
)
def test_event_survives_its_record(event: StoredEvent) -> None:
    assert read_event(read_back(event_record("t", event))) == event


@given(
    st.builds(
        Rejection,
        aggregate_id=TEXT,
        command_id=SOME_TEXT,
        type=SOME_TEXT,
        reason=TEXT,
        timestamp_ms=TIMES,
        data=st.binary(),
        correlation_id=TEXT,
        is_error=st.booleans(),
    )
)
def test_rejection_survives_its_record(rejection: Rejection) -> None:
    assert read_rejection(read_back(rejection_record("t", rejection))) == rejection


def test_snapshot_survives_its_record() -> None:
    snapshot = Snapshot(aggregate_id="ada", version=10, state_version=2, data=b"{}")
    assert read_snapshot(read_back(snapshot_record("t", snapshot, 5))) == snapshot


EVENT = read_back(
    event_record(
        "t",
        StoredEvent(
            aggregate_id="ada",
            version=1,
            type="a",
            id="1",
            timestamp_ms=0,
            data=b"{}",
            correlation_id="",
            causation_id="",
        ),
    )
)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"key": None}, "its key is no aggregate id"),
        ({"key": b"\xff"}, "its key is no aggregate id"),
        ({"headers": {}}, "the header version is missing"),
        ({"headers": {**EVENT.headers, "version": b"two"}}, "the header version is 'two', not a number"),
        ({"headers": {**EVENT.headers, "version": b"-1"}}, "the header version is '-1', not a number"),
        ({"headers": {"version": b"1"}}, "the header type is missing"),
    ],
)
def test_record_of_something_else_is_an_error_with_its_place(
    changed: dict[str, object], problem: str
) -> None:
    with pytest.raises(EventsError) as raised:
        read_event(msgspec.structs.replace(EVENT, **changed))
    assert raised.value.message == f"t-0@7 is not an event: {problem}"


def test_size_counts_key_value_and_headers() -> None:
    record = OutRecord(
        topic="t", key=b"k" * 100, value=b"v" * 500, headers=(("h", b"x" * 100),), timestamp_ms=0
    )
    check_size(record, 1000)
    with pytest.raises(InvalidEvent, match="a record for t has 957 bytes, and the topic takes 956"):
        check_size(record, 956)


def test_last_header_of_a_name_counts() -> None:
    assert header_map([("a", b"1"), ("a", b"2"), ("b", None)]) == {"a": b"2", "b": b""}
    assert header_map(None) == {}


def test_topics_are_named_after_that_of_the_events() -> None:
    assert msgspec.structs.astuple(Topics.of("t")) == (
        "t",
        "t.rejected",
        "t.snapshots",
        "t.commands",
        "t.replies",
    )
