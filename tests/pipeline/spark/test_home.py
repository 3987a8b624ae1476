"""The home of Spark: workers import the installed PySpark."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from headrace.pipeline.spark.home import create_home, home_path


def test_home_has_programs_and_jars_and_no_zipped_pyspark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path))

    home = create_home()

    assert (home / "bin" / "spark-submit").is_file()
    assert list((home / "jars").glob("spark-core_*.jar"))
    assert not (home / "python").exists()


def test_home_is_created_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path))

    assert create_home() == create_home() == home_path()


def test_workers_import_the_installed_pyspark(spark: SparkSession) -> None:
    def source(_row: object) -> str:
        import pyspark

        return str(pyspark.__file__)

    assert spark.sparkContext.parallelize([1]).map(source).collect() == [pyspark.__file__]
