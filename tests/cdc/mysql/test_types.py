"""Columns of the envelope; `test_source` compares the values of a real server."""

from __future__ import annotations

import struct
from base64 import b64decode

import pytest

from headrace.cdc.mysql.types import Spec, column, from_text, geometry_text, parse_values, single


@pytest.mark.parametrize(
    ("kind", "fields", "expected"),
    [
        ("tinyint", {}, ("int16", None)),
        ("smallint", {"is_unsigned": True}, ("int32", None)),
        ("int", {}, ("int32", None)),
        ("int", {"is_unsigned": True}, ("int64", None)),
        ("bigint", {"is_unsigned": True}, ("int64", None)),
        ("decimal", {}, ("string", None)),
        ("bit", {"length": 1}, ("boolean", None)),
        ("bit", {"length": 2}, ("string", None)),
        ("date", {}, ("int32", "io.debezium.time.Date")),
        ("time", {}, ("int64", "io.debezium.time.MicroTime")),
        ("datetime", {}, ("int64", "io.debezium.time.MicroTimestamp")),
        ("timestamp", {}, ("string", "io.debezium.time.ZonedTimestamp")),
        ("year", {}, ("int32", "io.debezium.time.Year")),
        ("enum", {}, ("string", "io.debezium.data.Enum")),
        ("set", {}, ("string", "io.debezium.data.EnumSet")),
        ("json", {}, ("string", "io.debezium.data.Json")),
        ("longtext", {"is_json": True}, ("string", "io.debezium.data.Json")),
        ("varbinary", {}, ("bytes", None)),
        ("polygon", {}, ("bytes", None)),
        ("a_type_of_a_later_version", {}, ("string", None)),
    ],
)
def test_column_has_the_type_of_debezium(
    kind: str, fields: dict[str, int], expected: tuple[str, str | None]
) -> None:
    found = column(Spec(name="c", type=kind, optional=False, **fields))  # type: ignore[arg-type]
    assert (found.type, found.semantic) == expected
    assert not found.optional


def test_date_that_is_none_is_null_or_the_first_day() -> None:
    assert from_text(Spec(name="c", type="date"))(b"0000-00-00") is None
    assert from_text(Spec(name="c", type="date", optional=False))(b"0000-00-00") == 0
    zoned = Spec(name="c", type="timestamp", optional=False)
    assert from_text(zoned)(b"0000-00-00 00:00:00") == "1970-01-01T00:00:00Z"


@pytest.mark.parametrize("number", [0.1, 3.1415927, 16777216.0, 1e38, 1.1754944e-38])
def test_float_has_the_digits_that_it_was_written_with(number: float) -> None:
    (stored,) = struct.unpack("<f", struct.pack("<f", number))
    assert single(stored) == number


def test_geometry_keeps_its_reference_system() -> None:
    point = bytes.fromhex("0101000000000000000000f03f0000000000000040")
    assert b64decode(geometry_text(bytes(4) + point)) == point
    assert b64decode(geometry_text(b"\xe6\x10\0\0" + point))[:9].hex() == "0101000020e6100000"


def test_values_of_an_enum_may_have_quotes_and_commas() -> None:
    assert parse_values("enum('a','it''s','c,d','')") == ("a", "it's", "c,d", "")
