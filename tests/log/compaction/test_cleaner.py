from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch
from msgspec.structs import replace

from headrace.log.errors import CorruptSegment, LogError
from headrace.records.batch import read_header
from headrace.records.compression import Codec
from headrace.records.record import Record, decode_records
from tests.log.compaction.cleaning_lab import CONFIG, NOW_MS, LogOnDisk, keyed_batch


@pytest.fixture
def log(tmp_path: Path) -> LogOnDisk:
    return LogOnDisk(tmp_path)


keys = st.sampled_from(["a", "b", "c", "d", "e"])
values = st.none() | st.text("xyz", max_size=3)
segment_shapes = st.lists(  # segments of batches of pairs
    st.lists(st.lists(st.tuples(keys, values), min_size=1, max_size=5), min_size=1, max_size=3),
    min_size=1,
    max_size=5,
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


def _fill(log: LogOnDisk, shape: list[list[list[tuple[str, str | None]]]], codec: Codec = Codec.NONE) -> None:
    offset = 0
    for segment in shape:
        batches = []
        for pairs in segment:
            batches.append(keyed_batch(offset, *pairs, codec=codec))
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
    assert done.first_dirty_offset == len(before)


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
        first_dirty_offset = done.first_dirty_offset
    assert parts.records() == whole.records()


@given(shape=segment_shapes, codec=st.sampled_from(Codec))
def test_cleaned_batches_are_valid_for_another_client(
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


def test_unchanged_segment_is_not_replaced(log: LogOnDisk) -> None:
    log.write_segment(keyed_batch(0, ("a", "1"), ("b", "1")))
    done = log.compact()
    assert done.replacements == ()
    assert list(log.directory.glob("*.cleaned")) == []


def test_last_batch_of_a_pass_is_kept_even_if_empty_for_the_end_of_the_log(log: LogOnDisk) -> None:
    log.write_segment(keyed_batch(0, ("a", "1")), keyed_batch(1, ("a", None)))
    log.compact()
    log.compact(now_ms=NOW_MS + CONFIG.delete_retention_ms)
    (batch,) = log.batches()
    assert (read_header(batch).record_count, read_header(batch).next_offset) == (0, 2)


def test_pass_is_complete_though_offsets_are_missing_before_the_active_segment(log: LogOnDisk) -> None:
    log.write_segment(keyed_batch(0, ("a", "1"), ("a", "2")))
    log.end_offset = 10
    assert log.compact().first_dirty_offset == 10


BOMB = ("b", "1" * 2_000_000)


def test_batch_that_cannot_be_decoded_is_kept_and_reported_and_the_pass_continues(log: LogOnDisk) -> None:
    bomb = keyed_batch(1, BOMB, ("b", "2"), codec=Codec.ZSTD)
    log.write_segment(keyed_batch(0, ("a", "1")), bomb, keyed_batch(3, ("a", "2"), ("b", "3")))
    done = log.compact()
    assert log.batches() == [bomb, keyed_batch(3, ("a", "2"), ("b", "3"))]
    (reported,) = done.undecodable
    assert (reported.base_offset, Path(reported.path).name) == (1, "00000000000000000000.log")
    assert "1048576" in reported.reason
    assert done.first_dirty_offset == 5


def test_damaged_batch_ends_the_pass_and_is_not_rewritten(log: LogOnDisk) -> None:
    batch = keyed_batch(1, ("b", "1"), ("b", "2"))
    log.write_segment(keyed_batch(0, ("a", "1")), batch[:-1] + bytes([batch[-1] ^ 1]))
    with pytest.raises(CorruptSegment, match="checksum"):
        log.compact()
    assert list(log.directory.glob("*.cleaned")) == []


def test_tombstones_after_an_undecodable_batch_do_not_expire(log: LogOnDisk) -> None:
    log.write_segment(keyed_batch(0, BOMB, codec=Codec.ZSTD), keyed_batch(1, ("b", None), ("c", "1")))
    log.compact()
    log.compact(now_ms=NOW_MS + 10**9)
    assert _fold(log.records()) == {b"c": b"1"}


def test_tombstones_before_an_undecodable_batch_still_expire(log: LogOnDisk) -> None:
    log.write_segment(keyed_batch(0, ("a", None), ("c", "1")), keyed_batch(2, BOMB, codec=Codec.ZSTD))
    log.compact()
    log.compact(now_ms=NOW_MS + 10**9)
    assert [record.key for record in log.records()] == [b"c", b"b"]


def test_failure_leaves_the_log_and_no_cleaned_file(log: LogOnDisk) -> None:
    log.write_segment(keyed_batch(0, ("a", "1"), ("a", "2")))
    log.write_segment(keyed_batch(2, ("a", "3"), ("a", "4")))
    before = log.batches()
    # So small that each segment is a group: the first is finished when the second fails.
    due = log.due(config=replace(CONFIG, segment_bytes_max=1))
    log.files.fail("sync", "*2.log.cleaned")
    with pytest.raises(OSError, match="error"):
        due.run()
    assert log.batches() == before
    assert list(log.directory.glob("*.cleaned")) == []


def test_pass_can_be_stopped_at_any_batch(log: LogOnDisk) -> None:
    log.write_segment(keyed_batch(0, ("a", "1"), ("a", "2")), keyed_batch(2, ("a", "3")))
    for count in range(4):
        answers = iter([False] * count + [True])
        due = log.due(should_stop=lambda answers=answers: next(answers))  # type: ignore[misc]
        with pytest.raises(LogError, match="stopped"):
            due.run()
        assert list(log.directory.glob("*.cleaned")) == []


def test_pass_changes_no_segment_and_syncs_what_it_writes(log: LogOnDisk) -> None:
    log.write_segment(keyed_batch(0, ("a", "1"), ("a", "2")))
    before = log.batches()
    (replacement,) = log.due().run().replacements
    cleaned = replacement.cleaned
    assert log.batches() == before
    assert cleaned.path.endswith(".log.cleaned")
    assert 0 < cleaned.synced_bytes == cleaned.size_bytes
    for kind in (".log", ".index", ".timeindex"):
        assert ("sync", cleaned.stem + kind + ".cleaned") in log.files.operations


def test_several_cleaned_segments_become_one(log: LogOnDisk) -> None:
    for offset in range(0, 10, 2):
        log.write_segment(keyed_batch(offset, ("a", str(offset)), (f"b{offset}", "1")))
    done = log.compact()
    assert [replacement.cleaned.base_offset for replacement in done.replacements] == [0]
    assert len(log.segments()) == 2
    assert [record.offset for record in log.records()] == [1, 3, 5, 7, 8, 9]
