"""JSON read by whole columns: what is accepted is what Spark reads, and plain values are accepted."""

from __future__ import annotations

import itertools
import json
import pickle
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from headrace.pipeline.source.formats import parser_for, schema_text
from headrace.pipeline.source.json_blocks import (
    JACKSON_LIMIT,
    NAMES_MAX,
    ROWS_MAX,
    ROWS_MIN,
    VALUE_BYTES_MAX,
    JsonBlocks,
)
from tests.pipeline.source.json_values import NAMES, TYPES, JsonValues, Schema

CLICK = {"user": "string", "visits": "integer", "at": "timestamp", "cost": "double"}
NOTHING = dict.fromkeys(CLICK)
ANN = b'{"user":"ann","visits":3,"at":"2026-01-01T00:00:00.5Z","cost":1.5}'

PLAIN_VALUES = 100
ODD_VALUES = 200
MIXED_BLOCKS = 150

SCHEMAS = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(TYPES), min_size=1, max_size=6)


def row_type(fields: Schema) -> StructType:
    row = StructType()
    for name, type in fields.items():
        row.add(name, type)
    return row


def blocks(fields: Schema = CLICK, time_zone: str = "UTC") -> JsonBlocks:
    found = JsonBlocks.of(row_type(fields).json(), time_zone)
    assert found is not None
    return found


def read(reader: JsonBlocks, values: Sequence[bytes | None]) -> list[Any]:
    """The fields of each value, and None for a doubtful one."""
    table, is_doubtful = reader.read(pa.array(values, pa.binary()))
    assert table.schema == reader.schema
    rows = iter(table.to_pylist())
    found = [None if is_one else next(rows) for is_one in is_doubtful]
    assert next(rows, None) is None
    assert len(found) == len(values)
    return found


def is_doubtful(value: bytes | None, fields: Schema = CLICK) -> bool:
    return read(blocks(fields), [value]) == [None]


def test_fields_have_the_types_of_the_schema() -> None:
    names = ("s", "b", "t", "h", "i", "l", "d", "at", "day")
    reader = blocks(dict(zip(names, TYPES, strict=True)))
    value = (
        rb'{"s":"\u00e4\"\ud83d\ude00\u0000","b":true,"t":-128,"h":32767,"i":-2147483648,"l":9223372036854775807,'
        rb'"d":0.1,"at":"2026-02-28 23:59:59.123456-05:30","day":"2024-02-29"}'
    )
    assert read(reader, [value]) == [
        {
            "s": 'ä"😀\0',
            "b": True,
            "t": -128,
            "h": 32767,
            "i": -(2**31),
            "l": 2**63 - 1,
            "d": 0.1,
            "at": datetime(2026, 3, 1, 5, 29, 59, 123456, UTC),
            "day": date(2024, 2, 29),
        }
    ]
    assert [str(each.type) for each in reader.schema] == [
        *(
            "string",
            "bool",
            "int8",
            "int16",
            "int32",
            "int64",
            "double",
            "timestamp[us, tz=UTC]",
            "date32[day]",
        )
    ]


@pytest.mark.parametrize(
    "value",
    [
        b"{}",
        b'{"other":1}',
        b'{"user":null,"at":null,"cost":null}',
        b'{"other":{"user":"bob","list":[{"user":1},[null]]},"other":2}',
        b'{\n "other" :\t[\r\n1 , 2]\n}',
        b"{}\n",
        b"{}\r\n",
        b'{"User":"ann","user\\u0000":"ann"}',
        b'{"other":"NaN, Infinity, Info, -Inf [NaN] :Inf"}',
        b'{"other":"} null {\\n"}',
    ],
)
def test_missing_null_and_other_fields_are_no_doubt(value: bytes) -> None:
    assert read(blocks(), [value]) == [NOTHING]


@pytest.mark.parametrize(
    "value",
    [
        None,
        *(b"", b" ", b"null", b"1", b'"x"', b"[]", b"[{}]", b"{", b"}", b"}{", b" {}", b"\xef\xbb\xbf{}"),
        *(b"{} x", b"{}}", b"{}{}", b"{}\n{}", b"{} null {}", b"{}null{}", b"{}1{}", b"{}[]{}", b"{}//{}"),
        *(b"\0{}", b"{}\0", b"{\0}", b'{"other":"\0"}', b"{}\0{}", b'{"other":1\0}'),
        *(b'{"user":"\xff"}', b'{"\xc3":1}', b'{"other":"\xed\xa0\x80"}', b'{"other":"\xc0\x80"}'),
        *(b'{"user":"\\ud800"}', b'{"other":"\\udc00"}', b'{"\\ud800":1}', b'{"user":"\\ud83d\\u0041"}'),
        *(
            b'{"user":"a\nb"}',
            b'{"user":"a\tb"}',
            b'{"other":"\x1f"}',
            b'{"user":"\\x"}',
            b'{"user":"\\u12"}',
        ),
        *(b"{'user':'ann'}", b'{user:"ann"}', b'{"user":"ann",}', b'{,"user":"ann"}', b'{"user" "ann"}'),
        *(b'{"user":1}', b'{"user":1.0}', b'{"user":true}', b'{"user":{}}', b'{"user":["ann"]}'),
        *(
            b'{"visits":"1"}',
            b'{"visits":1.0}',
            b'{"visits":1e2}',
            b'{"visits":2147483648}',
            b'{"visits":""}',
        ),
        *(b'{"visits":01}', b'{"visits":+1}', b'{"visits":1.}', b'{"visits":true}', b'{"visits":NaN}'),
        *(b'{"cost":NaN}', b'{"cost":-Infinity}', b'{"cost":"NaN"}', b'{"cost":1e400}', b'{"cost":"1"}'),
        *(b'{"cost":-0}', b'{"cost":-0.0}', b'{"cost":-1e-400}', b'{"cost":.5}', b'{"cost":""}'),
        *(
            b'{"other":NaN}',
            b'{"other":-NaN}',
            b'{"other":[Inf]}',
            b'{"other":[1, -Inf]}',
            b'{"other":\nInfinity}',
        ),
        *(
            b'{"at":1}',
            b'{"at":""}',
            b'{"at":"yesterday"}',
            b'{"at":"2026-01-01"}',
            b'{"at":"2026-01-01T00:00Z"}',
        ),
        *(b'{"user":"ann","user":"bob"}', b'{"user":null,"user":"bob"}', b'{"user":"a","us\\u0065r":"b"}'),
        *(b'{"other":/**/1}', b'{"other":1}//}', b'{"other":nul}', b'{"other":01}', b'{"other":[1,]}'),
    ],
)
def test_value_that_spark_may_read_otherwise_is_doubtful(value: bytes | None) -> None:
    ann = read(blocks(), [ANN])[0]
    assert read(blocks(), [value]) == [None]
    assert read(blocks(), [ANN, value, ANN]) in ([ann, None, ann], [None, None, None])
    assert read(blocks(), [value] * 3) == [None] * 3


@pytest.mark.parametrize(
    "text",
    [
        *("2026-01-01", "2026-01-01T00", "2026-01-01T00:00Z", "2026-1-01T00:00:00Z", "02026-01-01T00:00:00Z"),
        *(
            "2026-01-01t00:00:00Z",
            "2026-01-01T00:00:00z",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00.1234567Z",
        ),
        *("2026-01-01T00:00:00,5Z", "2026-01-01T24:00:00Z", "2026-01-01T23:59:60Z", "2026-02-29T00:00:00Z"),
        *(
            "2026-01-01T00:00:00+01",
            "2026-01-01T00:00:00+0100",
            "2026-01-01T00:00:00+18:00",
            " 2026-01-01T00:00:00Z",
        ),
        *(
            "2026-01-01T00:00:00+01Z",
            "2026-01-01T00:00:00x5Z",
            "2026-01-01x00:00:00Z",
            "2026-01-01T00:00x00Z",
        ),
        *("2026-01-01T00:00+01:00:00", "2026-01-01T00:00:00Z+01:00", "2026-01-01T00:00:00 +01:00"),
        *(
            "2026-01-01T00:00+01:00",
            "2026-01-01T00+01:00",
            "+026-01-01T00:00:00Z",
            "2026-01-01T00:00:00+0001:00",
        ),
        *(
            "2026-01-01T00:00:00+05:60",
            "2026-01-01T00:00:00UTC",
            "2026-01-01T00:00:00 Z",
            "2026-W01-1T00:00:00Z",
        ),
        "٢٠٢٦-01-01T00:00:00Z",
    ],
)
def test_time_in_another_form_is_doubtful_alone(text: str) -> None:
    ann, value = read(blocks(), [ANN])[0], json.dumps({"at": text}).encode()
    assert read(blocks(), [ANN, value, ANN]) == [ann, None, ann]


def test_time_without_an_offset_is_doubtful_in_another_time_zone() -> None:
    local, zoned = b'{"at":"2026-01-01T00:00:00"}', b'{"at":"2026-01-01T01:00:00+01:00"}'
    found = {**NOTHING, "at": datetime(2026, 1, 1, tzinfo=UTC)}
    assert read(blocks(), [local, zoned, local]) == [found, found, found]
    assert read(blocks(time_zone="Europe/Berlin"), [local, zoned, local]) == [None, found, None]


@pytest.mark.parametrize(
    "text", ["2026-02-29", "2026-1-1", "20260101", "2026-01-01T00:00:00", "2026-W01-1", "1", ""]
)
def test_day_in_another_form_is_doubtful_alone(text: str) -> None:
    day, value = b'{"day":"2024-02-29"}', json.dumps({"day": text}).encode()
    found = {"day": date(2024, 2, 29)}
    assert read(blocks({"day": "date"}), [day, value, b'{"day":null}']) == [found, None, {"day": None}]


def test_value_beyond_the_limits_of_jackson_is_doubtful() -> None:
    deep = [b'{"other":' + b"[" * depth + b"]" * depth + b"}" for depth in (JACKSON_LIMIT - 1, JACKSON_LIMIT)]
    objects = [b'{"a":' * depth + b"1" + b"}" * depth for depth in (JACKSON_LIMIT, JACKSON_LIMIT + 1)]
    numbers = [b'{"other":' + b"1" * digits + b"}" for digits in (JACKSON_LIMIT, JACKSON_LIMIT + 1)]
    fractions = [b'{"other":0.' + b"1" * digits + b"}" for digits in (JACKSON_LIMIT - 2, JACKSON_LIMIT - 1)]
    names = [
        b"{" + b",".join(b'"n%d":1' % n for n in range(count)) + b"}" for count in (NAMES_MAX, NAMES_MAX + 1)
    ]
    lengths = [b'{"other":"' + b"x" * (size - 12) + b'"}' for size in (VALUE_BYTES_MAX, VALUE_BYTES_MAX + 1)]
    for within, beyond in (deep, objects, numbers, fractions, names, lengths):
        assert [is_doubtful(within), is_doubtful(beyond)] == [False, True]
    shifted = [b'{"other":"' + b"x" * shift + b'","n":' + b"1" * 1001 + b"}" for shift in range(130)]
    assert read(blocks(), shifted) == [None] * len(shifted)


def test_names_with_quotes_and_spaces_are_counted() -> None:
    escaped = b"{" + b",".join(rb'"\"%s\"\\" :1' % (b"x" * n) for n in range(NAMES_MAX + 1)) + b"}"
    repeated = b'{"list":[' + b",".join([b'{"name":"a","value":1}'] * NAMES_MAX) + b"]}"
    assert is_doubtful(escaped)
    assert not is_doubtful(repeated)


@pytest.mark.parametrize(
    "values",
    [
        [b'{"user":"}', b'{"}'],
        [b'{"user":"}', b'{","other":"}', b'{"}'],
        [b'{"other":{}', b"{}}"],
        [b'{"other":[{}', b"{}]}"],
        [b'{"other":[{}', b"{},{}]}"],
        [b"{}{}", b'{"other":{}', b"{}}"],
        [b"{}{}", b'{"user":"}', b'{"}'],
        [b"{}{}", b"{}\0{}", b"{}"],
        [b"{}{}", b"{}\0x}", b'{"user":"lost"}'],
        [b"{}{}", b"{}\0}"],
        [b"{}", b"{}{}", b"{"],
        [b"{}null{}", b"{}{}", b"{}\0}", b'{"user":"lost"}', b'{"user":"lost"}', b'{"user":"lost"}'],
        [b'{"user":"ann"} //{}', b'{"user":"bob"}'],
        [b'{"other":"\\}', b'{"}'],
        [b'{"other":[1,', b"{}]}", b"{}{}"],
        [b'{"other":', b"{}}", b"{}null"],
    ],
)
def test_values_that_join_or_end_each_other_are_not_read(values: list[bytes]) -> None:
    alone = {value: read(blocks(), [value])[0] for value in values}
    for order in itertools.permutations(values):
        found = read(blocks(), order)
        assert all(row is None or row == alone[value] for value, row in zip(order, found, strict=True))


def test_odd_value_makes_no_other_one_doubtful() -> None:
    odd = [
        b"no JSON",
        b'{"user":1}',
        b'{"visits":1.0}',
        b'{"user":"\xff"}',
        b'{"at":"2026-02-30T00:00:00Z"}',
        b"{}{}",
    ]
    values = [b'{"visits":%d}' % number for number in range(3 * ROWS_MAX)]
    positions = range(100, len(values), 1999)
    for position, value in zip(positions, itertools.cycle(odd), strict=False):
        values[position] = value
    found = read(blocks(), values)
    assert [number for number, row in enumerate(found) if row is None] == list(positions)
    assert all(row is None or row["visits"] == number for number, row in enumerate(found))


def test_odd_value_that_looks_good_makes_few_others_doubtful() -> None:
    values = [b'{"visits":%d}' % number for number in range(ROWS_MAX)]
    values[1000] = b'{"visits":1,"visits":2}'
    found = read(blocks(), values)
    doubtful = [number for number, row in enumerate(found) if row is None]
    assert 1000 in doubtful
    assert len(doubtful) <= ROWS_MIN
    assert all(row is None or row["visits"] == number for number, row in enumerate(found))


def test_chunks_slices_and_large_arrays_are_read_in_order() -> None:
    values = [b'{"visits":%d}' % number for number in range(2 * ROWS_MAX + 7)]
    values[5:9] = [None, b"", b'{"visits":5} ', b"\0"]  # type: ignore[list-item]
    array = pa.array(values, pa.binary())
    chunked = pa.chunked_array([array[:0], array[:3], array[3:7000], array[7001:]])
    numbers = [number for number in range(len(values)) if number not in (5, 6, 7, 8, 7000)]
    for each in (chunked, chunked.cast(pa.large_binary()), chunked.combine_chunks()):
        table, doubtful = blocks({"visits": "integer"}).read(each)
        assert np.flatnonzero(doubtful).tolist() == [5, 6, 8]
        assert table["visits"].to_pylist() == [*numbers[:5], 5, *numbers[5:]]


@pytest.mark.parametrize("values", [[], [None], [b""], [None, b"", None]])
def test_nothing_to_read_is_an_empty_table(values: list[bytes | None]) -> None:
    table, doubtful = blocks().read(pa.array(values, pa.binary()))
    assert table.equals(blocks().schema.empty_table())
    assert doubtful.tolist() == [True] * len(values)
    assert blocks().read(pa.chunked_array([], pa.binary()))[0].num_rows == 0


@pytest.mark.parametrize(
    "schema",
    [
        *(
            "a DECIMAL(10, 2)",
            "a FLOAT",
            "a BINARY",
            "a STRUCT<b: INT>",
            "a ARRAY<INT>",
            "a MAP<STRING, INT>",
        ),
        *(
            "a TIMESTAMP_NTZ",
            "a VARIANT",
            "a CHAR(3)",
            "a VARCHAR(3)",
            "a INTERVAL DAY TO SECOND",
            "a TIME(6)",
        ),
        *("a STRING COLLATE UTF8_LCASE", "a INT, A INT", 'a INT, `b"` INT', "`a\\\\b` INT", "a INT, b FLOAT"),
        StructType(),
        StructType().add("a", "integer", metadata={"EXISTS_DEFAULT": "1"}),
    ],
)
def test_schema_that_needs_spark_has_no_blocks(spark: SparkSession, schema: Any) -> None:
    assert JsonBlocks.of(schema_text("json", schema) or "", "UTC") is None


def test_reader_can_be_pickled_and_comments_and_not_null_do_not_matter() -> None:
    row = StructType().add("user", "string", nullable=False, metadata={"comment": "who"})
    reader = JsonBlocks.of(row.json(), "UTC")
    assert reader == blocks({"user": "string"})
    assert read(pickle.loads(pickle.dumps(reader)), [b"{}"]) == [{"user": None}]


def spark_reads(spark: SparkSession, schema: StructType, values: Iterable[bytes]) -> pa.Table:
    """The fields of each value, and in the first column, whether it is bad."""
    parser = parser_for("json", schema_text("json", schema))
    rows = spark.createDataFrame([(value,) for value in values], "value BINARY").coalesce(1)
    for name, column in parser.stages:
        rows = rows.withColumn(name, column)
    fields = [column.alias(f"field {number}") for number, (_, column) in enumerate(parser.fields)]
    return rows.select(parser.is_bad, *fields).toArrow()


def test_spark_rejects_what_is_beyond_the_limits(spark: SparkSession) -> None:
    names_of_one_hash = ["".join(each) for each in itertools.product(("aA", "b "), repeat=9)]
    within = [
        b'{"other":' + b"[" * (JACKSON_LIMIT - 1) + b"]" * (JACKSON_LIMIT - 1) + b"}",
        b'{"other":' + b"1" * JACKSON_LIMIT + b"}",
        json.dumps(dict.fromkeys(names_of_one_hash[:NAMES_MAX])).encode(),
    ]
    beyond = [
        b'{"other":' + b"[" * JACKSON_LIMIT + b"]" * JACKSON_LIMIT + b"}",
        b'{"other":' + b"1" * (JACKSON_LIMIT + 1) + b"}",
        json.dumps(dict.fromkeys(names_of_one_hash)).encode(),
        b'{"' + b"n" * (VALUE_BYTES_MAX + 1) + b'":1}',
    ]
    assert read(blocks(), within) == [NOTHING] * len(within)
    assert read(blocks(), beyond) == [None] * len(beyond)
    is_bad = [spark_reads(spark, row_type(CLICK), [value])[0].to_pylist() for value in (*within, *beyond)]
    assert is_bad == [[False]] * len(within) + [[True]] * len(beyond)


def assert_same(values: Sequence[bytes], found: tuple[pa.Table, Any], expected: pa.Table) -> None:
    """Each value that is not doubtful is good in Spark, and has the same fields, bit by bit."""
    table, is_doubtful = found
    accepted = [
        value for value, is_one_doubtful in zip(values, is_doubtful, strict=True) if not is_one_doubtful
    ]
    is_bad, *fields = expected.filter(pa.array(~is_doubtful)).columns
    assert [value for value, is_one_bad in zip(accepted, is_bad.to_pylist(), strict=True) if is_one_bad] == []
    for name, column, field in zip(table.column_names, table.columns, fields, strict=True):
        assert (name, column.type) == (name, field.type)
        pairs = zip(accepted, bits(column), bits(field), strict=True)
        assert [(name, value, one, other) for value, one, other in pairs if one != other] == []


def bits(column: pa.ChunkedArray) -> list[Any]:
    """A double as an integer: 0 is not -0. So are times and days, as Python has no year 0."""
    views = {pa.float64(): pa.int64(), pa.timestamp("us", "UTC"): pa.int64(), pa.date32(): pa.int32()}
    return [
        each
        for chunk in column.chunks
        for each in chunk.view(views.get(column.type, column.type)).to_pylist()
    ]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(schema=SCHEMAS, seed=st.integers(0, 2**32))
def test_accepted_values_are_what_spark_reads_and_plain_ones_are_accepted(
    spark: SparkSession, schema: Schema, seed: int
) -> None:
    reader, values = blocks(schema), JsonValues(schema, seed)
    plain = values.chosen([values.good], PLAIN_VALUES)
    assert not reader.read(pa.array(plain, pa.binary()))[1].any()

    odd = values.chosen([values.odd], ODD_VALUES)
    mixed = [
        values.chosen([values.pieces, values.pieces, values.odd, values.good], 3) for _ in range(MIXED_BLOCKS)
    ]
    read_at_once = [[*plain, *odd], *([value] for value in odd), *mixed]
    found = [reader.read(pa.array(each, pa.binary())) for each in read_at_once]
    tables, masks = zip(*found, strict=True)
    all_values = [value for each in read_at_once for value in each]
    assert_same(
        all_values,
        (pa.concat_tables(tables), np.concatenate(masks)),
        spark_reads(spark, row_type(schema), all_values),
    )
