"""What the log has of an alert."""

from __future__ import annotations

import msgspec

from headrace.alerts.book import Book, Counts, Group


def test_books_do_not_share_their_counts() -> None:
    first, second = Book(id="1"), Book(id="2")
    first.counts.records += 1
    first.positions["0"] = 5
    assert (second.counts, second.positions) == (Counts(), {})
    assert msgspec.json.decode(msgspec.json.encode(first), type=Book) == first


def test_group_without_a_plan_is_small() -> None:
    assert msgspec.json.encode(Group()) == b"{}"
