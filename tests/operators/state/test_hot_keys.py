"""Hot keys: estimated by a sample, reported by a stream; and a skewed key is merged before the shuffle."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from msgspec import json
from pyspark.sql import SparkSession

from headrace import operators as op
from headrace.operators.approximation.running_step import RunningStep, TopStep
from headrace.operators.folds import CountFold
from headrace.operators.sketches import DistinctFold, TopFold
from headrace.operators.state.hot_keys import KEY_LENGTH_MAX, KEYS_MAX, SAMPLE_MAX, key_counts
from headrace.operators.state.packing import PAYLOAD, decode_rows
from headrace.operators.state.spark import _Packer
from headrace.operators.state.step import Lift, Step
from headrace.operators.tables.group_step import TotalsLift, TotalsStep
from headrace.operators.windows.lifting import ClockLift, ClockSlots, SessionLift
from headrace.operators.windows.panes import PaneRules, PaneShape, PaneStep
from headrace.pipeline.report.hot_keys import hot_keys
from tests.operators.streams import Stream
from tests.operators.tables.changelogs import hash_columns

BUCKETS = 4


def rows_of(keys: list[str]) -> pa.Table:
    return pa.table({**hash_columns("h", keys), "k0": pa.array(keys, pa.string())})


def counted(rows: pa.Table) -> Any:
    return json.decode(key_counts(rows, ["k0"], BUCKETS))


def test_few_rows_are_counted_exactly() -> None:
    keys = ["a"] * 5 + ["b"] * 3 + ["c"]
    found = counted(rows_of(keys))
    assert {key: count for key, _, count in found["keys"]} == {"a": 5, "b": 3}, "one row is no load"
    assert found["rows"] == sum(found["buckets"]) == 9
    hashes = dict(zip(keys, rows_of(keys).column("h1").to_pylist(), strict=True))
    assert all(bucket == hashes[key] % 2**64 % BUCKETS for key, bucket, _ in found["keys"])


def test_shares_of_many_rows_are_estimated_from_a_sample() -> None:
    random = np.random.default_rng(12)
    numbers = random.zipf(1.4, 300_000).clip(max=5_000)
    exact = Counter(numbers.tolist())
    words = np.array([f"key {number}" for number in range(5_001)])
    hashed = {name: each.to_numpy() for name, each in hash_columns("h", words.tolist()).items()}
    rows = pa.table(
        {**{name: pa.array(each[numbers]) for name, each in hashed.items()}, "k0": words[numbers]}
    )
    found = {key: count for key, _, count in counted(rows)["keys"]}
    assert len(found) == KEYS_MAX
    for number, count in exact.most_common(5):
        # Four standard deviations of a share in a sample of 10,000 rows.
        share = count / 300_000
        deviation = (share * (1 - share) / SAMPLE_MAX) ** 0.5
        assert found[f"key {number}"] / 300_000 == pytest.approx(share, abs=4 * deviation)


def test_rows_with_a_pattern_that_repeats_are_sampled_evenly() -> None:
    keys = ["hot" if number % 2 else f"key {number % 1_000}" for number in range(40_000)]
    ((key, _, count), *_) = counted(rows_of(keys))["keys"]
    assert key == "hot"
    assert count == pytest.approx(20_000, rel=0.05)


def test_long_key_is_truncated_and_null_is_a_key() -> None:
    long, null = counted(rows_of(["x" * 1_000] * 3))["keys"], counted(rows_of([None] * 3))["keys"]  # type: ignore[list-item]
    assert len(long[0][0]) == KEY_LENGTH_MAX
    assert null[0][0] == "None"


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        (pa.array([2**60] * 3).cast(pa.timestamp("us", "UTC")), str(2**60)),
        (pa.array([10**7] * 3, pa.int32()).cast(pa.date32()), str(10**7)),
        (pa.array([b"caf\xe9"] * 3).view(pa.string()), "b'caf\\xe9'"),
    ],
    ids=["time", "date", "text"],
)
def test_key_that_python_does_not_have_is_shown_as_a_number_or_bytes(values: pa.Array, shown: str) -> None:
    rows = rows_of(["x"] * 3).drop_columns("k0").append_column("k0", values)
    assert [key for key, *_ in counted(rows)["keys"]] == [shown]


KEYS = [pa.field("user", pa.string())]


def of_totals(step: TotalsStep) -> tuple[Step, Lift]:
    return step, TotalsLift(step)


def of_windows() -> tuple[Step, Lift]:
    step = PaneStep(PaneShape(keys=KEYS, folds=[("n", CountFold())], rules=PaneRules()))
    return step, ClockLift(step, ClockSlots(length_us=10**9, every_us=10**9))


def of_sessions() -> tuple[Step, Lift]:
    shape = PaneShape(keys=KEYS, folds=[("n", CountFold())], rules=PaneRules())
    step = PaneStep(shape, merges_overlaps=True)
    return step, SessionLift(step, 10**9, lambda: 10**9)


@pytest.mark.parametrize(
    "operator",
    [
        pytest.param(of_totals(TotalsStep(keys=KEYS, folds=[("n", CountFold())])), id="GroupChanges"),
        pytest.param(of_totals(RunningStep(keys=KEYS, folds=[("n", DistinctFold())])), id="Approximate"),
        pytest.param(
            of_totals(TopStep(keys=KEYS, value="x", fold=TopFold(pa.int64(), results=3))), id="TopN"
        ),
        pytest.param(of_windows(), id="Tumbling"),
        pytest.param(of_sessions(), id="Session"),
    ],
)
def test_rows_of_a_skewed_key_are_merged_before_the_shuffle(operator: tuple[Step, Lift]) -> None:
    step, lift = operator
    keys = ["hot"] * 90_000 + [f"key {number % 100}" for number in range(10_000)]
    ones = pa.array(np.ones(len(keys), dtype=np.int64))
    rows = rows_of(keys)
    for name in ("weight", "time", "a0"):
        rows = rows.append_column(name, ones)
    # Two tasks, as if two partitions were read.
    packed = [
        payload
        for part in (rows.slice(0, 50_000), rows.slice(50_000))
        for batch in _Packer(lift, BUCKETS, rows.schema, [])(iter(part.to_batches()))
        for payload in batch.column(PAYLOAD).to_pylist()
    ]
    sizes = [decode_rows([payload], step.input_schema).num_rows for payload in packed]
    # A row for each key from each task: no bucket gets more because of the skew.
    assert sum(sizes) <= 2 * 101
    assert max(sizes) <= 101


def test_stream_reports_the_keys_with_most_rows_and_their_time(spark: SparkSession, tmp_path: Path) -> None:
    window = op.Tumbling("1 minute", by="user", trigger=op.Trigger(early=1))
    stream = Stream(spark, tmp_path, lambda rows: rows.transform(window))
    stream.send([*[("hot", 1, 1)] * 60, *[("warm", 2, 1)] * 30, *[(f"u{n}", 3, 1) for n in range(10)]])
    found = [key for progress in stream.progress for key in hot_keys(progress)]
    assert [(key.operator, key.key, key.rows, key.share) for key in found] == [
        ("tumbling", "hot", 60, 0.6),
        ("tumbling", "warm", 30, 0.3),
    ]
    assert all(key.ms > 0 for key in found)
