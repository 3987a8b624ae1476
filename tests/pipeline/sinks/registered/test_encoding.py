"""Rows as records, in Spark's Python workers. test_values.py has the same in jobs."""

from __future__ import annotations

import json

import pyarrow as pa

from headrace.pipeline.sinks.registered.encoding import RESULT, Encoding, encode_batches
from headrace.registered.schema import SchemaText
from headrace.schemas.definition import SchemaType

PROTO = 'syntax = "proto3"; import "google/protobuf/timestamp.proto"; message A { google.protobuf.Timestamp at = 1; }'


def encoded(encoding: Encoding, rows: pa.Array) -> list[dict[str, object]]:
    (found,) = encode_batches(encoding.to_text(), [rows])
    assert found.type == RESULT
    listed: list[dict[str, object]] = found.to_pylist()
    return listed


def test_valid_json_is_written_and_other_json_is_a_problem() -> None:
    schema = SchemaText(text=json.dumps({"properties": {"a": {"type": "number"}}}), type=SchemaType.JSON)
    rows = pa.array(['{"a":1}', '{"a":"NaN"}', None])
    assert encoded(Encoding(id=258, schema=schema), rows) == [
        {"value": b'\0\0\0\1\2{"a":1}', "problem": None},
        {
            "value": b'{"a":"NaN"}',
            "problem": 'its JSON violates the schema: /a: "NaN" is not of type "number"',
        },
        {"value": None, "problem": None},
    ]


def test_row_with_a_time_that_python_does_not_have_is_a_problem_of_its_own() -> None:
    schema = SchemaText(text=PROTO, type=SchemaType.PROTOBUF)
    rows = pa.array([{"at": 1_000_000}, {"at": 2**60}], pa.struct([("at", pa.timestamp("us", "UTC"))]))
    first, second = encoded(Encoding(id=1, schema=schema), rows)
    assert first == {"value": b"\0\0\0\0\1\0\x0a\x02\x08\x01", "problem": None}
    assert "can't be written" in str(second["problem"])
