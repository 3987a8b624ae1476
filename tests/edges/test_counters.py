from __future__ import annotations

from headrace.edges.counters import Counters


def test_what_is_neither_delivered_nor_dropped_is_pending() -> None:
    counters = Counters()
    counters.add_received(10)
    counters.add_replayed(2)
    counters.add_delivered(5)
    counters.add_dropped("newest", 3)
    count = counters.count()
    assert (count.pending, count.dropped_total) == (4, 3)
    assert count.text() == (
        "10 received, 5 delivered, 2 of them from an earlier run, 3 dropped (newest 3), 4 pending"
    )


def test_text_has_no_zeros() -> None:
    counters = Counters()
    counters.add_received(1_000)
    counters.add_delivered(1_000)
    counters.add_pushed_back()
    assert counters.count().text() == "1,000 received, 1,000 delivered"
    assert counters.count().pushed_back == 1
