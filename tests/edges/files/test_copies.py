"""What is a copy, and where it continues; tests/edges/files/test_follower.py has copytruncate as a whole."""

from __future__ import annotations

import os
from pathlib import Path

from headrace.edges.files.copies import PAST_MAX, Copies
from headrace.edges.files.marks import Identity, Mark, mark_at
from headrace.edges.files.positions import Position

CONTENT = b"".join(b"line %d\n" % number for number in range(1000))


def opened(path: Path, content: bytes) -> tuple[Identity, int]:
    path.write_bytes(content)
    return Identity.of(path.stat()), os.open(path, os.O_RDONLY)


def past(path: Path, mark: Mark | None) -> Position:
    assert mark is not None
    return Position(path=str(path), name="a", identity=Identity(1, 1), mark=mark, is_past=True)


def test_copy_continues_at_the_last_position_that_fits(tmp_path: Path) -> None:
    copies = Copies()
    _, original = opened(tmp_path / "a.log", CONTENT)
    copies.remember(past(tmp_path, mark_at(original, 2000)))
    copies.remember(past(tmp_path, mark_at(original, 3000)))

    whole, part, other = (
        copies.start(*opened(tmp_path / name, content))
        for name, content in (("1", CONTENT), ("2", CONTENT[:2500]), ("3", CONTENT[:1500] + b"x" * 5000))
    )

    assert whole == mark_at(original, 3000)
    assert part == mark_at(original, 2000)
    assert other is None


def test_files_with_only_few_equal_bytes_are_no_copies(tmp_path: Path) -> None:
    """Files of one program begin with the same line."""
    copies = Copies()
    _, original = opened(tmp_path / "a.log", b"started\n")
    copies.remember(past(tmp_path, mark_at(original, 8)))

    identity, descriptor = opened(tmp_path / "b.log", b"started\nmore\n")

    assert copies.start(identity, descriptor) is None
    assert not copies.is_waiting(identity, descriptor, {})


def test_remembered_files_are_bounded(tmp_path: Path) -> None:
    copies = Copies()
    for number in range(2 * PAST_MAX):
        copies.remember(past(tmp_path, Mark(offset=2000, head=str(number), tail="")))
    assert len([*copies.past]) == PAST_MAX
