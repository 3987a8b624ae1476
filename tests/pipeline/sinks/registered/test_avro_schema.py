"""The Avro schemas of rows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql.types import StructType

from headrace.pipeline import BadSink
from headrace.pipeline.sinks.registered.avro_schema import avro_schema, record_name
from headrace.registered.schema import SchemaText


def row(ddl: str) -> StructType:
    """Without a session, which `fromDDL` needs."""
    fields: list[Any] = []
    for each in ddl.split("; "):
        name, kind = each.split(" ", 1)
        fields.append(
            {
                "name": name,
                "type": json.loads(kind) if kind[0] in '{"' else kind,
                "nullable": True,
                "metadata": {},
            }
        )
    return StructType.fromJson({"type": "struct", "fields": fields})


NESTED = '{"type":"struct","fields":[{"name":"b","type":"byte","nullable":true,"metadata":{}}]}'
ARRAY = f'{{"type":"array","elementType":{NESTED},"containsNull":true}}'
MAP = '{"type":"map","keyType":"string","valueType":"date","valueContainsNull":true}'


def test_every_field_may_be_null_and_nested_records_have_names_of_their_own() -> None:
    schema = avro_schema(
        row(f"a {NESTED}; list {ARRAY}; map {MAP}; price decimal(9,2); at timestamp; n void"), "t"
    )
    assert [each["default"] for each in schema["fields"]] == [None] * 6
    assert [each["type"] for each in schema["fields"]] == [
        [
            "null",
            {
                "type": "record",
                "name": "t_a",
                "fields": [{"name": "b", "type": ["null", "int"], "default": None}],
            },
        ],
        [
            "null",
            {
                "type": "array",
                "items": [
                    "null",
                    {
                        "type": "record",
                        "name": "t_list",
                        "fields": [{"name": "b", "type": ["null", "int"], "default": None}],
                    },
                ],
            },
        ],
        ["null", {"type": "map", "values": ["null", {"type": "int", "logicalType": "date"}]}],
        ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}],
        ["null", {"type": "long", "logicalType": "timestamp-micros"}],
        "null",
    ]
    assert SchemaText(text=json.dumps(schema)).avro().names.keys() == {"t", "t_a", "t_list"}


@pytest.mark.parametrize(
    ("topic", "name"), [("shop.orders-2", "shop_orders_2"), ("2026", "_2026"), ("a", "a")]
)
def test_name_of_a_topic_becomes_one_of_avro(topic: str, name: str) -> None:
    assert record_name(topic) == name


@pytest.mark.parametrize(
    ("column", "problem"),
    [
        ("total-price double", "'total-price'"),
        (
            'a {"type":"map","keyType":"long","valueType":"date","valueContainsNull":true}',
            "t_a: Avro has no type for map",
        ),
        ("a variant", "t_a: Avro has no type for variant"),
    ],
)
def test_column_that_avro_does_not_have_is_rejected(column: str, problem: str) -> None:
    with pytest.raises(BadSink, match=problem):
        avro_schema(row(column), "t")
