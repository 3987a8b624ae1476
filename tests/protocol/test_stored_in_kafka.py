"""Kafka's own DumpLogSegments reads our stored records and transaction markers, and finds the same values in them."""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from headrace.java import fetch_jars
from headrace.protocol.schema import fields_at
from headrace.protocol.stored import CONSUMER_OFFSETS
from headrace.protocol.stored_format import StoredTopic
from headrace.protocol.stored_share_state import SHARE_GROUP_STATE
from headrace.protocol.stored_transactions import TRANSACTION_STATE
from headrace.records.control import EndTransactionMarker, MarkerType, encode_marker_batch
from headrace.records.record import Record, encode_batch
from headrace.testing.apache_kafka import KAFKA_4_3
from headrace.testing.java import JavaTools
from headrace.testing.requirements import require_java
from tests.protocol.kafka_definitions import snake_case
from tests.protocol.samples import full_sample, random_samples, stored_versions_of

DUMP_LOG_SEGMENTS = "org.apache.kafka.tools.DumpLogSegments"
TIMEOUT_S = 60
SAMPLES = 12

DATA_LINE = re.compile(r"^\| offset: \d+ .* key: (?P<key>\{.*\}) payload: (?P<value>\{.*\})$", re.MULTILINE)


def dump(folder: Path, segment: bytes, *options: str) -> str:
    require_java()
    tools = JavaTools(jars=fetch_jars(KAFKA_4_3), jvm_options=("-Dstdout.encoding=UTF-8",))
    path = folder / "00000000000000000000.log"
    path.write_bytes(segment)
    done = tools.run(DUMP_LOG_SEGMENTS, "--files", str(path), *options, timeout_s=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


def as_json(value: Any, version: int) -> Any:
    """A struct as Kafka's tools show it: without the tagged fields that are at their default."""
    if isinstance(value, tuple):
        return [as_json(item, version) for item in value]
    if isinstance(value, UUID):
        return urlsafe_b64encode(value.bytes).decode().rstrip("=")
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if value is None or isinstance(value, (int, str)):
        return value
    return {
        field.name: as_json(getattr(value, field.name), version)
        for field in fields_at(type(value), version)
        if field.tag is None or getattr(value, field.name) != field.default
    }


def with_our_names(shown: Any) -> Any:
    if isinstance(shown, list):
        return [with_our_names(item) for item in shown]
    if isinstance(shown, dict):
        return {snake_case(name): with_our_names(inner) for name, inner in shown.items()}
    return shown


@pytest.mark.parametrize(
    ("topic", "decoder"),
    [
        (CONSUMER_OFFSETS, "--offsets-decoder"),
        (SHARE_GROUP_STATE, "--share-group-state-decoder"),
        (TRANSACTION_STATE, "--transaction-log-decoder"),
    ],
    ids=["__consumer_offsets", "__share_group_state", "__transaction_state"],
)
def test_kafka_reads_our_stored_records(tmp_path: Path, topic: StoredTopic[Any], decoder: str) -> None:
    samples = [
        (key, value, version)
        for one in topic.formats
        for version in stored_versions_of(one)
        for key, value in zip(
            (full_sample(one.key, 0), *random_samples(one.key, 0, SAMPLES)),
            (full_sample(one.value, version), *random_samples(one.value, version, SAMPLES)),
            strict=True,
        )
    ]
    records = [
        Record(
            offset=offset,
            timestamp_ms=1,
            key=topic.encode_key(key),
            value=topic.encode_value(value, version),
        )
        for offset, (key, value, version) in enumerate(samples)
    ]
    output = dump(tmp_path, encode_batch(records), decoder)
    shown = [
        (with_our_names(json.loads(line["key"])["data"]), with_our_names(json.loads(line["value"])["data"]))
        for line in DATA_LINE.finditer(output)
    ]
    assert shown == [(as_json(key, 0), as_json(value, version)) for key, value, version in samples]


def test_kafka_sees_our_markers_as_the_ends_of_transactions(tmp_path: Path) -> None:
    batches = (
        encode_marker_batch(
            EndTransactionMarker(type=kind, coordinator_epoch=7 + kind),
            producer_id=4000,
            producer_epoch=3,
            timestamp_ms=1,
        )
        for kind in (MarkerType.ABORT, MarkerType.COMMIT)
    )
    output = dump(tmp_path, b"".join(batches), "--print-data-log")
    assert re.findall(r"endTxnMarker: (\w+) coordinatorEpoch: (\d+)", output) == [
        ("ABORT", "7"),
        ("COMMIT", "8"),
    ]
    assert output.count("producerId: 4000 producerEpoch: 3") == 2
    assert output.count("isTransactional: true isControl: true") == 2
