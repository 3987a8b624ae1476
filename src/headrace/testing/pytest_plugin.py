"""The fixtures of the test kit, available in every project that has Headrace installed.

def test_mine(headrace_broker): ... headrace_broker.bootstrap
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.broker.embedded import Broker
    from headrace.testing.feed import Feed


@pytest.fixture(scope="session")
def headrace_broker() -> Iterator[Broker]:
    """One broker for the whole test run, on a free port. Its data is deleted afterwards."""
    from headrace.broker.embedded import Broker

    # The data is deleted at the end, so it need not survive a power failure.
    with Broker(durability="os") as broker:
        yield broker


@pytest.fixture
def headrace_name() -> str:
    """A name that no other test uses, for a topic, a group or a job."""
    return f"test-{uuid.uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def headrace_spark(
    headrace_broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """One Spark session for the whole test run, whose jobs read and write `headrace_broker`."""
    from headrace.pipeline import session

    spark = session(
        "headrace-tests",
        master="local[2]",
        bootstrap=headrace_broker.bootstrap,
        data_dir=tmp_path_factory.mktemp("headrace-data"),
    )
    yield spark
    spark.stop()


@pytest.fixture
def headrace_feed(headrace_spark: SparkSession, tmp_path: Path) -> Callable[[str], Feed]:
    """Creates a streaming source that the test feeds: `headrace_feed("user STRING, at TIMESTAMP")`."""
    from headrace.testing.feed import Feed

    def make(schema: str) -> Feed:
        return Feed(headrace_spark, schema, tmp_path / f"feed-{uuid.uuid4().hex[:8]}")

    return make
