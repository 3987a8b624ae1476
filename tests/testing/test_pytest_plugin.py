"""The fixtures that every project with Headrace has, without an import."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

import headrace
from headrace.testing import Feed, Wire
from tests.broker.requests import batch, create_topic, produce


@pytest.fixture(scope="session")
def headrace_spark(spark: SparkSession) -> SparkSession:
    """The session of this test run: a process has only one."""
    return spark


def test_broker_runs(headrace_broker: headrace.Broker, headrace_name: str) -> None:
    with Wire(headrace_broker.bootstrap) as wire:
        create_topic(wire, headrace_name)
        assert produce(wire, headrace_name, batch(b"x")).base_offset == 0


NAMES: set[str] = set()


def test_name_is_valid_for_a_topic(headrace_name: str) -> None:
    NAMES.add(headrace_name)
    assert headrace_name.startswith("test-")


def test_name_is_another_one_in_each_test(headrace_name: str) -> None:
    assert headrace_name not in NAMES


def test_feed_is_a_stream_with_the_given_schema(headrace_feed: Callable[[str], Feed]) -> None:
    rows = headrace_feed("user STRING, n INT").rows
    assert rows.isStreaming
    assert rows.dtypes == [("user", "string"), ("n", "int")]
