"""Counts of bad rows of bounded sources; tests/pipeline/report has those of streams."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.pipeline import read_files
from headrace.pipeline.graph import plan
from headrace.pipeline.source import bad_counts
from headrace.pipeline.source.bad_counts import bad_count


def test_count_is_unknown_before_the_first_action(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.csv").write_text("n\n1\nx\n")
    rows = read_files(spark, tmp_path, format="csv", schema="n INT", bounded=True)
    (source,) = plan.read(rows).sources
    assert source.files is not None

    assert bad_count(source.files) is None
    rows.collect()
    assert bad_count(source.files) == 1

    monkeypatch.setattr(bad_counts, "OBSERVATIONS_MAX", 1)
    read_files(spark, tmp_path, format="csv", schema="n INT", bounded=True)
    assert bad_count(source.files) is None
