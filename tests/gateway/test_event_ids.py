from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import HeadraceError
from headrace.gateway.errors import BadRequest
from headrace.gateway.event_ids import EventId, offsets_of
from headrace.kafka.position import BadPosition, Position

OFFSETS = st.dictionaries(
    st.text(min_size=1, max_size=5),
    st.dictionaries(st.integers(0, 9), st.integers(0, 2**62), max_size=4),
    max_size=4,
)


@given(offsets=OFFSETS, time_ms=st.integers(0, 2**45), cluster=st.text("abc-_9", max_size=22))
def test_id_is_read_back_and_can_be_sent_in_a_header(
    offsets: dict[str, dict[int, int]], time_ms: int, cluster: str
) -> None:
    id = EventId(offsets, time_ms, cluster)
    assert EventId.from_text(id.text()) == id
    assert id.text().isascii()
    assert id.text().isprintable()


@pytest.mark.parametrize("text", ["", "x", "e30", "e30.x.c", "e30..c", "é.1.c"])
def test_text_that_is_no_id_is_rejected(text: str) -> None:
    with pytest.raises((BadRequest, BadPosition)):
        EventId.from_text(text)


@given(text=st.text(max_size=30))
def test_garbage_is_an_error_for_users(text: str) -> None:
    with contextlib.suppress(HeadraceError):
        EventId.from_text(text)


@pytest.mark.parametrize("offsets", [{"t": {0: -1}}, {"t": {-1: 0}}, {"t": {2**31: 0}}])
def test_numbers_that_no_partition_has_are_rejected(offsets: dict[str, dict[int, int]]) -> None:
    with pytest.raises(BadPosition):
        offsets_of(Position(offsets).token())
