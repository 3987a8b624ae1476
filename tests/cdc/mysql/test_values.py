"""Values that MariaDB does not write, or writes only with old settings; `test_source` has those of a real server."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from headrace.cdc.mysql import tablemap as t
from headrace.cdc.mysql.types import Spec
from headrace.cdc.mysql.values import reader


def value(spec: Spec, kind: int, metadata: int, data: bytes) -> Any:
    read = reader(spec, kind, metadata, bytes.decode)
    assert read is not None
    found, at = read(b"?" + data + b"rest", 1)
    assert at == 1 + len(data), "the reader has not read the whole value"
    return found


def spec(kind: str, **more: Any) -> Spec:
    return Spec(name="c", type=kind, **more)


SMALL_OBJECT = bytes.fromhex("0001000c000b000100050100") + b"a"


def test_binary_json_of_mysql_is_the_text_that_mysql_prints() -> None:
    assert value(spec("json"), t.JSON, 4, struct.pack("<I", len(SMALL_OBJECT)) + SMALL_OBJECT) == '{"a": 1}'


def test_empty_json_is_null() -> None:
    assert value(spec("json"), t.JSON, 4, bytes(4)) is None


@pytest.mark.parametrize(
    ("kind", "column", "data", "expected"),
    [
        ("datetime", t.DATETIME, struct.pack("<Q", 20261118063000), 1794983400000000),
        ("datetime", t.DATETIME, bytes(8), None),
        ("timestamp", t.TIMESTAMP, struct.pack("<I", 1794983400), "2026-11-18T06:30:00Z"),
        ("timestamp", t.TIMESTAMP, bytes(4), None),
        ("time", t.TIME, (-10203).to_bytes(3, "little", signed=True), -3723000000),
        ("date", t.NEWDATE, (2026 << 9 | 11 << 5 | 18).to_bytes(3, "little"), 20775),
        ("vector", t.VECTOR, b"\x02\x00\x00\x00ab", "YWI="),
    ],
)
def test_old_and_rare_formats_are_read(kind: str, column: int, data: bytes, expected: Any) -> None:
    assert value(spec(kind), column, 4 if column == t.VECTOR else 0, data) == expected


@pytest.mark.parametrize("kind", [t.BLOB_COMPRESSED, t.VARCHAR_COMPRESSED, 99])
def test_unknown_format_has_no_reader(kind: int) -> None:
    assert reader(spec("text"), kind, 0, bytes.decode) is None


def test_old_time_with_a_fraction_has_no_reader() -> None:
    assert reader(spec("datetime", scale=3), t.DATETIME, 0, bytes.decode) is None


def test_enum_value_that_is_none_of_its_list_is_empty() -> None:
    assert value(spec("enum", values=("a", "b")), t.ENUM, 1, b"\0") == ""
    assert value(spec("enum", values=("a", "b")), t.ENUM, 1, b"\2") == "b"


@pytest.mark.parametrize(
    ("precision", "scale", "data", "expected"),
    [
        (14, 4, "810DFB38D204D2", "1234567890.1234"),
        (14, 4, "7EF204C72DFB2D", "-1234567890.1234"),
        (4, 0, "8000", "0"),
    ],
)
def test_decimal_is_the_exact_text(precision: int, scale: int, data: str, expected: str) -> None:
    """The first two are the examples of MySQL's source."""
    assert value(spec("decimal"), t.NEWDECIMAL, precision * 256 + scale, bytes.fromhex(data)) == expected
