"""Captures on the broker of the test run."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from headrace.cdc.capture import Capture, CaptureFolder, Captures
from headrace.kafka.cluster import Cluster
from tests.contract.change_source_contract import SourceCase, sqlite_case


@pytest.fixture
def name() -> str:
    """Of a capture; topics begin with it."""
    return f"c{uuid.uuid4().hex[:10]}"


@pytest.fixture
def cluster(bootstrap: str) -> Cluster:
    return Cluster(bootstrap, timeout_s=30)


@pytest.fixture
def notes(tmp_path: Path) -> SourceCase:
    case = sqlite_case(tmp_path)
    case.run(
        "CREATE TABLE notes (id INTEGER PRIMARY KEY, title TEXT)",
        "INSERT INTO notes VALUES (1, 'a'), (2, 'b')",
    )
    return case


@pytest.fixture
def capture(notes: SourceCase, name: str, tmp_path: Path) -> Capture:
    return Capture(name=name, address=f"sqlite:///{tmp_path / 'shop.db'}", partitions=1)


@pytest.fixture
def folder(capture: Capture, tmp_path: Path) -> CaptureFolder:
    return Captures(tmp_path / "data").add(capture)


def committed_records(bootstrap: str, topic: str) -> list[tuple[Any, Any]]:
    """Key and value of the committed records of a topic with one partition or several, decoded."""
    return list(_records(bootstrap, topic))


def ops(bootstrap: str, topic: str) -> list[tuple[Any, Any]]:
    """Key and operation of each record; a tombstone has none."""
    return [(key["id"], value and value["op"]) for key, value in committed_records(bootstrap, topic)]


def _records(bootstrap: str, topic: str) -> Iterator[tuple[Any, Any]]:
    cluster = Cluster(bootstrap, timeout_s=30)
    starts = cluster.earliest(cluster.partitions(topic))
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"test-{uuid.uuid4().hex}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
        }
    )
    consumer.assign([TopicPartition(topic, each.number, start) for each, start in starts.items()])
    ended = 0
    while ended < len(starts):
        message = consumer.poll(30)
        assert message is not None, f"{topic} cannot be read"
        if (error := message.error()) is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ended += 1
        else:
            key, value = message.key(), message.value()
            yield json.loads(key or b"null"), json.loads(value or b"null")
    consumer.close()
