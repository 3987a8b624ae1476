"""Avro schemas as types of columns. test_decoding.py compares values with fastavro."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from headrace.pipeline.source.registered.avro_columns import AvroColumns
from headrace.registered.schema import SchemaText


def columns(schema: Any) -> AvroColumns:
    return AvroColumns(SchemaText(text=json.dumps(schema)).avro())


def record(name: str, *types: Any) -> Any:
    fields = [{"name": f"f{number}", "type": each} for number, each in enumerate(types)]
    return {"type": "record", "name": name, "fields": fields}


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ("null", pa.null()),
        ({"type": "int", "logicalType": "date"}, pa.date32()),
        ({"type": "long", "logicalType": "date"}, pa.int64()),
        ({"type": "long", "logicalType": "timestamp-millis"}, pa.timestamp("ms", "UTC")),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, pa.timestamp("us")),
        ({"type": "long", "logicalType": "timestamp-nanos"}, pa.int64()),
        ({"type": "int", "logicalType": "time-millis"}, pa.int32()),
        ({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}, pa.decimal128(5, 2)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 50}, pa.binary()),
        ({"type": "fixed", "name": "F", "size": 2}, pa.binary()),
        ({"type": "map", "values": ["null", "int"]}, pa.map_(pa.string(), pa.int32())),
        (["null", {"type": "array", "items": "string"}], pa.list_(pa.string())),
        (["null"], pa.null()),
        (["int"], pa.int32()),
        (["null", "long", "shop.A"], None),
        (record("R", "int", record("Q")), pa.struct([("f0", pa.int32()), ("f1", pa.struct([]))])),
    ],
)
def test_type_has_its_column(schema: Any, kind: pa.DataType | None) -> None:
    if kind is None:
        schema = ["null", "long", {"type": "record", "name": "shop.A", "fields": []}]
        kind = pa.struct([("long", pa.int64()), ("A", pa.struct([]))])
    assert columns(schema).type == kind


def test_branches_with_the_same_short_name_keep_their_whole_name() -> None:
    union = [record("a.E", "int"), record("b.E", "int")]
    assert [each.name for each in columns(union).type] == ["a_E", "b_E"]


def test_type_within_itself_is_json() -> None:
    tree = {
        "type": "record",
        "name": "Tree",
        "fields": [
            {"name": "value", "type": "bytes"},
            {"name": "children", "type": {"type": "array", "items": "Tree"}},
        ],
    }
    found = columns(tree)
    assert found.type == pa.struct([("value", pa.binary()), ("children", pa.list_(pa.string()))])
    assert found.convert is not None
    leaf = {"value": b"\xff", "children": []}
    assert found.convert({"value": b"a", "children": [leaf]})["children"] == [
        '{"value": "ÿ", "children": []}'
    ]


def test_plain_types_need_no_conversion() -> None:
    assert (
        columns(record("R", "int", ["null", record("Q", "string")], {"type": "map", "values": "Q"})).convert
        is None
    )
