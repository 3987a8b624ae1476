from __future__ import annotations

import struct
from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.log.dump import (
    DumpedBatch,
    DumpedCheckpointLine,
    DumpedIndexEntry,
    DumpedProblem,
    DumpedProducer,
    DumpedTimeIndexEntry,
    dump,
)
from headrace.log.producer_state import ProducerStates
from headrace.records.batch import read_header
from headrace.records.compression import Codec
from headrace.records.record import Record, encode_batch


def _batch(offset: int, codec: Codec = Codec.NONE) -> bytes:
    records = [Record(offset=offset + n, timestamp_ms=n, key=b"k%d" % n, value=b"v") for n in range(3)]
    return encode_batch(records, base_offset=offset, codec=codec)


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    path = tmp_path / "00000000000000000100.log"
    path.write_bytes(b"".join(_batch(100 + 3 * index, codec) for index, codec in enumerate(Codec)))
    return path


def test_log_shows_every_batch_with_its_position_and_header(segment: Path) -> None:
    content = segment.read_bytes()
    rows = list(dump(segment))
    assert len(rows) == 5
    for row in rows:
        assert isinstance(row, DumpedBatch)
        assert row.header == read_header(content, row.position)
        assert (row.is_checksum_right, row.records, row.problem) == (True, (), None)
    assert [row.header.base_offset for row in rows if isinstance(row, DumpedBatch)] == [
        100,
        103,
        106,
        109,
        112,
    ]


def test_log_shows_records_if_requested(segment: Path) -> None:
    offsets = [
        record.offset
        for row in dump(segment, with_records=True)
        if isinstance(row, DumpedBatch)
        for record in row.records
    ]
    assert offsets == list(range(100, 115))


def test_empty_log_shows_nothing(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.touch()
    assert list(dump(path)) == []


def test_damaged_batch_is_shown_as_such_and_those_after_it_too(segment: Path) -> None:
    content = bytearray(segment.read_bytes())
    content[len(_batch(100)) - 1] ^= 1
    segment.write_bytes(content)
    first, *others = [row for row in dump(segment, with_records=True) if isinstance(row, DumpedBatch)]
    assert (first.is_checksum_right, first.records, first.problem) == (
        False,
        (),
        "the checksum does not match",
    )
    assert [row.problem for row in others] == [None] * 4


def test_torn_tail_is_one_problem_at_its_position_wherever_it_is_cut(segment: Path) -> None:
    first, second = _batch(100), _batch(103)
    for cut in range(1, len(second)):
        segment.write_bytes(first + second[:cut])
        _, problem = dump(segment)
        assert isinstance(problem, DumpedProblem)
        assert problem.position == len(first)


def test_invalid_length_or_magic_ends_the_dump_with_a_problem(segment: Path) -> None:
    for position, value, word in ((8, b"\xff\xff\xff\xff", "length -1"), (16, b"\x01", "magic 1")):
        damaged = bytearray(_batch(100))
        damaged[position : position + len(value)] = value
        segment.write_bytes(bytes(damaged) + _batch(103))
        (problem,) = dump(segment)
        assert isinstance(problem, DumpedProblem)
        assert word in problem.message


def test_bomb_is_shown_as_a_problem_of_its_batch(segment: Path) -> None:
    record = Record(offset=0, timestamp_ms=0, key=b"k", value=bytes(100_000))
    segment.write_bytes(encode_batch([record], codec=Codec.ZSTD) + _batch(1))
    bomb, other = dump(segment, with_records=True, decompressed_bytes_max=1000)
    assert isinstance(bomb, DumpedBatch)
    assert isinstance(other, DumpedBatch)
    assert bomb.problem is not None
    assert "1000 bytes" in bomb.problem
    assert len(other.records) == 3


def test_index_shows_absolute_offsets_and_stops_at_the_zeros_that_kafka_allocates(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000100.index"
    entries = struct.pack(">iiii", 5, 4100, 9, 8200)
    expected = [
        DumpedIndexEntry(offset=105, log_position=4100),
        DumpedIndexEntry(offset=109, log_position=8200),
    ]
    path.write_bytes(entries)
    assert list(dump(path)) == expected
    path.write_bytes(entries + bytes(80))
    assert list(dump(path)) == expected


def test_index_problems_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000100.index"
    path.write_bytes(struct.pack(">iiii", 9, 4100, 5, 8200) + b"xyz")
    problems = [row for row in dump(path) if isinstance(row, DumpedProblem)]
    assert [problem.position for problem in problems] == [8, 16]


def test_time_index_shows_timestamps_with_absolute_offsets(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000100.timeindex"
    path.write_bytes(struct.pack(">qiqi", 1000, 3, 2000, 8) + bytes(24))
    assert list(dump(path)) == [
        DumpedTimeIndexEntry(timestamp_ms=1000, offset=103),
        DumpedTimeIndexEntry(timestamp_ms=2000, offset=108),
    ]
    path.write_bytes(struct.pack(">qiqi", 1000, 3, 999, 8))
    assert [row.position for row in dump(path) if isinstance(row, DumpedProblem)] == [12]


def test_snapshot_that_the_log_writes_is_shown(tmp_path: Path) -> None:
    producers = ProducerStates(producer_ids_max=10)
    producers.update(4711, 2, 0, 4, 100, 104, 0, 5555)
    producers.update(4711, 2, 5, 6, 105, 106, 0, 6666)
    path = tmp_path / "00000000000000000107.snapshot"
    path.write_bytes(producers.encode())
    assert list(dump(path)) == [
        DumpedProducer(
            producer_id=4711,
            producer_epoch=2,
            last_sequence=6,
            last_offset=106,
            offset_delta=1,
            timestamp_ms=6666,
            coordinator_epoch=-1,
            transaction_first_offset=-1,
        )
    ]


def test_damaged_snapshot_shows_its_problem_and_its_readable_entries(tmp_path: Path) -> None:
    producers = ProducerStates(producer_ids_max=10)
    producers.update(4711, 2, 0, 4, 100, 104, 0, 5555)
    content = producers.encode()
    path = tmp_path / "00000000000000000105.snapshot"
    path.write_bytes(content[:-1] + b"x")
    assert [type(row) for row in dump(path)] == [DumpedProblem, DumpedProducer]
    path.write_bytes(content[:7])
    assert [type(row) for row in dump(path)] == [DumpedProblem]
    path.write_bytes(content[:6] + b"\x7f\xff\xff\xff" + content[10:])
    assert [type(row) for row in dump(path)] == [DumpedProblem, DumpedProducer, DumpedProblem]


def test_checkpoints_show_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "recovery-point-offset-checkpoint"
    path.write_text("0\n2\norders 0 17\norders 1 4\n")
    assert list(dump(path)) == [
        DumpedCheckpointLine(line=3, fields=("orders", "0", "17")),
        DumpedCheckpointLine(line=4, fields=("orders", "1", "4")),
    ]
    path.write_text("0\n3\norders 0 17\n")
    assert [type(row) for row in dump(path)] == [DumpedProblem, DumpedCheckpointLine]
    path.write_text("")
    assert [type(row) for row in dump(path)] == [DumpedProblem]


@pytest.mark.parametrize(
    "name", ["notes.txt", "00000000000000000000.other", "abc.index", "partition.metadata"]
)
def test_file_of_another_kind_is_rejected_immediately_with_a_hint(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"abc")
    with pytest.raises(HeadraceError) as rejected:
        dump(tmp_path / name)
    assert rejected.value.hint


def test_missing_file_is_rejected_immediately(tmp_path: Path) -> None:
    with pytest.raises(HeadraceError, match="is missing"):
        dump(tmp_path / "00000000000000000000.log")


@pytest.mark.parametrize("suffix", [".deleted", ".cleaned", ".swap"])
def test_unfinished_and_removed_files_are_shown(segment: Path, suffix: str) -> None:
    moved = segment.rename(segment.with_name(segment.name + suffix))
    assert len(list(dump(moved))) == 5
