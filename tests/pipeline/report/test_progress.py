"""The numbers of a job, from Spark's progress of a batch."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.pipeline.report import progress
from headrace.pipeline.report.registry import JobState, JobStatus

BEFORE = JobStatus(
    name="j", state=JobState.RUNNING, pid=1, mode="micro-batch", rows_in=100, late_rows=1, bad_rows=2
)


def batch(**changes: Any) -> dict[str, Any]:
    return {
        "batchId": 4,
        "numInputRows": 10,
        "processedRowsPerSecond": 50.0,
        "durationMs": {"triggerExecution": 200, "addBatch": 150},
        "eventTime": {"watermark": "2026-11-15T10:00:00.000Z"},
        "stateOperators": [
            {"numRowsTotal": 3, "memoryUsedBytes": 30, "numRowsDroppedByWatermark": 2},
            {"numRowsTotal": 4, "memoryUsedBytes": 40, "numRowsDroppedByWatermark": 0},
        ],
        "sources": [
            {"endOffset": {"a": {"0": 10, "1": 5}}, "latestOffset": {"a": {"0": 12, "1": 5}}},
            {"endOffset": {"b": {"0": 7}}, "latestOffset": {"b": {"0": 8}}},
        ],
        "sink": {"numOutputRows": -1},
        "observedMetrics": {"headrace.bad:x": {"bad": 3}, "somebody-else": {"bad": 50}},
        **changes,
    }


def measure(**changes: Any) -> JobStatus:
    return progress.measure(BEFORE, batch(**changes), now_ms=9)


def test_totals_are_summed_and_other_numbers_are_of_the_last_batch() -> None:
    after = measure()
    assert (after.rows_in, after.late_rows, after.bad_rows) == (110, 3, 5)
    assert (after.state_rows, after.state_bytes, after.batch_ms, after.batch_id) == (7, 70, 200, 4)
    assert (after.rows_per_s, after.watermark, after.updated_ms) == (50.0, "2026-11-15T10:00:00.000Z", 9)


def test_rows_that_operators_drop_as_late_are_counted_too() -> None:
    observed = {
        "headrace.late:tumbling": {"late": 4, "alarm_above": 0.1},
        "headrace.late:session": {"late": None},
    }
    assert measure(observedMetrics=observed).late_rows == 1 + 2 + 4


def test_rows_that_are_in_no_window_are_counted_whatever_the_reason() -> None:
    observed = {
        "headrace.left_out:session:1": {"no_time": 2, "no_gap": 3},
        "headrace.left_out:tumbling:2": {"no_time": 4},
    }
    after = measure(observedMetrics=observed)
    assert after.left_out_rows == 9
    assert progress.measure(after, batch(), now_ms=10).left_out_rows == 9
    assert progress.record_of(after, batch())["left_out_rows"] == 9


def test_completeness_is_the_share_of_rows_in_on_time_panes() -> None:
    observed = {
        "headrace.late:tumbling": {"rows": 90, "corrected": 10, "late": 8},
        "headrace.late:session": {"rows": 10, "corrected": 0, "late": 2},
    }
    after = measure(observedMetrics=observed)
    assert (after.window_rows, after.window_rows_behind, after.completeness) == (100, 20, 0.8)
    once_more = progress.measure(after, batch(observedMetrics=observed), now_ms=10)
    assert (once_more.window_rows, once_more.completeness) == (200, 0.8)
    assert measure().completeness is None
    assert progress.record_of(after, batch())["completeness"] == 0.8


def test_skew_is_that_of_the_last_batch_with_rows() -> None:
    behind = measure(observedMetrics={"headrace.bad:x": {"bad": 3, "skew_ms": [5, 60, 700]}})
    assert (behind.skew_ms_p50, behind.skew_ms_p95, behind.skew_ms_p99, behind.bad_rows) == (5, 60, 700, 5)
    idle = progress.measure(behind, batch(), now_ms=10)
    assert (idle.skew_ms_p50, idle.skew_ms_p95, idle.skew_ms_p99) == (5, 60, 700)
    assert progress.record_of(idle, batch())["skew_ms_p95"] == 60


def test_hot_keys_are_those_of_the_last_batch_with_rows_and_are_not_published() -> None:
    counts = '{"rows": 10, "keys": [["ann", 0, 8]], "buckets": [10]}'
    after = measure(observedMetrics={"headrace.keys:tumbling:x": {"counts": [counts]}})
    assert [(each.key, each.share) for each in after.hot_keys] == [("ann", 0.8)]
    idle = progress.measure(after, batch(), now_ms=10)
    assert idle.hot_keys == after.hot_keys
    assert "hot_keys" not in progress.record_of(idle, batch())


def test_lag_is_the_sum_over_all_sources() -> None:
    assert measure().lag == 3


def test_lag_counts_new_partitions() -> None:
    sources = [{"endOffset": {"a": {"0": 10}}, "latestOffset": {"a": {"0": 10, "1": 6}}}]
    assert measure(sources=sources).lag == 6


def test_lag_ignores_heartbeats_of_idle_sources() -> None:
    heartbeats = {"endOffset": {"headrace.idle_us": 5}, "latestOffset": None}
    assert measure(sources=[*batch()["sources"], heartbeats]).lag == 3


def test_lag_of_a_source_that_is_no_topic_is_unknown() -> None:
    assert measure(sources=[{"endOffset": 17, "latestOffset": None}]).lag is None


@pytest.mark.parametrize("rate", ["Infinity", "NaN", None, float("inf"), float("nan")])
def test_rate_that_is_not_finite_is_zero(rate: object) -> None:
    assert measure(processedRowsPerSecond=rate).rows_per_s == 0.0


def test_offsets_of_all_sources_are_those_to_commit() -> None:
    assert progress.processed(batch()) == {("a", 0): 10, ("a", 1): 5, ("b", 0): 7}


def test_published_record_has_the_batch_beside_the_totals() -> None:
    record = progress.record_of(measure(), batch())
    assert record["event"] == "batch"
    assert (record["rows_in"], record["rows_in_batch"]) == (110, 10)
    assert (record["late_rows_in_batch"], record["bad_rows_in_batch"]) == (2, 3)
    assert record["durations_ms"]["addBatch"] == 150
    assert progress.record_of(BEFORE, None)["event"] == "state"
