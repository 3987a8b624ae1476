"""A data folder with views, on the broker and the Spark of the test run."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.pipeline.launch import Launch
from headrace.pipeline.run.launched import launching
from headrace.views.catalog import Views
from headrace.views.view import ViewReader
from tests.contract.view_store_contract import Bench
from tests.views.view_house import ViewHouse
from tests.views.written_views import sqlite_bench


@pytest.fixture
def house(spark: SparkSession, bootstrap: str, tmp_path: Path) -> Iterator[ViewHouse]:
    with launching(Launch(bootstrap=bootstrap, data_dir=tmp_path)):
        yield ViewHouse(tmp_path, bootstrap, spark, prefix=f"v{uuid.uuid4().hex[:8]}")


@pytest.fixture
def bench(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Bench]:
    """With the view `users`, which has no version yet."""
    with sqlite_bench(tmp_path, request) as bench:
        Views(tmp_path).create(bench.definition())
        yield bench


@pytest.fixture
def view(bench: Bench) -> Iterator[ViewReader]:
    with ViewReader(Views(bench.lab.folder).folder("users")) as view:
        yield view
