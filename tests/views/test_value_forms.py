"""The values that Debezium writes, as values of Spark."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace.cdc.change import UNAVAILABLE
from headrace.views.value_forms import Form, connect_form, is_unavailable, plain, wanted_form


def unscaled(number: int) -> str:
    return b64encode(number.to_bytes((number.bit_length() + 8) // 8, signed=True)).decode()


DECIMAL = "org.apache.kafka.connect.data.Decimal"
VALUES: list[tuple[Form, Any, Any]] = [
    (connect_form("int32", "io.debezium.time.Date"), 20_000, date(2024, 10, 4)),
    (connect_form("int32", "io.debezium.time.Date"), -1, date(1969, 12, 31)),
    (
        connect_form("int64", "io.debezium.time.Timestamp"),
        1_500,
        datetime.fromisoformat("1970-01-01T00:00:01.5"),
    ),
    (
        connect_form("int64", "io.debezium.time.MicroTimestamp"),
        -1,
        datetime.fromisoformat("1969-12-31T23:59:59.999999"),
    ),
    (
        connect_form("int64", "io.debezium.time.NanoTimestamp"),
        2_000,
        datetime.fromisoformat("1970-01-01T00:00:00.000002"),
    ),
    (connect_form("int64", "io.debezium.time.MicroTime"), 3_661_000_007, "01:01:01.000007"),
    (connect_form("int32", "io.debezium.time.Time"), 1_500, "00:00:01.500000"),
    (connect_form("bytes"), b64encode(b"\x00\xff").decode(), bytearray(b"\x00\xff")),
    (connect_form("string", "io.debezium.data.Json"), '{"a": 1}', '{"a": 1}'),
    (connect_form("array", items=plain("STRING")), ["a", None], ["a", None]),
    (
        connect_form("array", items=connect_form("int32", "io.debezium.time.Date")),
        [0, None],
        [date(1970, 1, 1), None],
    ),
    *(
        (
            connect_form("bytes", DECIMAL, parameters={"scale": "2"}),
            unscaled(number),
            Decimal(number).scaleb(-2),
        )
        for number in (0, 1, -1, 127, 128, -128, -129, 12_345, -(10**20), 10**36)
    ),
    (wanted_form("DECIMAL(10,2)", plain("STRING")), "12.5", Decimal("12.50")),
    (wanted_form("DATE", plain("STRING")), "2024-10-04", date(2024, 10, 4)),
    (wanted_form("DATE", plain("BIGINT")), 20_000, date(2024, 10, 4)),
    (wanted_form("TIMESTAMP_NTZ", plain("BIGINT")), 5, datetime.fromisoformat("1970-01-01T00:00:00.000005")),
    (wanted_form("ARRAY<INT>", plain("STRING")), [1], [1]),
    (wanted_form("STRING", connect_form("int32", "io.debezium.time.Date")), 0, "1970-01-01"),
    (wanted_form("INT", plain("BIGINT")), 7, 7),
]


def test_every_form_gives_the_value_that_was_in_the_database(spark: SparkSession) -> None:
    fields = {f"c{number}": (form, written) for number, (form, written, _) in enumerate(VALUES)}
    text = json.dumps({name: written for name, (_, written) in fields.items()})
    read = ", ".join(f"{name} {form.read}" for name, (form, _) in fields.items())
    rows = spark.createDataFrame([(text,)], "value STRING").select(F.from_json("value", read).alias("row"))
    found = rows.select("row.*").select(
        *(F.expr(form.of(name)).alias(name) for name, (form, _) in fields.items())
    )
    assert list(found.first() or ()) == [expected for _, _, expected in VALUES]
    types = [field.dataType.simpleString().upper() for field in found.schema]
    assert types == [form.type.replace("INTEGER", "INT") for form, _, _ in VALUES]


def test_time_with_a_zone_is_a_moment() -> None:
    assert connect_form("string", "io.debezium.time.ZonedTimestamp").type == "TIMESTAMP"


@pytest.mark.parametrize("kind", ["struct", "map", "something"])
def test_other_values_are_their_json(kind: str) -> None:
    assert connect_form(kind) == plain("STRING")


def test_the_mark_of_an_unchanged_value_is_recognised_in_all_its_forms(spark: SparkSession) -> None:
    marks = [UNAVAILABLE, b64encode(UNAVAILABLE.encode()).decode(), json.dumps([UNAVAILABLE]), "x", None]
    rows = spark.createDataFrame([(mark,) for mark in marks], "c STRING")
    assert [row[0] for row in rows.select(F.expr(is_unavailable("c"))).collect()] == [True] * 3 + [False] * 2
