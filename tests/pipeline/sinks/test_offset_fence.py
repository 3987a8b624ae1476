"""A fence of any size is restored from its pieces."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.errors import BadJob
from headrace.pipeline.sinks.offset_fence import METADATA_BYTES_MAX, cut, group_name, join

KAFKA_BYTES_MAX = 4_096
"""`offset.metadata.max.bytes`, the default of a cluster."""


def text_of(length: int) -> str:
    """One that does not pack well."""
    return "".join(random.Random(length).choices("abcdefghijklmnopqrstuvwxyz0123456789{}:,", k=length))


def joined(pieces: list[str]) -> str:
    return join(pieces[0], lambda number: pieces[number])


@given(st.text(max_size=200))
def test_any_text_survives(text: str) -> None:
    assert joined(cut(text)) == text


@pytest.mark.parametrize("length", [METADATA_BYTES_MAX, METADATA_BYTES_MAX + 1, 50_000])
def test_long_text_survives_in_pieces_of_the_allowed_size(length: int) -> None:
    pieces = cut(text_of(length))
    assert max(len(piece.encode()) for piece in pieces) <= KAFKA_BYTES_MAX
    assert joined(pieces) == text_of(length)


def test_short_text_is_kept_as_it_is_for_people_to_read() -> None:
    assert cut('{"batch":7}') == ['{"batch":7}']


def test_text_that_is_too_long_to_keep_is_rejected() -> None:
    with pytest.raises(BadJob, match="fewer topics"):
        cut(text_of(1_000_000))


def test_changed_piece_is_an_error() -> None:
    pieces = cut(text_of(20_000))
    with pytest.raises(BadJob, match="do not fit"):
        joined([pieces[0], "", *pieces[2:]])


def test_first_group_has_the_writers_own_name() -> None:
    assert [group_name("w", number) for number in range(3)] == ["w", "w:part-1", "w:part-2"]
