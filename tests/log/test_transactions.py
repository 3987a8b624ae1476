from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.log.config import LogConfig
from headrace.log.dump import DumpedAborted, dump
from headrace.log.errors import InvalidProducerEpoch, InvalidTransactionState
from headrace.log.filesystem import FileSystem
from headrace.log.partition_log import PartitionLog
from headrace.records.batch import iterate_headers, read_header
from headrace.records.compression import Codec
from headrace.records.control import EndTransactionMarker, MarkerType, encode_marker_batch
from headrace.records.record import Record, decode_records, encode_batch
from headrace.testing.failing_filesystem import FailingFileSystem, PowerLost
from headrace.testing.manual_clock import ManualClock
from tests.log.batches import NOW_MS, NotSyncing, batch, open_log

COMPACTED = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes_max=400,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=1_000,
    file_delete_delay_ms=0,
)


@dataclass
class Producers:
    """Producers that know their sequence numbers, writing into one log."""

    log: PartitionLog
    sequences: dict[tuple[int, int], int] = field(default_factory=dict)

    def write(self, producer_id: int, value: bytes, *, key: bytes = b"k", epoch: int = 0) -> int:
        sequence = self.sequences.get((producer_id, epoch), 0)
        self.sequences[producer_id, epoch] = sequence + 1
        record = Record(offset=0, timestamp_ms=NOW_MS, key=key, value=value)
        appended = self.log.append(
            encode_batch(
                [record],
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
                is_transactional=True,
            ),
            now_ms=NOW_MS,
        )
        return appended.base_offset

    def end(self, producer_id: int, kind: MarkerType, *, epoch: int = 0) -> int:
        marker = encode_marker_batch(
            EndTransactionMarker(type=kind),
            producer_id=producer_id,
            producer_epoch=epoch,
            timestamp_ms=NOW_MS,
        )
        return self.log.append(marker, now_ms=NOW_MS, from_client=False).base_offset

    def commit(self, producer_id: int, **options: int) -> int:
        return self.end(producer_id, MarkerType.COMMIT, **options)

    def abort(self, producer_id: int, **options: int) -> int:
        return self.end(producer_id, MarkerType.ABORT, **options)


def committed(log: PartitionLog, from_offset: int = 0) -> list[bytes | None]:
    """Values as a client with read_committed filters them."""
    below = log.last_stable_offset
    data = bytes(log.reader.read(from_offset, bytes_max=1 << 20, end_offset=below, at_least_one=True))
    aborted = sorted(log.reader.aborted_transactions(from_offset, below), key=lambda entry: entry[1])
    aborting: set[int] = set()
    found: list[bytes | None] = []
    next_offset = from_offset
    for position, header in iterate_headers(data):
        next_offset = header.next_offset
        while aborted and aborted[0][1] <= header.last_offset:
            aborting.add(aborted.pop(0)[0])
        if header.is_control:
            aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            whole = data[position : position + header.size_bytes]
            found += [record.value for record in decode_records(whole, bytes_max=1 << 20)]
    if from_offset < next_offset < below:
        found += committed(log, next_offset)
    return found


def crash_and_open(log: PartitionLog, folder: Path, config: LogConfig | None = None) -> PartitionLog:
    """Another process on the same files, which were not closed."""
    return open_log(folder, config or log.config, was_clean=False)


def test_the_last_stable_offset_stops_at_the_oldest_open_transaction(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    producers = Producers(log)
    log.append(batch(b"plain"), now_ms=NOW_MS)
    assert log.last_stable_offset == 1
    first = producers.write(1, b"a")
    second = producers.write(2, b"b")
    assert log.last_stable_offset == first
    producers.commit(1)
    assert log.last_stable_offset == second
    producers.commit(2)
    assert log.last_stable_offset == log.end_offset


def test_readers_get_the_aborted_transactions_and_all_committed_records(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    producers = Producers(log)
    first = producers.write(1, b"gone")
    producers.write(2, b"kept")
    producers.abort(1)
    producers.write(1, b"kept too")
    producers.commit(1)
    producers.commit(2)
    assert log.reader.aborted_transactions(0, log.end_offset) == [(1, first)]
    assert committed(log) == [b"kept", b"kept too"]
    assert log.reader.aborted_transactions(3, log.end_offset) == []


@pytest.mark.parametrize("ending", [None, "crash", "clean stop", "crash after a checkpoint"])
@pytest.mark.parametrize("compression", ["producer", Codec.GZIP])
def test_numbers_that_were_used_in_an_aborted_transaction_are_no_retry(
    tmp_path: Path, ending: str | None, compression: Codec | Literal["producer"]
) -> None:
    """librdkafka uses them again when the response to the first batch was lost."""
    config = LogConfig(compression=compression)
    log = open_log(tmp_path, config)
    producers = Producers(log)
    producers.write(1, b"committed")
    producers.commit(1)
    aborted = producers.write(1, b"aborted")
    producers.abort(1)
    if ending == "clean stop":
        log.close()
        log = open_log(tmp_path, config, was_clean=True)
    elif ending is not None:
        if ending == "crash after a checkpoint":
            log.checkpoint(NOW_MS)
        log = crash_and_open(log, tmp_path)
    producers.log = log
    if compression == "producer" or ending != "crash":
        producers.sequences[1, 0] = 1
        assert producers.write(1, b"aborted") == aborted, "a retry"
    producers.sequences[1, 0] = 1
    again = producers.write(1, b"again")
    assert again == log.end_offset - 1
    producers.sequences[1, 0] = 1
    assert producers.write(1, b"again") == again, "a retry"
    producers.write(1, b"next")
    producers.commit(1)
    assert committed(log) == [b"committed", b"again", b"next"]
    assert committed(crash_and_open(log, tmp_path)) == [b"committed", b"again", b"next"]


@pytest.mark.parametrize("ending", ["crash", "clean stop", "crash after a checkpoint"])
def test_transactions_are_as_before_after_a_start(tmp_path: Path, ending: str) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes_max=300))
    producers = Producers(log)
    producers.write(1, b"aborted")
    producers.abort(1)
    producers.write(2, b"committed")
    producers.commit(2)
    if ending == "crash after a checkpoint":
        log.checkpoint(NOW_MS)
    producers.write(1, b"aborted too")
    producers.abort(1)
    open_at = producers.write(3, b"open")
    producers.write(1, b"open too")
    before = log.reader.aborted_transactions(0, log.end_offset)
    if ending == "clean stop":
        log.close()
    again = open_log(tmp_path, log.config, was_clean=ending == "clean stop")
    assert again.last_stable_offset == open_at
    assert again.reader.aborted_transactions(0, again.end_offset) == before
    assert len(before) == 2
    assert committed(again) == [b"committed"]


def test_the_list_of_aborted_transactions_can_be_looked_at(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    producers = Producers(log)
    first = producers.write(1, b"aborted")
    marker = producers.abort(1)
    log.checkpoint(NOW_MS)
    (entry,) = dump(tmp_path / f"{0:020d}.txnindex")
    assert entry == DumpedAborted(
        producer_id=1, first_offset=first, last_offset=marker, last_stable_offset=marker + 1
    )


def test_a_damaged_list_of_aborted_transactions_is_rebuilt(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    producers = Producers(log)
    producers.write(1, b"aborted")
    producers.abort(1)
    log.checkpoint(NOW_MS)
    producers.write(1, b"open")
    (tmp_path / f"{0:020d}.txnindex").write_bytes(b"rubbish")
    again = crash_and_open(log, tmp_path)
    assert again.reader.aborted_transactions(0, again.end_offset) == [(1, 0)]


def test_a_write_outside_of_the_open_transaction_is_rejected(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    Producers(log).write(1, b"inside")
    with pytest.raises(InvalidTransactionState):
        log.append(batch(b"outside", producer_id=1, producer_epoch=0, base_sequence=1), now_ms=NOW_MS)


def test_a_marker_with_a_new_epoch_fences_the_writes_of_the_old_one(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    producers = Producers(log)
    producers.write(1, b"a")
    producers.abort(1, epoch=1)
    with pytest.raises(InvalidProducerEpoch):
        producers.write(1, b"late")
    with pytest.raises(InvalidProducerEpoch):
        producers.commit(1)
    producers.write(1, b"next", epoch=1)


def test_a_producer_with_an_open_transaction_never_expires(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(producer_ids_max=4))
    producers = Producers(log)
    open_at = producers.write(100, b"open")
    for producer_id in range(20):
        producers.write(producer_id, b"x")
        producers.commit(producer_id)
    log.checkpoint(NOW_MS + log.config.producer_id_expiration_ms + 1)
    assert log.producers.by_id.get(100) is not None
    assert log.last_stable_offset == open_at


def stored(log: PartitionLog) -> list[bytes]:
    """Every batch that is in the log, with whatever is in it."""
    found: list[bytes] = []
    offset = 0
    while data := bytes(
        log.reader.read(offset, bytes_max=1 << 20, end_offset=log.end_offset, at_least_one=True)
    ):
        for position, header in iterate_headers(data):
            found.append(data[position : position + header.size_bytes])
            offset = header.next_offset
    return found


def compact(log: PartitionLog, now_ms: int) -> None:
    log.flush()
    compaction = log.compaction.plan(now_ms)
    assert compaction is not None
    log.compaction.finish(compaction.run())


def test_compaction_removes_aborted_records_and_lets_them_supersede_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACTED)
    producers = Producers(log)
    producers.write(1, b"committed")
    producers.commit(1)
    producers.write(1, b"aborted")
    producers.abort(1)
    for number in range(8):
        log.append(batch(b"%d" % number, key=b"other"), now_ms=NOW_MS)
    compact(log, NOW_MS)
    assert b"aborted" not in b"".join(stored(log))
    assert committed(log)[0] == b"committed"
    again = crash_and_open(log, tmp_path)
    assert committed(again) == committed(log)


def test_compaction_does_not_pass_the_last_stable_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path, COMPACTED)
    producers = Producers(log)
    producers.write(1, b"open", key=b"open")
    for number in range(12):
        log.append(batch(b"%d" % number, key=b"same"), now_ms=NOW_MS)
    log.flush()
    assert log.compaction.plan(NOW_MS) is None


def test_markers_are_removed_after_their_transaction_and_the_delete_retention(
    tmp_path: Path,
) -> None:
    clock = ManualClock(NOW_MS)
    log = open_log(tmp_path, COMPACTED, clock=clock)
    producers = Producers(log)
    for number in range(6):
        producers.write(7, b"v%d" % number, epoch=number)
        producers.abort(7, epoch=number) if number % 2 else producers.commit(7, epoch=number)

    def markers() -> int:
        headers = [read_header(one) for one in stored(log)]
        return sum(1 for header in headers if header.is_control and header.record_count)

    def go_on_and_compact(now_ms: int) -> None:
        for number in range(8):
            log.append(batch(b"%d" % number, key=b"other"), now_ms=NOW_MS)
        compact(log, now_ms)

    go_on_and_compact(NOW_MS)
    assert markers() == 6
    go_on_and_compact(NOW_MS)
    assert markers() == 6
    go_on_and_compact(NOW_MS + COMPACTED.delete_retention_ms + 1)
    # That of the last value (v4) is needed, and those of batches with the last sequence of their producer.
    assert 1 <= markers() <= 2
    assert b"v4" in committed(log)
    assert not [value for value in committed(log) if value in (b"v1", b"v3", b"v5")]


def test_after_a_power_cut_anywhere_the_lists_agree_with_the_log(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes_max=500)

    def use(folder: Path, files: FailingFileSystem) -> None:
        log = open_log(folder, config, files=files)
        producers = Producers(log)
        for number in range(12):
            producers.write(number % 3, b"%d" % number, epoch=0)
            if number % 4 == 1:
                producers.abort(number % 3)
            if number % 4 == 2:
                log.flush()
            if number % 5 == 3:
                log.checkpoint(NOW_MS)
        log.close()

    step = 0
    cuts = 0
    while True:
        folder = tmp_path / str(step)
        files = FailingFileSystem()
        files.lose_power_at(step)
        try:
            use(folder, files)
            break
        except PowerLost:
            cuts += 1
        files.drop_unsynced()
        if folder.exists():
            shutil.copytree(folder, tmp_path / "again")
            for made in [*(tmp_path / "again").glob("*.txnindex"), *(tmp_path / "again").glob("*.snapshot")]:
                made.unlink()
            found, expected = open_log(folder, config), open_log(tmp_path / "again", config)
            assert found.last_stable_offset == expected.last_stable_offset
            assert found.reader.aborted_transactions(0, 99) == expected.reader.aborted_transactions(0, 99)
            shutil.rmtree(tmp_path / "again")
        step += 1
    assert cuts > 40


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 3)),
        st.tuples(st.just("commit"), st.integers(1, 3)),
        st.tuples(st.just("abort"), st.integers(1, 3)),
        st.tuples(st.just("plain"), st.just(0)),
        st.tuples(st.just("checkpoint"), st.just(0)),
        st.tuples(st.just("crash"), st.just(0)),
        st.tuples(st.just("stop"), st.just(0)),
    ),
    max_size=40,
)


@settings(max_examples=60)
@given(STEPS)
def test_readers_see_committed_records_below_the_oldest_open_transaction(
    steps: list[tuple[str, int]],
) -> None:
    with TemporaryDirectory() as folder:
        walk(Path(folder), steps, NotSyncing())


def walk(folder: Path, steps: list[tuple[str, int]], files: FileSystem) -> None:
    config = LogConfig(segment_bytes_max=500)
    log = open_log(folder, config, files=files)
    producers = Producers(log)
    fates: list[tuple[int, bytes, int]] = []  # offset, value, producer (0 for none)
    open_since: dict[int, int] = {}
    aborted: set[int] = set()
    for number, (action, producer_id) in enumerate(steps):
        value = b"%d" % number
        if action == "write":
            offset = producers.write(producer_id, value)
            open_since.setdefault(producer_id, offset)
            fates.append((offset, value, producer_id))
        elif action in ("commit", "abort"):
            producers.commit(producer_id) if action == "commit" else producers.abort(producer_id)
            since = open_since.pop(producer_id, None)
            if since is not None and action == "abort":
                aborted |= {at for at, _, by in fates if by == producer_id and at >= since}
        elif action == "plain":
            fates.append((log.append(batch(value), now_ms=NOW_MS).base_offset, value, 0))
        elif action == "checkpoint":
            log.checkpoint(NOW_MS)
        else:
            if action == "stop":
                log.close()
            producers.log = log = open_log(folder, config, files=files, was_clean=action == "stop")
        stable = min(open_since.values(), default=log.end_offset)
        assert log.last_stable_offset == stable
        expected = [value for at, value, _ in fates if at < stable and at not in aborted]
        assert committed(log) == expected
