"""The list of aborted transactions of a segment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.log.aborted_index import ABORTED_ENTRY_BYTES, AbortedIndex, AbortedTransaction
from headrace.log.errors import CorruptSegment

ENTRIES = st.lists(
    st.builds(
        lambda producer_id, first, length, stable: AbortedTransaction(
            producer_id, first, first + length, first + stable
        ),
        st.integers(0, 2**63 - 1),
        st.integers(0, 2**40),
        st.integers(1, 1000),
        st.integers(0, 1000),
    ),
    max_size=8,
)


@given(ENTRIES)
def test_entries_survive_being_written(entries: list[AbortedTransaction]) -> None:
    content = AbortedIndex(entries).encode()
    assert len(content) == len(entries) * ABORTED_ENTRY_BYTES
    decoded = AbortedIndex.decode(content, "x.txnindex")
    assert (decoded.entries, decoded.is_written) == (entries, True)


@given(ENTRIES, st.integers(0, 2**40))
def test_truncation_drops_exactly_the_markers_from_an_offset_on(
    entries: list[AbortedTransaction], offset: int
) -> None:
    index = AbortedIndex(list(entries))
    index.truncate(offset)
    kept = [entry for entry in entries if entry.last_offset < offset]
    assert index.entries == kept
    assert index.is_written == (kept == entries)


@pytest.mark.parametrize(
    "entry",
    [AbortedTransaction(1, 5, 5, 6), AbortedTransaction(1, -1, 5, 6), AbortedTransaction(1, 7, 5, 6)],
    ids=["marker at the first record", "negative offset", "marker before the first record"],
)
def test_impossible_entries_are_rejected(entry: AbortedTransaction) -> None:
    with pytest.raises(CorruptSegment, match="is damaged at byte 0"):
        AbortedIndex.decode(AbortedIndex([entry]).encode(), "x.txnindex")


def test_file_cut_in_an_entry_or_of_another_version_is_rejected() -> None:
    content = AbortedIndex([AbortedTransaction(1, 0, 5, 6)]).encode()
    for damaged in (content[:-1], b"\0\x01" + content[2:]):
        with pytest.raises(CorruptSegment, match="not a list of aborted transactions"):
            AbortedIndex.decode(damaged, "x.txnindex")


def test_appended_entry_is_not_written_yet() -> None:
    index = AbortedIndex()
    index.append(AbortedTransaction(1, 0, 5, 6))
    assert (len(index), index.is_written) == (1, False)
