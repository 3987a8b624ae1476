from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.events import EventsError, Rejection
from headrace.events.index import Index
from headrace.events.records import Snapshot, StoredEvent


def event(version: int, aggregate_id: str = "ada", **fields: object) -> StoredEvent:
    return StoredEvent(
        **{  # type: ignore[arg-type]
            "aggregate_id": aggregate_id,
            "version": version,
            "type": "deposited",
            "id": f"{aggregate_id}-{version}",
            "timestamp_ms": version * 10,
            "data": b"{}",
            "correlation_id": "",
            "causation_id": "",
            "offset": version * 2,
            **fields,
        }
    )


def rejection(
    command_id: str, reason: str = "no", *, timestamp_ms: int = 0, is_error: bool = False
) -> Rejection:
    return Rejection(
        aggregate_id="ada",
        command_id=command_id,
        type="Withdraw",
        reason=reason,
        timestamp_ms=timestamp_ms,
        data=b"{}",
        is_error=is_error,
    )


@pytest.fixture
def index() -> Index:
    return Index()


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 6))))
def test_only_the_next_version_of_an_aggregate_enters(attempts: list[tuple[str, int]]) -> None:
    index, versions = Index(), dict.fromkeys("abc", 0)
    for name, version in attempts:
        if version == versions[name] + 1:
            index.add_event(event(version, name))
            versions[name] = version
        else:
            with pytest.raises(EventsError, match=f"version {version} of {name}"):
                index.add_event(event(version, name))
    for name, version in versions.items():
        assert index.version(name) == version
        assert [each.version for each in index.events(name)] == list(range(1, version + 1))
    index.close()


def test_events_of_a_range_are_read_in_order(index: Index) -> None:
    stored = [event(version) for version in range(1, 3001)]
    for each in stored:
        index.add_event(each)
    assert list(index.events("ada")) == stored
    assert list(index.events("ada", after=1, until=3)) == stored[1:3]
    assert list(index.events("bob")) == []


def test_version_is_found_by_offset_and_time(index: Index) -> None:
    for version in range(1, 4):
        index.add_event(event(version))
    assert [index.version_at_offset("ada", offset) for offset in (0, 2, 3, 4, 99)] == [0, 1, 1, 2, 3]
    assert [index.version_at_time("ada", time) for time in (0, 10, 19, 20, 99)] == [0, 1, 1, 2, 3]
    assert (index.timestamp_ms("ada"), index.timestamp_ms("bob")) == (30, 0)


def test_offset_of_an_own_event_is_set_later(index: Index) -> None:
    index.add_event(event(1, offset=-1))
    index.set_offset("ada", 1, 42)
    assert [each.offset for each in index.events("ada")] == [42]
    assert index.version_at_offset("ada", 41) == 0


def test_event_is_known_by_its_id(index: Index) -> None:
    index.add_event(event(1))
    assert index.has_event(event(1))
    assert not index.has_event(event(1, id="another"))
    assert not index.has_event(event(2))


def test_outcome_of_a_command_is_the_range_of_its_events(index: Index) -> None:
    for version, command_id in enumerate(["c1", "c2", "c2", "c3"], start=1):
        index.add_event(event(version, causation_id=command_id))
    found = index.outcome("ada", "c2")
    assert found is not None
    assert (found.first, found.last, found.rejection) == (2, 3, None)
    assert index.outcome("bob", "c2") is None


def test_command_that_succeeds_after_an_error_is_accepted(index: Index) -> None:
    index.add_event(event(1))
    index.add_rejection(rejection("c1", is_error=True))
    index.add_event(event(2, causation_id="c1"))
    index.add_event(event(3, causation_id="c1"))
    found = index.outcome("ada", "c1")
    assert found is not None
    assert (found.first, found.last, found.rejection) == (2, 3, None)
    index.add_rejection(rejection("c1"))
    assert index.outcome("ada", "c1") == found


def test_rejections_are_in_the_order_of_time(index: Index) -> None:
    late, early = rejection("c1", timestamp_ms=9), rejection("c2", timestamp_ms=3)
    index.add_rejection(late)
    index.add_rejection(early)
    assert index.rejections("ada") == [early, late]
    assert index.rejections("bob") == []


def test_last_snapshot_counts_until_it_is_deleted(index: Index) -> None:
    first, second = (Snapshot(aggregate_id="ada", version=each, state_version=1, data=b"") for each in (1, 2))
    index.add_event(event(1))
    index.set_snapshot(first)
    assert index.snapshot("ada") == first
    index.set_snapshot(second)
    assert index.snapshot("ada") is None  # of a log with more events
    index.add_event(event(2))
    assert index.snapshot("ada") == second
    index.delete_snapshot("ada")
    assert index.snapshot("ada") is None


def test_aggregates_are_listed(index: Index) -> None:
    for name in ("bob", "ada"):
        index.add_event(event(1, name))
    assert index.aggregate_ids() == ["ada", "bob"]
