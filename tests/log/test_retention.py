from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.log.config import LogConfig
from headrace.log.retention import RetentionPlan, RetentionReason, RetentionSegment, plan_retention

NOW_MS = 1_000_000


def _segments(*sizes_and_ages: tuple[int, int]) -> list[RetentionSegment]:
    return [
        RetentionSegment(base_offset=100 * index, size_bytes=size_bytes, max_timestamp_ms=NOW_MS - age_ms)
        for index, (size_bytes, age_ms) in enumerate(sizes_and_ages)
    ]


def _plan(segments: list[RetentionSegment], config: LogConfig, *, start_offset: int = 0) -> RetentionPlan:
    return plan_retention(segments, start_offset=start_offset, now_ms=NOW_MS, config=config)


def _reasons(plan: RetentionPlan) -> list[tuple[int, RetentionReason]]:
    return [(segment.base_offset, segment.reason) for segment in plan.expired]


def test_segments_older_than_retention_ms_expire_and_one_of_exactly_that_age_does_not() -> None:
    plan = _plan(_segments((10, 5002), (10, 5001), (10, 5000), (10, 0)), LogConfig(retention_ms=5000))
    assert _reasons(plan) == [(0, RetentionReason.TIME), (100, RetentionReason.TIME)]
    assert not plan.rolls_active


def test_old_segment_after_a_young_one_is_kept_so_that_the_log_has_no_gap() -> None:
    plan = _plan(_segments((10, 9000), (10, 1), (10, 9000), (10, 0)), LogConfig(retention_ms=5000))
    assert _reasons(plan) == [(0, RetentionReason.TIME)]


def test_active_segment_expires_by_time_and_is_rolled_first() -> None:
    plan = _plan(_segments((10, 9000), (10, 8000)), LogConfig(retention_ms=5000))
    assert [base_offset for base_offset, _ in _reasons(plan)] == [0, 100]
    assert plan.rolls_active


def test_empty_active_segment_is_kept() -> None:
    plan = _plan(_segments((10, 9000), (0, 9000)), LogConfig(retention_ms=5000))
    assert _reasons(plan) == [(0, RetentionReason.TIME)]
    assert not plan.rolls_active


def test_size_removes_segments_only_above_retention_bytes() -> None:
    segments = _segments((100, 0), (100, 0), (100, 0), (50, 0))
    kept_bytes = {}
    for retention_bytes in (350, 251, 250, 249, 150, 50, 0):
        plan = _plan(segments, LogConfig(retention_ms=-1, retention_bytes=retention_bytes))
        assert {reason for _, reason in _reasons(plan)} <= {RetentionReason.SIZE}
        kept_bytes[retention_bytes] = 350 - sum(
            segment.size_bytes for segment in segments[: len(plan.expired)]
        )
    assert kept_bytes == {350: 350, 251: 350, 250: 250, 249: 250, 150: 150, 50: 50, 0: 0}


def test_minus_one_keeps_everything() -> None:
    config = LogConfig(retention_ms=-1, retention_bytes=-1)
    assert _plan(_segments((10**12, 10**15), (10, 0)), config).expired == ()


def test_segments_below_the_start_of_the_log_expire_even_in_a_compacted_topic() -> None:
    config = LogConfig(cleanup_policy=frozenset({"compact"}), retention_ms=1, retention_bytes=1)
    segments = _segments((10, 9000), (10, 9000), (10, 9000))
    assert _plan(segments, config, start_offset=99).expired == ()
    assert _reasons(_plan(segments, config, start_offset=100)) == [(0, RetentionReason.START_OFFSET)]
    assert len(_plan(segments, config, start_offset=250).expired) == 2


def test_compact_and_delete_together_expire_by_time_and_size() -> None:
    both = frozenset({"compact", "delete"})
    segments = _segments((10, 9000), (10, 10), (10, 0))
    assert _reasons(_plan(segments, LogConfig(cleanup_policy=both, retention_ms=5000))) == [
        (0, RetentionReason.TIME)
    ]
    assert _reasons(_plan(segments, LogConfig(cleanup_policy=both, retention_ms=-1, retention_bytes=20))) == [
        (0, RetentionReason.SIZE)
    ]


def test_record_from_the_future_holds_its_segment() -> None:
    assert _plan(_segments((10, -50_000), (10, 0)), LogConfig(retention_ms=0)).expired == ()


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(-5, 100)), min_size=1, max_size=8),
    st.integers(-1, 100),
    st.integers(-1, 400),
    st.integers(0, 900),
)
def test_plan_is_a_prefix_and_a_second_plan_finds_nothing_more(
    sizes_and_ages: list[tuple[int, int]], retention_ms: int, retention_bytes: int, start_offset: int
) -> None:
    segments = _segments(*sizes_and_ages)
    config = LogConfig(retention_ms=retention_ms, retention_bytes=retention_bytes)
    plan = _plan(segments, config, start_offset=start_offset)
    count = len(plan.expired)
    assert [expired.base_offset for expired in plan.expired] == [s.base_offset for s in segments[:count]]
    left = segments[count:] or [RetentionSegment(base_offset=10_000, size_bytes=0, max_timestamp_ms=NOW_MS)]
    assert _plan(left, config, start_offset=start_offset).expired == ()
