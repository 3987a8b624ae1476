"""Positions on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.edges.errors import BadEdge
from headrace.edges.files.marks import Identity, Mark
from headrace.edges.files.positions import Position, Positions

POSITION = Position(
    path="a.log.1", name="a.log", identity=Identity(1, 2), mark=Mark(offset=7, head="", tail="ab")
)


def test_positions_are_read_back_by_the_next_run(tmp_path: Path) -> None:
    first = Positions(tmp_path / "edge")
    assert first.read() is None
    first.write([POSITION])
    first.close()

    second = Positions(tmp_path / "edge")
    assert second.read() == [POSITION]
    assert isinstance((second.read() or [])[0].identity, Identity)
    second.close()


def test_file_is_written_only_if_a_position_has_changed(tmp_path: Path) -> None:
    positions = Positions(tmp_path)
    positions.write([POSITION])
    before = (tmp_path / "positions.json").stat()
    positions.write([POSITION])

    assert (tmp_path / "positions.json").stat().st_ino == before.st_ino
    positions.close()


def test_two_edges_never_share_positions(tmp_path: Path) -> None:
    first = Positions(tmp_path)
    with pytest.raises(BadEdge, match="another process"):
        Positions(tmp_path)
    first.close()
    Positions(tmp_path).close()


@pytest.mark.parametrize("damage", [b"", b"[{", b'{"a": 1}'])
def test_damaged_positions_are_an_error_and_not_a_new_beginning(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "positions.json").write_bytes(damage)

    with pytest.raises(BadEdge, match="are damaged") as raised:
        Positions(tmp_path).read()
    assert "delete the file" in (raised.value.hint or "")
