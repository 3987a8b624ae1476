"""What folders share; their operations are in tests/contract/test_folders.py."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from headrace.pipeline.folders.folder import write_json
from headrace.pipeline.folders.local import LocalFolder


class Value(Struct):
    n: int


def test_value_is_written_in_lines(tmp_path: Path) -> None:
    write_json(LocalFolder(tmp_path), "value.json", Value(3))
    assert (tmp_path / "value.json").read_text() == '{\n "n": 3\n}'
