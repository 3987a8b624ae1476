"""The buffer on disk, by itself; tests/contract has what it promises in front of a broker."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.edges.errors import BadEdge
from headrace.edges.event import Entry, Event
from headrace.edges.spool import FLUSH_S, POSITION_S, Spool
from headrace.log.filesystem import DiskFileSystem, FileSystem
from headrace.testing.failing_filesystem import FailingFileSystem
from headrace.testing.manual_clock import ManualClock
from tests.edges.conftest import entry, values

MB = 1_000_000


def open_spool(
    folder: Path,
    *,
    bytes_max: int = 8 * MB,
    files: FileSystem | None = None,
    clock: ManualClock | None = None,
) -> Spool:
    return Spool(
        folder,
        bytes_max=bytes_max,
        on_taken=lambda _count: None,
        files=files or DiskFileSystem(),
        clock=clock or ManualClock(),
    )


def die(spool: Spool) -> None:
    """As kill -9: nothing is written any more, and the kernel releases the lock."""
    spool._lock_file.release()


def test_events_survive_a_killed_process_in_order(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    for number in range(10):
        assert spool.offer([entry(b"%d" % number), entry(b"%d again" % number)])
    die(spool)

    again = open_spool(tmp_path)
    assert again.replayed == 20
    assert values(again.take(MB, 0)) == [
        text for number in range(10) for text in (b"%d" % number, b"%d again" % number)
    ]
    again.close()


def test_delivered_events_are_not_repeated_after_a_clean_stop(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    spool.offer([entry(b"1"), entry(b"2"), entry(b"3")])
    taken = spool.take(MB, 0)
    spool.settled(taken[2].place)
    spool.close()

    again = open_spool(tmp_path)
    assert (again.replayed, values(again.take(MB, 0))) == (1, [b"3"])
    again.close()


def test_take_is_bounded_by_the_memory_of_events_and_not_by_their_bytes_on_disk(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    offers = [[entry(b"%d" % number), entry(b"%d again" % number)] for number in range(1_000)]
    for each in offers:
        spool.offer(each)
    found: list[Entry] = []
    while taken := spool.take(10_000, 0):
        batch_bytes = sum(each.memory_bytes for each in taken[-2:])
        assert sum(each.memory_bytes for each in taken) < 10_000 + batch_bytes
        found += taken
    assert values(found) == [value for each in offers for value in values(each)]
    spool.close()


def test_position_is_written_while_the_edge_runs(tmp_path: Path) -> None:
    clock = ManualClock()
    spool = open_spool(tmp_path, clock=clock)
    spool.offer([entry(b"1"), entry(b"2")])
    spool.settled(spool.take(MB, 0)[1].place)
    clock.advance_ms(int(POSITION_S * 1000))
    spool.maintain()
    die(spool)
    again = open_spool(tmp_path)
    assert values(again.take(MB, 0)) == [b"2"]
    again.close()


def test_full_spool_takes_nothing_until_events_are_delivered(tmp_path: Path) -> None:
    clock = ManualClock()
    spool = open_spool(tmp_path, bytes_max=MB, clock=clock)
    taken = 0
    while spool.offer([entry(b"x" * 10_000)]):
        taken += 1
    assert 80 < taken <= 100
    assert spool.buffered_bytes <= MB
    assert not spool.room.wait(0)
    last: list[Entry] = []
    while more := spool.take(MB, 0):
        last = more
    spool.settled(last[-1].place + 1)
    clock.advance_ms(1000)
    spool.maintain()
    assert spool.room.wait(0)
    assert spool.offer([entry(b"x" * 10_000)])
    assert values(spool.take(MB, 0)) == [b"x" * 10_000]
    spool.close()


def test_full_disk_takes_nothing_and_loses_nothing(tmp_path: Path) -> None:
    files, clock = FailingFileSystem(), ManualClock()
    spool = open_spool(tmp_path, files=files, clock=clock)
    assert spool.offer([entry(b"1")])
    files.fail("write", error_number=errno.ENOSPC, bytes_written_first=20)
    assert not spool.offer([entry(b"2")])
    assert "No space" in spool.storage_error
    clock.advance_ms(int(FLUSH_S * 1000))
    spool.maintain()
    assert spool.room.wait(0)
    assert spool.offer([entry(b"3")])
    assert values(spool.take(MB, 0)) == [b"1", b"3"]
    spool.close()


def test_flushed_events_survive_a_power_failure(tmp_path: Path) -> None:
    files, clock = FailingFileSystem(), ManualClock()
    spool = open_spool(tmp_path, files=files, clock=clock)
    spool.offer([entry(b"1")])
    clock.advance_ms(int(FLUSH_S * 1000))
    spool.maintain()
    spool.offer([entry(b"2")])
    die(spool)
    files.drop_unsynced()
    again = open_spool(tmp_path)
    assert values(again.take(MB, 0)) == [b"1"]
    again.close()


def test_position_after_the_end_of_the_events_is_their_end(tmp_path: Path) -> None:
    """The position was on disk when the power failed, and the events were not."""
    spool = open_spool(tmp_path)
    spool.offer([entry(b"1")])
    spool.close()
    (tmp_path / "position").write_text("7\n")
    again = open_spool(tmp_path)
    assert again.replayed == 0
    again.offer([entry(b"2")])
    assert values(again.take(MB, 0)) == [b"2"]
    again.close()


def test_failed_flush_stops_the_spool_and_says_so(tmp_path: Path) -> None:
    files, clock = FailingFileSystem(), ManualClock()
    spool = open_spool(tmp_path, files=files, clock=clock)
    spool.offer([entry(b"1")])
    files.fail("sync")
    clock.advance_ms(int(FLUSH_S * 1000))
    spool.maintain()
    assert not spool.offer([entry(b"2")])
    assert "fsync failed" in spool.storage_error
    assert values(spool.take(MB, 0)) == [b"1"]
    spool.close()


def test_files_of_delivered_events_are_deleted(tmp_path: Path) -> None:
    clock = ManualClock()
    spool = open_spool(tmp_path, bytes_max=MB, clock=clock)
    for _ in range(30):
        assert spool.offer([entry(b"x" * 50_000) for _ in range(4)])
        taken = spool.take(MB, 0)
        spool.settled(taken[-1].place + 1)
        clock.advance_ms(1000)
        spool.maintain()
    on_disk = sum(path.stat().st_size for path in tmp_path.rglob("*.log"))
    assert on_disk <= MB
    spool.close()


def test_second_process_does_not_share_a_spool(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    with pytest.raises(BadEdge, match="used by another process"):
        open_spool(tmp_path)
    spool.close()


def test_damaged_spool_is_an_error_with_the_remedy(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    for _ in range(3):
        spool.offer([entry(b"x" * 100)])
    spool.close()
    (file,) = tmp_path.rglob("*.log")
    content = bytearray(file.read_bytes())
    content[100] ^= 1
    file.write_bytes(content)
    with pytest.raises(BadEdge, match="headrace log repair"):
        open_spool(tmp_path)


@settings(max_examples=25)
@given(
    st.builds(
        Event,
        topic=st.sampled_from(["a", "b.c"]),
        value=st.none() | st.binary(),
        key=st.none() | st.binary(),
        headers=st.lists(st.tuples(st.text(), st.none() | st.binary())).map(tuple),
    )
)
def test_event_is_read_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, event: Event) -> None:
    spool = open_spool(tmp_path_factory.mktemp("spool"))
    spool.offer([Entry(event=event, memory_bytes=1, timestamp_ms=1234)])
    (found,) = spool.take(MB, 0)
    assert (found.event, found.timestamp_ms) == (event, 1234)
    spool.close()


def test_events_of_an_earlier_run_can_be_looked_at_before_they_are_taken(tmp_path: Path) -> None:
    first = open_spool(tmp_path)
    assert list(first.left()) == []
    for number in range(3):
        assert first.offer([entry(b"%d" % number * 600_000)])
    die(first)
    second = open_spool(tmp_path)
    assert [each.event.value for each in second.left()] == [b"%d" % number * 600_000 for number in range(3)]
    assert second.take(1, 0)[0].event.value == b"0" * 600_000
    second.close()
