"""Offsets of open transactions: visible when they commit, unless a later commit superseded them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.groups.offsets import CommittedOffset, Offsets, TopicPartition
from headrace.broker.groups.transactional_offsets import PendingOffsets

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def at(offset: int) -> CommittedOffset:
    return CommittedOffset(offset=offset, leader_epoch=-1, metadata="", committed_at_ms=0)


def test_offsets_are_visible_after_the_commit_and_dropped_after_an_abort() -> None:
    pending, offsets = PendingOffsets(), Offsets()
    pending.put(1, "g", {A0: at(5)}, log_offset=0)
    pending.put(2, "g", {A1: at(6)}, log_offset=1)
    assert ({*pending.of("g")}, dict(offsets.of("g"))) == ({A0, A1}, {})
    assert pending.end(1, offsets, is_commit=True) == {"g"}
    assert pending.end(2, offsets, is_commit=False) == {"g"}
    assert dict(offsets.of("g")) == {A0: at(5)}
    assert "g" not in pending
    assert pending.end(1, offsets, is_commit=True) == set()


def test_transaction_without_offsets_leaves_no_trace() -> None:
    pending = PendingOffsets()
    pending.put(1, "g", {}, log_offset=0)
    assert "g" not in pending
    assert pending.end(1, Offsets(), is_commit=True) == {"g"}


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(["transaction", "outside", "commit", "abort"])),
        max_size=30,
    )
)
def test_visible_offset_is_the_newest_in_the_log_that_is_committed(events: list[tuple[int, str]]) -> None:
    """Each write has its log offset as its value; an ended transaction never restores an older one."""
    pending, offsets = PendingOffsets(), Offsets()
    opened: dict[int, int] = {}
    newest = -1
    for log_offset, (producer_id, kind) in enumerate(events):
        match kind:
            case "transaction":
                pending.put(producer_id, "g", {A0: at(log_offset)}, log_offset)
                opened[producer_id] = log_offset
            case "outside":
                offsets.put("g", A0, at(log_offset))
                pending.supersede("g", A0, log_offset)
                newest = log_offset
            case "commit":
                pending.end(producer_id, offsets, is_commit=True)
                newest = max(newest, opened.pop(producer_id, -1))
            case "abort":
                pending.end(producer_id, offsets, is_commit=False)
                opened.pop(producer_id, None)
        visible = offsets.of("g").get(A0)
        assert (visible.offset if visible else -1) == newest
        assert (A0 in pending.of("g")) == any(one > newest for one in opened.values())
