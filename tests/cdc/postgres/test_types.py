"""One table with every type: what the snapshot reads and what the stream sends are the same, and what is documented."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.cdc.postgres.source import PostgresSource
from headrace.cdc.postgres.types import TypeInfo, shape
from tests.cdc.postgres.steps import Database, take_changes, take_snapshot

# type, value in SQL, column type, semantic name, value in the envelope
TIME, DATA = "io.debezium.time.", "io.debezium.data."
CASES: list[tuple[str, str, str, str | None, Any]] = [
    ("bool", "true", "boolean", None, True),
    ("bool", "false", "boolean", None, False),
    ("int2", "-32768", "int16", None, -32768),
    ("int4", "2147483647", "int32", None, 2147483647),
    ("int8", "-9223372036854775808", "int64", None, -(2**63)),
    ("oid", "4294967295", "int64", None, 4294967295),
    ("float4", "1.1", "float", None, 1.1),
    ("float8", "0.1", "double", None, 0.1),
    ("float8", "1e300", "double", None, 1e300),
    ("float8", "'NaN'", "double", None, "NaN"),
    ("float4", "'-Infinity'", "float", None, "-Infinity"),
    ("numeric", "12345678901234567890.123456789", "string", None, "12345678901234567890.123456789"),
    ("numeric(10,2)", "1.5", "string", None, "1.50"),
    ("numeric", "'NaN'", "string", None, "NaN"),
    ("money", "12.5", "string", None, "$12.50"),
    ("text", "'æøå 🚀'", "string", None, "æøå 🚀"),
    ("text", r"E'tab\tline\nback\\slash'", "string", None, "tab\tline\nback\\slash"),
    ("text", "''", "string", None, ""),
    ("text", r"'\N'", "string", None, r"\N"),
    ("varchar(5)", "'abc'", "string", None, "abc"),
    ("char(5)", "'abc'", "string", None, "abc  "),
    ('"char"', "'x'", "string", None, "x"),
    ("name", "'x'", "string", None, "x"),
    ("date", "'2026-11-17'", "int32", TIME + "Date", 20774),
    ("date", "'0044-03-15 BC'", "int32", TIME + "Date", -735160),
    ("date", "'infinity'", "int32", TIME + "Date", 2**31 - 1),
    ("time", "'12:34:56.789'", "int64", TIME + "MicroTime", 45_296_789_000),
    ("timetz", "'12:34:56+02'", "string", TIME + "ZonedTime", "10:34:56Z"),
    ("timestamp", "'2026-11-17 12:00:00.000001'", "int64", TIME + "MicroTimestamp", 1_794_916_800_000_001),
    ("timestamp", "'-infinity'", "int64", TIME + "MicroTimestamp", -9_223_372_036_832_400_000),
    ("timestamptz", "'2026-11-17 12:00:00+02'", "string", TIME + "ZonedTimestamp", "2026-11-17T10:00:00Z"),
    ("timestamptz", "'0044-03-15 12:00+00 BC'", "string", TIME + "ZonedTimestamp", "-0043-03-15T12:00:00Z"),
    ("interval", "'1 year 2 months 3 days 04:05:06.7'", "string", TIME + "Interval", "P1Y2M3DT4H5M6.7S"),
    (
        "uuid",
        "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
        "string",
        DATA + "Uuid",
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    ),
    ("json", """'{"a":  1}'""", "string", DATA + "Json", '{"a":  1}'),
    ("jsonb", """'{"a":  1}'""", "string", DATA + "Json", '{"a": 1}'),
    # The server of the test kit is built without libxml.
    ("xml", "NULL", "string", DATA + "Xml", None),
    ("bytea", r"'\x00ff10'", "bytes", None, "AP8Q"),
    ("bytea", "''", "bytes", None, ""),
    ("bit(1)", "B'1'", "boolean", None, True),
    ("bit(3)", "B'101'", "string", None, "101"),
    ("varbit", "B'10'", "string", None, "10"),
    ("mood", "'not so \"sad\"'", "string", DATA + "Enum", 'not so "sad"'),
    ("positive", "7", "int32", None, 7),
    ("flag", "B'1'", "boolean", None, True),
    ("point3", "ROW(1,2,'a,b')", "string", None, '(1,2,"a,b")'),
    ("int4range", "'[1,5)'", "string", None, "[1,5)"),
    ("int4multirange", "'{[1,3),[5,7)}'", "string", None, "{[1,3),[5,7)}"),
    ("tstzrange", "'[2026-01-01 00:00+01,)'", "string", None, '["2025-12-31 23:00:00+00",)'),
    ("inet", "'10.0.0.1/8'", "string", None, "10.0.0.1/8"),
    ("cidr", "'10.0.0.0/8'", "string", None, "10.0.0.0/8"),
    ("macaddr", "'08:00:2b:01:02:03'", "string", None, "08:00:2b:01:02:03"),
    ("tsvector", "'a b'", "string", None, "'a' 'b'"),
    ("point", "'(1,2)'", "string", None, "(1,2)"),
    ("polygon", "'((0,0),(1,1))'", "string", None, "((0,0),(1,1))"),
    ("pg_lsn", "'0/16B3748'", "string", None, "0/16B3748"),
    ("int2vector", "'1 2'", "string", None, "1 2"),
    ("int4[]", "'{1,NULL,3}'", "array", None, [1, None, 3]),
    ("int4[][]", "'{{1,2},{3,4}}'", "array", None, [[1, 2], [3, 4]]),
    ("text[]", """ARRAY['a,b', NULL, 'NULL', 'say "hi"', 'back\\slash', '', '{}']""", "array", None,
     ["a,b", None, "NULL", 'say "hi"', "back\\slash", "", "{}"]),
    ("bool[]", "'{t,f}'", "array", None, [True, False]),
    ("bytea[]", r"ARRAY['\x00ff'::bytea]", "array", None, ["AP8="]),
    ("numeric[]", "'{1.50,NaN}'", "array", None, ["1.50", "NaN"]),
    ("date[]", "'{1970-01-02}'", "array", TIME + "Date", [1]),
    ("timestamptz[]", "'{2026-11-17 12:00:00+02}'", "array", TIME + "ZonedTimestamp", ["2026-11-17T10:00:00Z"]),
    ("jsonb[]", """ARRAY['{"a": 1}'::jsonb]""", "array", DATA + "Json", ['{"a": 1}']),
    ("mood[]", "ARRAY['happy', NULL]::mood[]", "array", DATA + "Enum", ["happy", None]),
    ("positive[]", "ARRAY[7]", "array", None, [7]),
    ("box[]", "'{(1,1),(0,0);(3,3),(2,2)}'", "array", None, ["(1,1),(0,0)", "(3,3),(2,2)"]),
    ("int4", "NULL", "int32", None, None),
]  # fmt: skip


def test_snapshot_and_stream_have_the_same_documented_value_of_every_type(
    database: Database, open_source: Callable[..., PostgresSource]
) -> None:
    # What the database prints by default must not matter.
    database.run(
        f"ALTER DATABASE {database.name} SET timezone = 'Europe/Oslo'",
        f"ALTER DATABASE {database.name} SET datestyle = 'German'",
        f"ALTER DATABASE {database.name} SET intervalstyle = 'postgres_verbose'",
        f"ALTER DATABASE {database.name} SET bytea_output = 'escape'",
        "CREATE TYPE mood AS ENUM ('happy', 'not so \"sad\"')",
        "CREATE DOMAIN positive AS int4 CHECK (VALUE > 0)",
        "CREATE DOMAIN flag AS bit(1)",
        "CREATE TYPE point3 AS (x int4, y int4, z text)",
    )
    columns = ", ".join(f"c{number} {case[0]}" for number, case in enumerate(CASES))
    values = ", ".join(case[1] for case in CASES)
    database.run(f"CREATE TABLE everything (id int4 PRIMARY KEY, {columns})")
    database.run(f"INSERT INTO everything VALUES (1, {values})")
    events = open_source().events(None)
    [read] = take_snapshot(events)
    database.run(f"INSERT INTO everything VALUES (2, {values})")
    [created] = take_changes(events, 1)
    assert read.after is not None
    assert created.after is not None
    expected = [(case[0], case[2], case[3], case[4]) for case in CASES]
    found = [
        (case[0], column.type, column.semantic, read.after[column.name])
        for case, column in zip(CASES, read.table.columns[1:], strict=True)
    ]
    assert found == expected
    assert created.table == read.table
    assert {**created.after, "id": 1} == read.after
    items = {case[0]: column.items for case, column in zip(CASES, read.table.columns[1:], strict=True)}
    assert (items["int4[]"], items["bytea[]"], items["date[]"], items["int4"]) == (
        "int32",
        "bytes",
        "int32",
        None,
    )


def test_type_that_was_dropped_is_a_text() -> None:
    assert shape(99_999, -1, {}).type == "string"


def test_type_of_a_user_with_a_built_in_name_is_a_text() -> None:
    types = {20_000: TypeInfo(oid=20_000, name="int4")}
    assert shape(20_000, -1, types).convert is None


def test_times_of_low_precision_are_milliseconds() -> None:
    types = {1083: TypeInfo(oid=1083, name="time"), 1114: TypeInfo(oid=1114, name="timestamp")}
    time, stamp = shape(1083, 3, types), shape(1114, 0, types)
    assert (time.type, time.semantic) == ("int32", "io.debezium.time.Time")
    assert (stamp.type, stamp.semantic) == ("int64", "io.debezium.time.Timestamp")
    assert time.convert is not None
    assert time.convert("13:51:30.123") == 49_890_123
    assert stamp.convert is not None
    assert stamp.convert("2016-11-04 13:51:30") == 1_478_267_490_000
    assert shape(1114, 4, types).semantic == "io.debezium.time.MicroTimestamp"
