"""Names of the files of a segment."""

from __future__ import annotations

import os

from hypothesis import given
from hypothesis import strategies as st

from headrace.log.segment_names import LOG_SUFFIX, SEGMENT_SUFFIXES, segment_bases, segment_name, segment_path

OFFSETS = st.integers(0, 2**63 - 1)


@given(st.lists(OFFSETS, unique=True))
def test_segments_are_found_by_the_names_of_their_logs(base_offsets: list[int]) -> None:
    names = [segment_name(base) + suffix for base in base_offsets for suffix in SEGMENT_SUFFIXES]
    assert segment_bases(names) == sorted(base_offsets)


@given(OFFSETS, OFFSETS)
def test_names_sort_as_their_offsets_do(first: int, second: int) -> None:
    assert (segment_name(first) < segment_name(second)) == (first < second)


def test_other_files_are_no_segments() -> None:
    names = [".lock", "x.log", "1.index", "00000000000000000001.log.deleted", "leader-epoch-checkpoint"]
    assert segment_bases(names) == []


def test_name_is_the_one_of_kafka() -> None:
    assert segment_path(os.path.join("data", "t-0"), 42) + LOG_SUFFIX == "data/t-0/00000000000000000042.log"
