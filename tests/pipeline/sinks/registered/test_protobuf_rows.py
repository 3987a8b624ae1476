"""Rows as Protobuf messages."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf import json_format

from headrace.pipeline.sinks.registered.protobuf_rows import filler, missing_fields
from tests.pipeline.source.registered.test_protobuf_columns import ALL, rows

AT = datetime(1969, 12, 31, 23, 59, 59, 500_000, tzinfo=UTC)


def filled(**row: Any) -> Any:
    message = ALL()
    filler(ALL.DESCRIPTOR)(message, row)
    return message


def test_row_that_was_read_is_the_same_message_again() -> None:
    row = {
        "u64": Decimal(2**64 - 1),
        "kind": "ONE",
        "kinds": ["NONE", "7"],
        "parts": [(3, {"name": "x", "numbers": [1]})],
        "list": [{"name": "y", "numbers": None}],
        "part": {},
        "at": AT,
        "took": timedelta(microseconds=-1_500_001),
        "wrapped": 0,
        "empty": {},
        "times": [AT.replace(tzinfo=None)],
        "maybe": None,
    }
    (found,) = rows(filled(**row))
    assert {name: found[name] for name in row} == {
        **row,
        "list": [{"name": "y", "numbers": []}],
        "part": {"name": "", "numbers": []},
        "times": [AT],
    }
    assert json_format.MessageToDict(filled(inner={"inner": {"u32": 1}})) == {"inner": {"inner": {"u32": 1}}}


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"kind": "TWO"}, "kind: 'TWO' is not one of NONE, ONE"),
        ({"kinds": [None]}, "kinds: Protobuf has no null"),
        ({"list": [None]}, "list: Protobuf has no null"),
        ({"parts": [(1, None)]}, "parts: Protobuf has no null"),
        ({"part": {"other": 1}}, "part: Part has no field other"),
        ({"u32": -1}, "u32: "),
        ({"raw": 1}, "raw: "),
        ({"a": date(2026, 1, 2), "u32": "x"}, "u32: "),
    ],
)
def test_value_that_a_field_does_not_take_is_an_error(row: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        filled(**row)


def test_texts_stand_for_dates_and_decimals() -> None:
    assert filled(a=Decimal("1.50")).a == "1.50"
    assert filled(a=date(2026, 1, 2)).a == "2026-01-02"
    assert missing_fields(ALL.DESCRIPTOR, ["a", "b", "x"]) == ["x"]
