"""Brokers and writers for sinks that write to topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import DataFrame

from headrace.pipeline.sinks import SinkWriter, Topic


@pytest.fixture(params=["headrace", "apache-kafka"])
def either(request: pytest.FixtureRequest) -> str:
    """The address of a broker: Headrace's, and Apache Kafka's."""
    if request.param == "headrace":
        return str(request.getfixturevalue("bootstrap"))
    return str(request.getfixturevalue("apache_kafka").bootstrap)


@pytest.fixture
def opened() -> Iterator[Callable[..., SinkWriter]]:
    """Opens the writer of a sink for rows; all of them are closed in the end."""
    writers: list[SinkWriter] = []

    def open(sink: Topic, rows: DataFrame, job: str = "orders") -> SinkWriter:
        writers.append(sink.open(job, sink.prepare(rows).schema))
        return writers[-1]

    yield open
    for writer in writers:
        writer.close()
