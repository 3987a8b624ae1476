"""Protobuf messages as columns."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.source.registered.protobuf_columns import message_column
from headrace.registered.protobuf import Messages
from headrace.registered.schema import SchemaText
from headrace.schemas.definition import SchemaType

TEXT = """
syntax = "proto3";
import "google/protobuf/any.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message All {
  enum Kind { NONE = 0; ONE = 1; }
  uint32 u32 = 1; uint64 u64 = 2; sint64 s64 = 3; float f = 4; bytes raw = 5; Kind kind = 6;
  repeated Kind kinds = 7; map<int32, Part> parts = 8; repeated Part list = 9; Part part = 10;
  optional int32 maybe = 11; oneof choice { string a = 12; bool b = 13; }
  google.protobuf.Timestamp at = 14; google.protobuf.Duration took = 15; google.protobuf.Int64Value wrapped = 16;
  google.protobuf.Struct free = 17; All inner = 18; Empty empty = 19; repeated google.protobuf.Timestamp times = 20;
}
message Part { string name = 1; repeated int32 numbers = 2; }
message Empty {}
"""
MESSAGES = Messages(SchemaText(text=TEXT, type=SchemaType.PROTOBUF).protobuf())
ALL: Any = MESSAGES.kind("All")


def rows(*messages: Any) -> list[Any]:
    column = message_column(ALL.DESCRIPTOR)
    array = column.to_array(messages)
    array.validate(full=True)
    assert array.type == column.type
    return [None if each is None else {**each} for each in array.to_pylist()]


def test_absent_fields_are_null_if_they_may_be_absent() -> None:
    (row,) = rows(ALL())
    assert {name for name, value in row.items() if value is None} == {
        *("part", "maybe", "a", "b", "at", "took", "wrapped", "free", "inner", "empty"),
    }
    assert (row["u64"], row["raw"], row["kind"], row["kinds"], row["parts"]) == (0, b"", "NONE", [], [])


def test_fields_have_their_values() -> None:
    message = ALL(
        u32=2**32 - 1, u64=2**64 - 1, s64=-(2**63), f=0.5, raw=b"\xff", kinds=["ONE", 7], maybe=0, b=False
    )
    message.parts[3].numbers.extend([1, 2])
    message.list.add(name="x")
    message.part.SetInParent()
    message.at.FromDatetime(datetime(1, 1, 1, tzinfo=UTC))
    message.took.FromTimedelta(timedelta(microseconds=-1_500_001))
    message.wrapped.value = 0
    message.free.update({"a": [1, None]})
    message.inner.u32 = 7
    message.empty.SetInParent()
    message.times.add(seconds=1, nanos=1999)
    _, row, _ = rows(None, message, ALL())
    assert (row["u32"], row["u64"], row["s64"], row["kinds"]) == (
        2**32 - 1,
        Decimal(2**64 - 1),
        -(2**63),
        ["ONE", "7"],
    )
    assert (row["parts"], row["list"]) == (
        [(3, {"name": "", "numbers": [1, 2]})],
        [{"name": "x", "numbers": []}],
    )
    assert (row["part"], row["maybe"], row["a"], row["b"]) == ({"name": "", "numbers": []}, 0, None, False)
    assert (row["at"], row["took"]) == (datetime(1, 1, 1, tzinfo=UTC), timedelta(microseconds=-1_500_001))
    assert (row["wrapped"], json.loads(row["free"]), json.loads(row["inner"])) == (
        0,
        {"a": [1, None]},
        {"u32": 7},
    )
    assert (row["empty"], row["times"]) == ({}, [datetime(1970, 1, 1, 0, 0, 1, 1, tzinfo=UTC)])


@given(
    st.lists(
        st.none()
        | st.builds(
            lambda **fields: ALL(**fields),
            list=st.lists(
                st.builds(
                    lambda name: {"name": name}, st.text(st.characters(exclude_categories=["Cs"]), max_size=2)
                ),
                max_size=3,
            ),
            kinds=st.lists(st.integers(-1, 3), max_size=3),
            part=st.none()
            | st.builds(lambda numbers: {"numbers": numbers}, st.lists(st.integers(-5, 5), max_size=3)),
        ),
        max_size=6,
    )
)
def test_columns_have_the_values_of_each_message_between_others(messages: list[Any]) -> None:
    for message, row in zip(messages, rows(*messages), strict=True):
        assert (row is None) == (message is None)
        if message is not None:
            assert [each["name"] for each in row["list"]] == [each.name for each in message.list]
            assert len(row["kinds"]) == len(message.kinds)
            assert (row["part"] and row["part"]["numbers"]) == (
                list(message.part.numbers) if message.HasField("part") else None
            )


def test_time_that_no_column_holds_is_an_error() -> None:
    message = ALL()
    message.at.seconds = 2**62
    try:
        rows(message)
    except (OverflowError, pa.ArrowInvalid):
        return
    raise AssertionError("a time of the year 146 billion is in a column")
