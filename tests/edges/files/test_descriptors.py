"""The bound on open files."""

from __future__ import annotations

import os
from pathlib import Path

from headrace.edges.files.descriptors import Descriptors


class File:
    def __init__(self, *, must_stay_open: bool = False) -> None:
        self.descriptor: int | None = None
        self.must_stay_open = must_stay_open


def test_file_that_was_used_the_longest_time_ago_is_closed(tmp_path: Path) -> None:
    descriptors = Descriptors(2)
    first, second, third = File(), File(), File()
    for file in (first, second):
        descriptors.add(file, os.open(tmp_path, os.O_RDONLY))
    descriptors.use(first)
    descriptors.add(third, os.open(tmp_path, os.O_RDONLY))

    assert second.descriptor is None
    assert len(descriptors) == 2
    descriptors.close_all()
    assert first.descriptor is third.descriptor is None


def test_file_that_might_not_be_found_again_stays_open_if_another_can_be_closed(tmp_path: Path) -> None:
    descriptors = Descriptors(2)
    renamed, other, new = File(must_stay_open=True), File(), File(must_stay_open=True)
    for file in (renamed, other, new):
        descriptors.add(file, os.open(tmp_path, os.O_RDONLY))
    assert other.descriptor is None

    last = File()
    descriptors.add(last, os.open(tmp_path, os.O_RDONLY))
    assert renamed.descriptor is None  # the bound holds
    descriptors.close_all()
