"""Files of a batch in Spark's log, and lines of files; tests/pipeline/source/test_read_files.py has whole letters."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from headrace.pipeline.checkpoint import NO_OFFSET
from headrace.pipeline.folders.local import LocalFolder
from headrace.pipeline.letters.file_letters import Lines, files_of_batch, readable


def log(folder: Path, name: str, *batches: int) -> None:
    entries = [
        json.dumps({"path": f"file:///{batch}.csv", "timestamp": 1, "batchId": batch}) for batch in batches
    ]
    (folder / name).write_text("\n".join(["v1", *entries]))


def offset(number: int) -> str:
    return json.dumps({"logOffset": number})


def test_files_of_a_batch_are_those_between_its_offsets(tmp_path: Path) -> None:
    for number in range(4):
        log(tmp_path, str(number), number)

    assert files_of_batch(LocalFolder(tmp_path), NO_OFFSET, offset(1)) == ("file:///0.csv", "file:///1.csv")
    assert files_of_batch(LocalFolder(tmp_path), offset(1), offset(2)) == ("file:///2.csv",)
    assert files_of_batch(LocalFolder(tmp_path), offset(3), offset(3)) == ()


def test_files_are_found_in_a_compacted_log(tmp_path: Path) -> None:
    log(tmp_path, "9.compact", *range(10))
    log(tmp_path, "10", 10)

    assert files_of_batch(LocalFolder(tmp_path), offset(8), offset(10)) == ("file:///9.csv", "file:///10.csv")
    assert files_of_batch(LocalFolder(tmp_path), offset(2), offset(3)) == ("file:///3.csv",)


def test_equal_lines_have_different_numbers_also_if_parts_come_in_another_order(tmp_path: Path) -> None:
    (tmp_path / "a b.csv").write_bytes(b"n\r\nbad\r\n1\r\nbad\r\nworse")
    lines = Lines(f"file://{tmp_path}/a%20b.csv")

    assert [lines.number_of(text) for text in ("bad", "bad", "worse", "bad", "none")] == [2, 4, 5, 2, None]


def test_lines_of_compressed_files_are_found_and_those_of_other_machines_are_unknown(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"n\nbad\n"))

    assert Lines(f"file:{tmp_path}/a.csv.gz").number_of("bad") == 2
    assert Lines("s3a://bucket/a.csv").number_of("bad") is None
    assert Lines(f"{tmp_path}/missing.csv").number_of("bad") is None
    assert readable("s3a://bucket/a%20b.csv") == "s3a://bucket/a b.csv"
