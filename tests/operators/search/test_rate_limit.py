"""Rate limits in event time."""

from __future__ import annotations

from headrace.operators.search.rate_limit import HitCount


def test_first_hits_of_each_window_pass_with_the_number_of_suppressed_ones() -> None:
    count = HitCount(0)
    assert [count.passed(time, 2, 10) for time in (0, 1, 2, 9, 10, 11, 12, 35)] == [
        0,
        0,
        None,
        None,
        2,
        0,
        None,
        1,
    ]


def test_hit_of_an_earlier_window_counts_in_the_current_one() -> None:
    count = HitCount(0)
    assert [count.passed(time, 1, 10) for time in (10, 9, 20)] == [0, None, 1]


def test_query_without_a_limit_passes_all() -> None:
    count = HitCount(0)
    assert [count.passed(0, None, 10) for _ in range(5)] == [0] * 5
