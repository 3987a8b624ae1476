"""Records as rows, as Spark's Python workers decode them; and the schemas of their writers."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from hypothesis import given

from headrace.gateway.registry.registry import Registry
from headrace.pipeline.source.registered import decoding
from headrace.pipeline.source.registered.decoding import Decoding, Writers, columns_of, decode_batches
from headrace.pipeline.source.registered.subjects import ReaderSchema
from headrace.registered.client import RegistryClient
from headrace.registered.errors import BadRecord, RegistryUnavailable
from headrace.registered.framing import prefix
from headrace.registered.schema import RegisteredSchema, SchemaText
from headrace.schemas.definition import SchemaType
from tests.gateway.registry.serving import served
from tests.pipeline.source.registered.expected_rows import expected_row
from tests.registered.avro_schemas import Case, cases

NOWHERE = "http://127.0.0.1:1"
LONG = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}


def reader_of(reader: SchemaText, *writers: SchemaText, registry: str = NOWHERE) -> ReaderSchema:
    """The writers have the ids 1, 2, …, and the reader has 1,000."""
    return ReaderSchema(
        registry=registry,
        registered=RegisteredSchema(id=1_000, schema=reader),
        writers=tuple(RegisteredSchema(id=1 + number, schema=each) for number, each in enumerate(writers)),
    )


@given(cases())
def test_rows_of_avro_are_the_values_that_fastavro_resolves(case: Case) -> None:
    writer, reader = case.texts()
    rows = Decoding(reader_of(reader, writer)).rows([*[prefix(1) + each for each in case.records()], None])
    assert rows.field("problem").null_count == len(rows)
    assert rows.field("row").to_pylist() == [
        *[expected_row(case.reader, each) for each in case.expected_with_logical()],
        None,
    ]


def test_value_that_no_column_holds_is_a_problem_of_its_record_alone() -> None:
    schema = SchemaText(
        text=json.dumps(
            {**LONG, "fields": [{"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}]}
        )
    )
    ancient = b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
    rows = Decoding(reader_of(schema)).rows(
        [prefix(1_000) + b"\2", prefix(1_000) + ancient, prefix(1_000) + b"\4"]
    )
    assert rows.field("row").is_valid().to_pylist() == [True, False, True]
    (problem,) = filter(None, rows.field("problem").to_pylist())
    assert problem.startswith("a value does not fit its column: ")


@pytest.fixture
def late_registry(bootstrap: str) -> Iterator[tuple[str, SchemaRegistryClient, threading.Event]]:
    """A registry that becomes available some time after the event is set. Until then, connections are reset, and the
    third of them sets the event."""
    registry = Registry.open(bootstrap, topic=f"_schemas-{uuid.uuid4().hex[:12]}")
    with contextlib.ExitStack() as stack:
        stack.callback(registry.close)
        with served(registry) as url:
            client = SchemaRegistryClient({"url": url})
            client.register_schema("a-value", Schema(json.dumps(LONG), "AVRO"))
        port = int(url.rpartition(":")[2])
        is_requested = threading.Event()

        def serve_late() -> None:
            with socket.create_server(("127.0.0.1", port)) as listener:
                for _ in range(3):
                    listener.accept()[0].close()
            stack.enter_context(served(registry, port=port))
            is_requested.set()

        thread = threading.Thread(target=serve_late)
        thread.start()
        yield url, client, is_requested
        thread.join()


def test_batch_waits_for_a_registry_that_is_unavailable(late_registry: Any) -> None:
    url, _, is_requested = late_registry
    reader = reader_of(SchemaText(text=json.dumps(LONG)), registry=url)
    rows = Decoding(reader).rows([prefix(1) + b"\2"])
    assert rows.to_pylist() == [{"row": {"id": 1}, "problem": None}]
    assert is_requested.is_set()


def test_batch_fails_and_no_record_is_bad_if_the_registry_stays_unavailable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decoding, "PATIENCE_S", 0.0)
    with pytest.raises(RegistryUnavailable, match=r"no schema registry answers at http://127\.0\.0\.1:1"):
        Decoding(reader_of(SchemaText(text=json.dumps(LONG)))).rows([prefix(1) + b"\2"])


def test_id_is_unknown_after_a_time_in_which_another_process_may_have_assigned_it(
    registry: str, client: SchemaRegistryClient, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assigned: list[int] = []

    def assign(_seconds: float) -> None:
        assigned.append(
            client.register_schema(f"{name}-value", Schema(json.dumps({**LONG, "doc": name}), "AVRO"))
        )

    monkeypatch.setattr(time, "sleep", assign)
    newest = client.register_schema(f"{name}-other", Schema(json.dumps({**LONG, "doc": "other"}), "AVRO"))
    writers = Writers(RegistryClient(registry), columns_of(reader_of(SchemaText(text=json.dumps(LONG)))))
    writers.prepare([newest + 1, 2**31])
    assert assigned == [newest + 1]
    assert writers.decoder(newest + 1)(prefix(newest + 1) + b"\2") == {"id": 1}
    with pytest.raises(BadRecord, match=f"has no schema with id {2**31}"):
        writers.decoder(2**31)


def test_batch_without_records_for_python_needs_no_registry() -> None:
    text = reader_of(SchemaText(text=json.dumps(LONG))).to_text()
    (rows,) = decode_batches(text, [pa.nulls(3, pa.binary())])
    assert rows.to_pylist() == [None] * 3
    assert rows.type.field("row").type == pa.struct([("id", pa.int64())])


def test_schema_that_cannot_be_read_is_a_problem_of_its_records() -> None:
    reader = SchemaText(text=json.dumps(LONG))
    broken = SchemaText(text='{"type": "record", "name": "R", "fields": [{"name": "id", "type": "Missing"}]}')
    proto = SchemaText(text='syntax = "proto3"; message A {}', type=SchemaType.PROTOBUF)
    rows = Decoding(reader_of(reader, broken, proto)).rows(
        [prefix(1) + b"\2", prefix(2) + b"\2", prefix(1_000) + b"\2"]
    )
    first, second, third = rows.to_pylist()
    assert first["problem"].startswith("the schema with id 1 can't be read: ")
    assert second["problem"].startswith("the schema with id 2 can't be read: ")
    assert third == {"row": {"id": 1}, "problem": None}
