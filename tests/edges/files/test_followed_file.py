"""The position of a file, which follows acknowledgements in order."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.edges.event import Fate, Reason
from headrace.edges.files.followed_file import FollowedFile
from headrace.edges.files.lines import LineSplitter
from headrace.edges.files.marks import BEGINNING, Identity
from headrace.edges.files.multiline import Multiline


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "a.log"
    found.write_bytes(b"one\ntwo\nthree\nhalf")
    return found


def opened(path: Path, multiline: Multiline | None = None) -> FollowedFile:
    file = FollowedFile(
        str(path),
        Identity.of(path.stat()),
        BEGINNING,
        name="a.log",
        splitter=LineSplitter(0, line_bytes_max=100, is_cut=True),
        multiline=multiline,
    )
    file.descriptor = os.open(path, os.O_RDONLY)
    return file


def test_position_moves_in_order_of_the_file_whatever_the_order_of_acknowledgements(path: Path) -> None:
    file = opened(path)
    assert file.read(5) == [(0, b"one")]
    first = file.begin_batch(1)
    assert file.read(100) == [(4, b"two"), (8, b"three")]
    second = file.begin_batch(2)
    assert first is not None
    assert second is not None

    second.on_fate(0, Fate.DELIVERED, "")
    second.on_fate(1, Fate.DROPPED, Reason.OLDEST)
    file.settle()
    assert file.committed.offset == 0
    first.on_fate(0, Fate.DELIVERED, "")
    file.settle()
    assert (file.committed.offset, file.is_settled, file.has_unfinished) == (14, True, True)


def test_event_that_the_end_of_the_edge_dropped_stays_in_the_file(path: Path) -> None:
    file = opened(path)
    batch = file.begin_batch(len(file.read(100)))
    assert batch is not None
    for number, fate in enumerate((Fate.DELIVERED, Fate.BUFFERED)):
        batch.on_fate(number, fate, "")
    batch.on_fate(2, Fate.DROPPED, Reason.STOPPED)
    file.settle()

    assert (file.position.mark.offset, file.is_settled) == (0, False)


def test_position_is_in_front_of_an_event_that_may_continue(path: Path) -> None:
    file = opened(path, Multiline(lambda line: line.startswith(b"t"), bytes_max=100))
    assert file.read(100) == [(0, b"one"), (4, b"two")]
    batch = file.begin_batch(2)

    assert batch is not None
    assert batch.mark.offset == 8
    assert file.finish() == [(8, b"three\nhalf")]


def test_truncated_or_closed_file_has_no_position(path: Path) -> None:
    file = opened(path)
    file.read(100)
    path.write_bytes(b"")

    assert file.begin_batch(3) is None
    assert file.read(100) == []
    file.descriptor = None
    assert file.begin_batch(3) is None
