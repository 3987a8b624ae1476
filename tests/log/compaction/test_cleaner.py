from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch

from headrace.log.aborted_index import AbortedTransaction
from headrace.log.compaction.cleaner import (
    Compacted,
    CompactionPlan,
    CompactionReason,
    CompactionSegment,
    CompactionStopped,
    group_segments,
    plan,
    run,
)
from headrace.log.compaction.offset_map import build_offset_map
from headrace.log.config import LogConfig
from headrace.records.batch import (
    HEADER_BYTES,
    BatchHeader,
    Codec,
    InvalidBatchKind,
    TimestampType,
    checksum_matches,
    iterate_headers,
    read_header,
)
from headrace.records.record import Record, decode_records, encode_batch

NOW_MS = 10_000_000
CONFIG = LogConfig(
    cleanup_policy=frozenset({"compact"}), delete_retention_ms=1000, decompressed_bytes_max=1 << 20
)


class CleanedFile:
    """A cleaned segment as a plain file: what the log's own writer does, without the indexes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("wb")
        self.is_finished = False

    def append(self, batch: bytes, header: BatchHeader) -> None:
        assert header == read_header(batch)
        self._file.write(batch)

    def keep_aborted(self, aborted: Sequence[AbortedTransaction]) -> None:
        self.aborted = tuple(aborted)

    def finish(self) -> None:
        self._file.close()
        self.is_finished = True

    def abandon(self) -> None:
        self._file.close()
        self.path.unlink()


class LogOnDisk:
    """Closed segments in a folder, and the swap that a partition log makes after a pass."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(exist_ok=True)
        self.end_offset = 0

    def write_segment(self, *batches: bytes) -> None:
        base_offset = read_header(batches[0]).base_offset
        self._path(base_offset).write_bytes(b"".join(batches))
        self.end_offset = read_header(batches[-1]).next_offset

    def _path(self, base_offset: int) -> Path:
        return self.directory / f"{base_offset:020}.log"

    def segments(self) -> list[CompactionSegment]:
        """All segments, with an empty active one at the end of the log."""
        closed = [_segment(path) for path in sorted(self.directory.glob("*.log"))]
        return [*closed, _segment(self._path(self.end_offset))]

    def batches(self) -> list[bytes]:
        return [batch for segment in self.segments()[:-1] for batch in read_batches(segment)]

    def records(self) -> list[Record]:
        return [record for batch in self.batches() for record in decode_records(batch, bytes_max=1 << 30)]

    def plan(self, *, first_dirty_offset: int = 0, config: LogConfig = CONFIG) -> CompactionPlan | None:
        return plan(
            self.segments(),
            first_dirty_offset=first_dirty_offset,
            start_offset=0,
            cleanable_before_offset=self.end_offset,
            now_ms=NOW_MS,
            config=replace(config, min_cleanable_dirty_ratio=0.0),
        )

    def compact(
        self,
        *,
        first_dirty_offset: int = 0,
        now_ms: int = NOW_MS,
        config: LogConfig = CONFIG,
        last_offset_of_producers: dict[int, int] | None = None,
        offset_map_entries_max: int = 1000,
    ) -> Compacted:
        planned = self.plan(first_dirty_offset=first_dirty_offset, config=config)
        assert planned is not None
        done = run(
            planned,
            config=config,
            read_batches=read_batches,
            open_cleaned=self.open_cleaned,
            last_offset_of_producers=last_offset_of_producers or {},
            now_ms=now_ms,
            offset_map_entries_max=offset_map_entries_max,
        )
        self.swap(done)
        return done

    def open_cleaned(self, base_offset: int) -> CleanedFile:
        return CleanedFile(self._path(base_offset).with_suffix(".cleaned"))

    def swap(self, done: Compacted) -> None:
        for replacement in done.replacements:
            writer = replacement.writer
            assert isinstance(writer, CleanedFile)
            assert writer.is_finished
            assert writer.path.stat().st_size == replacement.size_bytes
            for source in replacement.sources:
                source.path.unlink()
            writer.path.rename(self._path(replacement.base_offset))


def read_batches(segment: CompactionSegment) -> Iterator[bytes]:
    content = segment.path.read_bytes()
    for position, header in iterate_headers(content):
        yield content[position : position + header.size_bytes]


def _segment(path: Path) -> CompactionSegment:
    content = path.read_bytes() if path.exists() else b""
    headers = [header for _, header in iterate_headers(content)]
    return CompactionSegment(
        base_offset=int(path.stem),
        path=path,
        size_bytes=len(content),
        index_bytes=8 * len(headers),
        time_index_bytes=12 * len(headers),
        first_timestamp_ms=headers[0].max_timestamp_ms if headers else -1,
        max_timestamp_ms=max((header.max_timestamp_ms for header in headers), default=-1),
    )


def _record(offset: int, key: str, value: str | None, timestamp_ms: int = 1000) -> Record:
    return Record(
        offset=offset,
        timestamp_ms=timestamp_ms + offset,
        key=key.encode(),
        value=None if value is None else value.encode(),
        headers=(("from", b"test"),),
    )


def _batch(
    offset: int, *pairs: tuple[str, str | None], codec: Codec = Codec.NONE, producer_id: int = -1
) -> bytes:
    records = [_record(offset + index, key, value) for index, (key, value) in enumerate(pairs)]
    return encode_batch(
        records,
        base_offset=offset,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=offset if producer_id >= 0 else -1,
        leader_epoch=4,
    )


def _fold(records: Sequence[Record]) -> dict[bytes | None, bytes]:
    """The table that a reader of the log ends up with."""
    table: dict[bytes | None, bytes] = {}
    for record in records:
        if record.value is None:
            table.pop(record.key, None)
        else:
            table[record.key] = record.value
    return table


@pytest.fixture
def log(tmp_path: Path) -> LogOnDisk:
    return LogOnDisk(tmp_path)


# --- properties over whole logs ---

keys = st.sampled_from(["a", "b", "c", "d", "e"])
values = st.none() | st.text("xyz", max_size=3)
segment_shapes = st.lists(  # segments of batches of pairs
    st.lists(st.lists(st.tuples(keys, values), min_size=1, max_size=5), min_size=1, max_size=3),
    min_size=1,
    max_size=5,
)


def _fill(log: LogOnDisk, shape: list[list[list[tuple[str, str | None]]]], codec: Codec = Codec.NONE) -> None:
    offset = 0
    for segment in shape:
        batches = []
        for pairs in segment:
            batches.append(_batch(offset, *pairs, codec=codec))
            offset += len(pairs)
        log.write_segment(*batches)


@given(shape=segment_shapes, codec=st.sampled_from(Codec), later_ms=st.sampled_from([0, 999, 1000, 10**9]))
def test_folding_a_compacted_log_gives_the_same_table(
    tmp_path_factory: pytest.TempPathFactory, shape: list, codec: Codec, later_ms: int
) -> None:
    log = LogOnDisk(tmp_path_factory.mktemp("log"))
    _fill(log, shape, codec)
    before = log.records()
    log.compact()
    assert _fold(log.records()) == _fold(before)
    log.compact(now_ms=NOW_MS + later_ms)
    assert _fold(log.records()) == _fold(before)


@given(shape=segment_shapes, codec=st.sampled_from(Codec))
def test_exactly_the_last_record_of_each_key_survives_unchanged_at_its_offset(
    tmp_path_factory: pytest.TempPathFactory, shape: list, codec: Codec
) -> None:
    log = LogOnDisk(tmp_path_factory.mktemp("log"))
    _fill(log, shape, codec)
    before = log.records()
    done = log.compact()
    last_of_key = {record.key: record for record in before}
    assert log.records() == sorted(last_of_key.values(), key=lambda record: record.offset)
    assert (done.tally.records_read, done.tally.records_kept) == (len(before), len(last_of_key))
    assert (done.first_dirty_offset, done.is_partial) == (len(before), False)


@given(shape=segment_shapes, codec=st.sampled_from(Codec))
def test_compacting_again_changes_no_byte(
    tmp_path_factory: pytest.TempPathFactory, shape: list, codec: Codec
) -> None:
    log = LogOnDisk(tmp_path_factory.mktemp("log"))
    _fill(log, shape, codec)
    log.compact()
    once = log.batches()
    log.compact()
    assert log.batches() == once


@given(shape=segment_shapes, entries_max=st.integers(1, 4))
def test_small_map_reaches_the_same_result_in_several_passes(
    tmp_path_factory: pytest.TempPathFactory, shape: list, entries_max: int
) -> None:
    whole, parts = (LogOnDisk(tmp_path_factory.mktemp("log")) for _ in range(2))
    for log in (whole, parts):
        _fill(log, shape)
    whole.compact()
    first_dirty_offset = 0
    while first_dirty_offset < parts.end_offset:
        done = parts.compact(first_dirty_offset=first_dirty_offset, offset_map_entries_max=entries_max)
        assert done.first_dirty_offset > first_dirty_offset
        assert done.is_partial is (done.first_dirty_offset < parts.end_offset)
        first_dirty_offset = done.first_dirty_offset
    assert parts.records() == whole.records()


@given(shape=segment_shapes, codec=st.sampled_from(Codec))
def test_cleaned_batches_are_sound_for_another_client(
    tmp_path_factory: pytest.TempPathFactory, shape: list, codec: Codec
) -> None:
    log = LogOnDisk(tmp_path_factory.mktemp("log"))
    _fill(log, shape, codec)
    before = {read_header(batch).base_offset: read_header(batch) for batch in log.batches()}
    log.compact()
    for batch in log.batches():
        header, other = read_header(batch), DefaultRecordBatch(batch)
        assert other.validate_crc()
        assert [(r.offset, r.timestamp, r.key, r.value) for r in other] == [
            (r.offset, r.timestamp_ms, r.key, r.value) for r in decode_records(batch, bytes_max=1 << 20)
        ]
        source = before[header.base_offset]
        assert (header.last_offset, header.leader_epoch) == (source.last_offset, source.leader_epoch)


# --- single batches ---


def test_batch_whose_records_all_survive_is_copied_byte_for_byte(log: LogOnDisk) -> None:
    kept = _batch(3, ("b", "2"), ("c", "3"), codec=Codec.ZSTD)
    log.write_segment(_batch(0, ("a", "1"), ("a", "2"), ("a", "3")), kept)
    log.compact()
    assert log.batches()[1] == kept


def test_segment_that_came_out_as_it_was_is_not_replaced(log: LogOnDisk) -> None:
    log.write_segment(_batch(0, ("a", "1"), ("b", "1")))
    done = log.compact()
    assert done.replacements == ()
    assert list(log.directory.glob("*.cleaned")) == []


def test_log_append_time_stays_the_batch_s_own(log: LogOnDisk) -> None:
    records = [_record(0, "a", "1"), _record(1, "b", "1"), _record(2, "a", "2")]
    log.write_segment(encode_batch(records, timestamp_type=TimestampType.LOG_APPEND_TIME))
    log.compact()
    assert [(record.offset, record.timestamp_ms) for record in log.records()] == [(1, 1002), (2, 1002)]


def test_largest_timestamp_is_that_of_the_records_that_are_left(log: LogOnDisk) -> None:
    records = [_record(0, "a", "1", 9000), _record(1, "b", "1", 10), _record(2, "a", "2", 20)]
    log.write_segment(encode_batch(records))
    log.compact()
    (batch,) = log.batches()
    assert read_header(batch).max_timestamp_ms == 22


def test_records_without_a_key_go_and_are_counted(log: LogOnDisk) -> None:
    keyless = Record(offset=1, timestamp_ms=0, key=None, value=b"old")
    log.write_segment(encode_batch([_record(0, "a", "1"), keyless]))
    assert log.compact().tally.keyless_removed == 1
    assert [record.key for record in log.records()] == [b"a"]


def test_control_batches_are_kept_though_their_keys_are_the_same(log: LogOnDisk) -> None:
    markers = [
        encode_batch(
            [Record(offset=offset, timestamp_ms=0, key=b"\0\0\0\1", value=b"\0\0\0\0\0\0")],
            base_offset=offset,
            producer_id=5,
            producer_epoch=0,
            is_transactional=True,
            is_control=True,
        )
        for offset in (1, 3)
    ]
    data = _batch(2, ("\0\0\0\1", "not a marker"))
    log.write_segment(_batch(0, ("a", "1")), markers[0], data, markers[1], _batch(4, ("a", "2")))
    log.compact()

    def keys(batches: list[bytes]) -> list[tuple[int, bytes | None]]:
        return [(r.offset, r.key) for one in batches for r in decode_records(one, bytes_max=1 << 20)]

    assert keys(log.batches()[:3]) == keys([markers[0], data, markers[1]])


# --- tombstones ---


def test_tombstone_gets_a_delete_horizon_and_keeps_its_timestamp(log: LogOnDisk) -> None:
    for codec in Codec:
        log = LogOnDisk(log.directory / codec.name)
        log.write_segment(_batch(0, ("a", "1"), ("b", "1")), _batch(2, ("a", None), ("c", "1"), codec=codec))
        before = {record.offset: record for record in log.records()}
        log.compact()
        batch = log.batches()[-1]
        assert read_header(batch).delete_horizon_ms == NOW_MS + CONFIG.delete_retention_ms
        assert read_header(batch).max_timestamp_ms == before[3].timestamp_ms
        assert log.records() == [before[1], before[2], before[3]]


def test_tombstone_goes_once_its_horizon_has_passed_and_not_before(log: LogOnDisk) -> None:
    log.write_segment(_batch(0, ("a", "1"), ("b", "1")), _batch(2, ("a", None), ("c", "1")))
    log.compact()
    marked = log.batches()
    log.compact(now_ms=NOW_MS + CONFIG.delete_retention_ms - 1)
    assert log.batches() == marked
    log.compact(now_ms=NOW_MS + CONFIG.delete_retention_ms)
    assert [(record.offset, record.key) for record in log.records()] == [(1, b"b"), (3, b"c")]


def test_horizon_is_set_once_and_later_passes_leave_it(log: LogOnDisk) -> None:
    log.write_segment(_batch(0, ("a", None), ("b", "1"), ("c", "1")))
    log.compact()
    log.write_segment(_batch(3, ("b", "2")))
    log.compact(now_ms=NOW_MS + 500)
    header = read_header(log.batches()[0])
    assert header.delete_horizon_ms == NOW_MS + CONFIG.delete_retention_ms
    assert [record.timestamp_ms for record in log.records()] == [1000, 1002, 1003]


def test_clock_of_a_tombstone_starts_only_when_a_pass_covers_it(log: LogOnDisk) -> None:
    log.write_segment(_batch(0, ("a", "1")), _batch(1, ("b", "1")), _batch(2, ("a", None)))
    done = log.compact(offset_map_entries_max=2)
    assert done.first_dirty_offset == 2
    assert not read_header(log.batches()[-1]).has_delete_horizon


# --- idempotent producers ---


def test_batch_with_the_last_sequence_of_an_active_producer_stays_as_a_bare_header(log: LogOnDisk) -> None:
    log.write_segment(
        _batch(0, ("a", "1"), ("a", "2"), producer_id=7),
        _batch(2, ("a", "3"), ("a", "4"), producer_id=7, codec=Codec.GZIP),
        _batch(4, ("a", "5")),
        _batch(5, ("b", "1")),
    )
    log.compact(last_offset_of_producers={7: 3})
    empty, *others = log.batches()
    header = read_header(empty)
    assert (len(empty), header.record_count, header.compression) == (HEADER_BYTES, 0, Codec.NONE)
    assert (header.base_offset, header.last_offset) == (2, 3)
    assert (header.producer_id, header.producer_epoch, header.last_sequence) == (7, 0, 3)
    assert checksum_matches(empty)
    assert DefaultRecordBatch(empty).validate_crc()
    assert [read_header(batch).base_offset for batch in others] == [4, 5]


def test_bare_header_goes_when_its_producer_is_no_longer_active(log: LogOnDisk) -> None:
    log.write_segment(_batch(0, ("a", "1"), producer_id=7), _batch(1, ("a", "2")))
    log.compact(last_offset_of_producers={7: 0})
    assert len(log.batches()) == 2
    log.compact(last_offset_of_producers={7: 0})
    assert len(log.batches()) == 2
    log.compact()
    assert [read_header(batch).base_offset for batch in log.batches()] == [1]


def test_last_batch_of_a_pass_stays_even_if_empty_so_that_the_end_of_the_log_is_known(log: LogOnDisk) -> None:
    log.write_segment(_batch(0, ("a", "1")), _batch(1, ("a", None)))
    log.compact()
    log.compact(now_ms=NOW_MS + CONFIG.delete_retention_ms)
    (batch,) = log.batches()
    assert (read_header(batch).record_count, read_header(batch).next_offset) == (0, 2)


def test_pass_is_complete_though_offsets_are_missing_before_the_active_segment(log: LogOnDisk) -> None:
    log.write_segment(_batch(0, ("a", "1"), ("a", "2")))
    log.end_offset = 10
    assert log.compact().first_dirty_offset == 10


# --- batches that cannot be decoded ---


def _damaged(batch: bytes) -> bytes:
    return batch[:-1] + bytes([batch[-1] ^ 1])


@pytest.mark.parametrize(
    ("batch", "kind"),
    [
        (_damaged(_batch(1, ("b", "1"), ("b", "2"))), InvalidBatchKind.CORRUPT),
        (
            _batch(1, ("b", "1" * 2_000_000), ("b", "2"), codec=Codec.ZSTD),
            InvalidBatchKind.DECOMPRESSION_BOMB,
        ),
    ],
    ids=["flipped bit", "bomb"],
)
def test_batch_that_cannot_be_decoded_stays_and_is_reported_and_the_pass_goes_on(
    log: LogOnDisk, batch: bytes, kind: InvalidBatchKind
) -> None:
    log.write_segment(_batch(0, ("a", "1")), batch, _batch(3, ("a", "2"), ("b", "3")))
    done = log.compact()
    assert log.batches() == [batch, _batch(3, ("a", "2"), ("b", "3"))]
    (reported,) = done.tally.undecodable
    assert (reported.base_offset, reported.kind) == (1, kind)
    assert reported.path.name == "00000000000000000000.log"
    assert done.first_dirty_offset == 5


def test_no_value_rises_from_an_undecodable_batch_when_tombstones_expire(log: LogOnDisk) -> None:
    bomb = _batch(0, ("a", "1" * 2_000_000), codec=Codec.ZSTD)
    log.write_segment(bomb, _batch(1, ("a", None), ("b", "1")))
    log.compact()
    log.compact(now_ms=NOW_MS + 10**9)
    assert _fold(log.records()) == {b"b": b"1"}


def test_tombstones_before_an_undecodable_batch_still_expire(log: LogOnDisk) -> None:
    log.write_segment(_batch(0, ("a", None), ("b", "1")), _damaged(_batch(2, ("c", "1"))))
    log.compact()
    log.compact(now_ms=NOW_MS + 10**9)
    assert [record.key for record in log.records()] == [b"b", b"c"]


# --- failures ---


def test_failure_leaves_the_log_and_no_cleaned_file(log: LogOnDisk) -> None:
    log.write_segment(_batch(0, ("a", "1"), ("a", "2")))
    log.write_segment(_batch(2, ("a", "3"), ("a", "4")))
    before = log.batches()
    planned = log.plan()
    assert planned is not None
    reads = 0

    def read_until_the_disk_fails(segment: CompactionSegment) -> Iterator[bytes]:
        nonlocal reads
        reads += 1
        if reads == 4:
            raise OSError("the disk has gone")
        return read_batches(segment)

    with pytest.raises(OSError, match="gone"):
        run(
            planned,
            # So small that each segment is a group: the first is finished when the second fails.
            config=replace(CONFIG, segment_bytes_max=1),
            read_batches=read_until_the_disk_fails,
            open_cleaned=log.open_cleaned,
            last_offset_of_producers={},
            now_ms=NOW_MS,
        )
    assert log.batches() == before
    assert list(log.directory.glob("*.cleaned")) == []


def test_pass_can_be_stopped_at_any_batch(log: LogOnDisk) -> None:
    log.write_segment(_batch(0, ("a", "1"), ("a", "2")), _batch(2, ("a", "3")))
    planned = log.plan()
    assert planned is not None
    for count in range(4):
        answers = iter([False] * count + [True])
        with pytest.raises(CompactionStopped):
            run(
                planned,
                config=CONFIG,
                read_batches=read_batches,
                open_cleaned=log.open_cleaned,
                last_offset_of_producers={},
                now_ms=NOW_MS,
                should_stop=lambda answers=answers: next(answers),  # type: ignore[misc]
            )
        assert list(log.directory.glob("*.cleaned")) == []


# --- the offset map ---


def test_map_takes_at_least_one_batch_and_stops_between_batches_when_full() -> None:
    batches = [_batch(0, ("a", "1"), ("b", "1"), ("c", "1")), _batch(3, ("d", "1")), _batch(4, ("e", "1"))]
    covered = []
    for entries_max in (1, 3, 4, 5, 6):
        built = build_offset_map(
            batches, first_dirty_offset=0, entries_max=entries_max, decompressed_bytes_max=1000
        )
        covered.append((built.latest_offset, built.is_full))
    assert covered == [(2, True), (2, True), (3, True), (4, False), (4, False)]


def test_map_leaves_out_what_is_clean_already() -> None:
    batches = [_batch(0, ("a", "1"), ("b", "1")), _batch(2, ("c", "1"))]
    built = build_offset_map(batches, first_dirty_offset=1, entries_max=10, decompressed_bytes_max=1000)
    assert sorted(built.offsets.values()) == [1, 2]
    assert not built.is_superseded(b"c", 2)
    assert built.is_superseded(b"c", 1)
    assert not built.is_superseded(b"a", 0)


def test_map_of_clean_batches_covers_nothing() -> None:
    batches = [_batch(0, ("a", "1"), ("b", "1"))]
    built = build_offset_map(batches, first_dirty_offset=5, entries_max=10, decompressed_bytes_max=1000)
    assert (built.offsets, built.latest_offset, built.is_full) == ({}, 4, False)


def test_map_remembers_a_key_in_few_bytes_however_long_it_is() -> None:
    batch = _batch(0, ("k" * 10_000, "1"))
    built = build_offset_map([batch], first_dirty_offset=0, entries_max=10, decompressed_bytes_max=100_000)
    assert [len(digest) for digest in built.offsets] == [16]


# --- planning ---


def _planned_segments(*sizes_and_ages: tuple[int, int]) -> list[CompactionSegment]:
    return [
        CompactionSegment(
            base_offset=100 * index,
            path=Path(f"{100 * index:020}.log"),
            size_bytes=size_bytes,
            index_bytes=8,
            time_index_bytes=12,
            first_timestamp_ms=NOW_MS - age_ms,
            max_timestamp_ms=NOW_MS - age_ms,
        )
        for index, (size_bytes, age_ms) in enumerate(sizes_and_ages)
    ]


def _plan(
    segments: list[CompactionSegment],
    *,
    first_dirty_offset: int = 0,
    start_offset: int = 0,
    cleanable_before_offset: int = 10**9,
    config: LogConfig = CONFIG,
) -> CompactionPlan | None:
    return plan(
        segments,
        first_dirty_offset=first_dirty_offset,
        start_offset=start_offset,
        cleanable_before_offset=cleanable_before_offset,
        now_ms=NOW_MS,
        config=config,
    )


def test_active_segment_is_never_cleaned() -> None:
    assert _plan(_planned_segments((100, 10))) is None
    planned = _plan(_planned_segments((100, 10), (100, 10)))
    assert planned is not None
    assert [segment.base_offset for segment in planned.segments] == [0]
    assert planned.end_offset == 100


def test_log_is_due_when_more_than_the_ratio_is_dirty() -> None:
    segments = _planned_segments((60, 10), (40, 10), (100, 10))
    due = {
        ratio: _plan(
            segments, first_dirty_offset=100, config=replace(CONFIG, min_cleanable_dirty_ratio=ratio)
        )
        for ratio in (0.39, 0.4, 0.41)
    }
    assert [planned is not None for planned in due.values()] == [True, False, False]
    planned = due[0.39]
    assert planned is not None
    assert (planned.dirty_ratio, planned.reason) == (0.4, CompactionReason.DIRTY_RATIO)
    assert [segment.base_offset for segment in planned.segments] == [0, 100]


def test_clean_log_is_never_due() -> None:
    config = replace(CONFIG, min_cleanable_dirty_ratio=0.0, max_compaction_lag_ms=1)
    assert _plan(_planned_segments((60, 10), (40, 10)), first_dirty_offset=100, config=config) is None


def test_young_segment_and_all_behind_it_wait_for_the_minimum_lag() -> None:
    segments = _planned_segments((10, 500), (10, 99), (10, 500), (10, 500))
    planned = _plan(segments, config=replace(CONFIG, min_compaction_lag_ms=100))
    assert planned is not None
    assert planned.end_offset == 100
    planned = _plan(segments, config=replace(CONFIG, min_compaction_lag_ms=99))
    assert planned is not None
    assert planned.end_offset == 300


def test_young_segment_that_is_clean_already_holds_up_nothing() -> None:
    segments = _planned_segments((10, 5), (100, 500), (10, 0))
    planned = _plan(segments, first_dirty_offset=100, config=replace(CONFIG, min_compaction_lag_ms=100))
    assert planned is not None
    assert planned.end_offset == 200


def test_old_dirty_record_makes_a_log_due_whatever_the_ratio() -> None:
    segments = _planned_segments((1000, 900), (1, 501), (10, 0))
    config = replace(CONFIG, max_compaction_lag_ms=500)
    planned = _plan(segments, first_dirty_offset=100, config=config)
    assert planned is not None
    assert planned.reason is CompactionReason.MAX_LAG
    later = replace(CONFIG, max_compaction_lag_ms=501)
    assert _plan(segments, first_dirty_offset=100, config=later) is None


def test_what_is_not_final_stays_out() -> None:
    segments = _planned_segments((10, 10), (10, 10), (10, 10))
    ends = []
    for cleanable_before_offset in (99, 100, 199, 200):
        planned = _plan(segments, cleanable_before_offset=cleanable_before_offset)
        ends.append(planned.end_offset if planned else None)
    assert ends == [None, 100, 100, 200]


@pytest.mark.parametrize("first_dirty_offset", [-1, 49, 301, 10**12])
def test_checkpoint_outside_of_the_log_means_that_all_is_dirty(first_dirty_offset: int) -> None:
    segments = _planned_segments((10, 10), (10, 10), (10, 10), (10, 10))
    planned = _plan(segments, first_dirty_offset=first_dirty_offset, start_offset=50)
    assert planned is not None
    assert (planned.first_dirty_offset, planned.dirty_ratio) == (50, 1.0)


# --- grouping ---


def _groups(segments: list[CompactionSegment], end_offset: int, config: LogConfig) -> list[list[int]]:
    groups = group_segments(segments, end_offset=end_offset, config=config)
    return [[segment.base_offset for segment in group] for group in groups]


def test_small_neighbours_share_a_segment_up_to_its_size() -> None:
    segments = _planned_segments((40, 0), (60, 0), (1, 0), (100, 0), (101, 0), (20, 0))
    config = replace(CONFIG, segment_bytes_max=100)
    assert _groups(segments, 600, config) == [[0, 100], [200], [300], [400], [500]]


def test_indexes_bound_a_group_too() -> None:
    segments = _planned_segments((1, 0), (1, 0), (1, 0))
    assert _groups(segments, 300, replace(CONFIG, index_bytes_max=24)) == [[0, 100], [200]]


def test_offsets_of_a_group_fit_in_32_bits() -> None:
    first, second = _planned_segments((1, 0), (1, 0))
    last_that_fits = 2**31 - 1
    assert _groups([first, second], last_that_fits + 1, CONFIG) == [[0, 100]]
    assert _groups([first, second], last_that_fits + 2, CONFIG) == [[0], [100]]


def test_several_cleaned_segments_become_one(log: LogOnDisk) -> None:
    for offset in range(0, 10, 2):
        log.write_segment(_batch(offset, ("a", str(offset)), (f"b{offset}", "1")))
    done = log.compact()
    assert [replacement.base_offset for replacement in done.replacements] == [0]
    assert len(log.segments()) == 2
    assert [record.offset for record in log.records()] == [1, 3, 5, 7, 8, 9]
