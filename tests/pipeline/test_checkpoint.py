"""Spark's checkpoint folder, read and restored. That Spark reads what is written here is in run/test_stream."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.pipeline.checkpoint import Checkpoint
from headrace.pipeline.errors import BadJob
from headrace.pipeline.fence import Fence

METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}'
FIRST, SECOND, THIRD = ('{"clicks":{"0":0}}', '{"clicks":{"0":10}}', '{"clicks":{"0":25}}')


def as_spark_writes(folder: Path) -> Checkpoint:
    """Two batches planned, one committed."""
    for place, text in {
        "metadata": '{"id":"7c17cd84"}',
        "sources/0/0": f"\0v1\n{FIRST}",
        "offsets/0": f"v1\n{METADATA}\n{SECOND}",
        "offsets/.0.crc": "x",
        "commits/0": 'v1\n{"nextBatchWatermarkMs":0}',
        "offsets/1": f"v1\n{METADATA}\n{THIRD}",
    }.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text(text)
    return Checkpoint(folder)


def test_folder_without_a_query_has_no_identity(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "nothing")
    assert (checkpoint.identity(), checkpoint.planned_batch(), checkpoint.committed_batch()) == (
        None,
        None,
        None,
    )


def test_newest_batches_are_found(tmp_path: Path) -> None:
    checkpoint = as_spark_writes(tmp_path)
    assert (checkpoint.identity(), checkpoint.planned_batch(), checkpoint.committed_batch()) == (
        "7c17cd84",
        1,
        0,
    )


def test_first_fence_starts_at_the_first_offsets_of_the_source(tmp_path: Path) -> None:
    assert as_spark_writes(tmp_path).fence("j", 0) == Fence(
        job="j", checkpoint="7c17cd84", batch_id=0, starts=(FIRST,), ends=(SECOND,)
    )


def test_fence_starts_at_the_end_of_the_batch_before(tmp_path: Path) -> None:
    checkpoint = as_spark_writes(tmp_path)
    expected = Fence(job="j", checkpoint="7c17cd84", batch_id=1, starts=(SECOND,), ends=(THIRD,))
    assert checkpoint.fence("j", 1) == expected
    checkpoint.fence("j", 0)
    assert checkpoint.fence("j", 1) == expected  # from what it remembers


def test_watermark_of_a_batch_is_read_from_the_offset_log(tmp_path: Path) -> None:
    checkpoint = as_spark_writes(tmp_path)
    (tmp_path / "offsets" / "2").write_text(f"v1\n{METADATA.replace(':0,', ':1700000000123,')}\n{THIRD}")
    assert [checkpoint.watermark_ms(batch_id) for batch_id in (1, 2)] == [None, 1_700_000_000_123]


def test_fence_of_several_batches_starts_at_given_offsets_or_at_the_first(tmp_path: Path) -> None:
    checkpoint = as_spark_writes(tmp_path)
    several = Fence(job="j", checkpoint="7c17cd84", batch_id=1, starts=(FIRST,), ends=(THIRD,))
    assert checkpoint.fence_since((), "j", 1) == several
    assert checkpoint.fence_since((SECOND,), "j", 1) == checkpoint.fence("j", 1)


def test_batch_is_committed_when_it_or_a_later_one_is(tmp_path: Path) -> None:
    checkpoint = as_spark_writes(tmp_path)
    assert [checkpoint.is_committed(batch_id) for batch_id in (0, 1)] == [True, False]
    (tmp_path / "commits" / "7").write_text("v1\n{}")
    assert checkpoint.is_committed(1)
    assert not Checkpoint(tmp_path / "nothing").is_committed(0)


@pytest.mark.parametrize("batch_id", [0, 1])
def test_restored_checkpoint_has_the_fence_s_batch_planned_and_not_committed(
    tmp_path: Path, batch_id: int
) -> None:
    fence = as_spark_writes(tmp_path / "before").fence("j", batch_id)
    restored = Checkpoint(tmp_path / "after")
    restored.restore(fence, conf={}, now_ms=1)
    assert restored.fence("j", batch_id) == fence
    assert restored.planned_batch() == batch_id
    assert restored.committed_batch() == (None if batch_id == 0 else batch_id - 1)


def test_restore_deletes_the_older_checkpoint(tmp_path: Path) -> None:
    checkpoint = as_spark_writes(tmp_path / "checkpoint")
    fence = Fence(job="j", checkpoint="7c17cd84", batch_id=5, starts=(SECOND,), ends=(THIRD,))
    checkpoint.restore(fence, conf={}, now_ms=1)
    assert sorted(path.name for path in Path(checkpoint.folder.address, "offsets").iterdir()) == ["4", "5"]
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]


def test_damaged_and_unknown_files_are_rejected(tmp_path: Path) -> None:
    checkpoint = as_spark_writes(tmp_path)
    (tmp_path / "offsets" / "1").write_text(f"v9\n{METADATA}\n{THIRD}")
    with pytest.raises(BadJob, match="version v9"):
        checkpoint.fence("j", 1)
    (tmp_path / "metadata").write_text("{")
    with pytest.raises(BadJob, match="damaged"):
        checkpoint.identity()


@pytest.mark.parametrize(
    ("planned", "kept"),
    [
        ([], ["metadata", "sources/0/0"]),
        (["0"], ["metadata", "offsets/0", "sources/0/0", "state/0/0/1.delta"]),
    ],
)
def test_files_of_a_crash_are_deleted_and_those_of_a_planned_batch_are_kept(
    tmp_path: Path, planned: list[str], kept: list[str]
) -> None:
    checkpoint = tmp_path / "checkpoint"
    left = [
        "offsets/.0.5e2c.tmp",
        "offsets/..0.5e2c.tmp.crc",
        "state/0/0/.2.delta.77.tmp",
        ".headrace-letters.json.4711",
        "../.checkpoint.removed/metadata",
        "../.checkpoint.restored/offsets/4",
    ]
    for file in ("metadata", "sources/0/0", "state/0/0/1.delta", *left):
        (checkpoint / file).parent.mkdir(parents=True, exist_ok=True)
        (checkpoint / file).touch()
    for batch in planned:
        (checkpoint / "offsets" / batch).touch()
    Checkpoint(checkpoint).remove_leftovers()
    files = sorted(
        path.relative_to(checkpoint).as_posix() for path in checkpoint.rglob("*") if path.is_file()
    )
    assert files == kept
    assert list(tmp_path.iterdir()) == [checkpoint]


def test_next_batch_can_be_planned_to_end_at_given_offsets(tmp_path: Path) -> None:
    checkpoint = as_spark_writes(tmp_path)
    with pytest.raises(BadJob, match=r"batch 1 of .* is not committed"):
        checkpoint.plan_until(('{"clicks":{"0":30}}',), now_ms=5)
    assert checkpoint.plan_until((THIRD,), now_ms=5) == 1
    (tmp_path / "commits/1").write_text('v1\n{"nextBatchWatermarkMs":77}')
    assert checkpoint.plan_until((THIRD,), now_ms=5) == 1
    assert checkpoint.planned_batch() == 1
    assert checkpoint.plan_until(('{"clicks":{"0":30}}',), now_ms=5) == 2
    assert checkpoint.ends(2) == ('{"clicks":{"0":30}}',)
    assert checkpoint.watermark_ms(2) == 77
    assert checkpoint.committed_batch() == 1


def test_first_batch_cannot_be_planned(tmp_path: Path) -> None:
    with pytest.raises(BadJob, match="has no batch yet"):
        Checkpoint(tmp_path).plan_until((THIRD,), now_ms=5)
