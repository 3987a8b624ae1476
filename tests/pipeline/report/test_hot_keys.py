"""Hot keys from the metrics of a batch: the parts of tasks are added up, and small shares are not shown."""

from __future__ import annotations

from typing import Any

from msgspec import json

from headrace.pipeline.report.hot_keys import KEYS_MAX, HotKey, hot_keys


def part(rows: int, keys: list[tuple[str, int, int]], buckets: list[int]) -> str:
    return json.encode({"rows": rows, "keys": keys, "buckets": buckets}).decode()


def progress_of(parts: list[str], times: list[str]) -> dict[str, Any]:
    return {
        "observedMetrics": {
            "headrace.keys:tumbling:0a": {"counts": parts},
            "headrace.work:tumbling:0a": {"times": times},
            "headrace.late:tumbling:0a": {"late": 3},
        }
    }


def test_parts_of_several_tasks_are_added_up() -> None:
    parts = [part(100, [("a", 1, 50)], [50, 50]), part(100, [("a", 1, 40), ("b", 0, 10)], [50, 50])]
    assert hot_keys(progress_of(parts, ["1:20000", "0:5000", "1:30000"])) == (
        HotKey(operator="tumbling", key="a", rows=90, share=0.45, ms=45.0),
        HotKey(operator="tumbling", key="b", rows=10, share=0.05, ms=0.5),
    )


def test_keys_with_small_shares_and_more_than_a_few_keys_are_not_shown() -> None:
    assert hot_keys(progress_of([part(1_000, [("a", 0, 9)], [1_000])], [])) == ()
    keys = [(str(number), 0, 10) for number in range(10)]
    assert len(hot_keys(progress_of([part(100, keys, [100])], ["0:1"]))) == KEYS_MAX


def test_batch_without_rows_or_without_operators_has_no_hot_keys() -> None:
    assert hot_keys(progress_of([], [])) == ()
    assert hot_keys({"observedMetrics": {"headrace.keys:tumbling:0a": {"counts": None}}}) == ()
    assert hot_keys({}) == ()
