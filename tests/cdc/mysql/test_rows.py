"""Rows of an event: several in one, nulls, and rows that are not whole."""

from __future__ import annotations

import pytest

from headrace.cdc.errors import BadCapture
from headrace.cdc.mysql import tablemap as t
from headrace.cdc.mysql.binlog import Rows
from headrace.cdc.mysql.rows import RowPair, read_rows
from headrace.cdc.mysql.types import Spec
from headrace.cdc.mysql.values import Reader, reader


def number() -> Reader:
    found = reader(Spec(name="n", type="tinyint"), t.TINY, 0, bytes.decode)
    assert found is not None
    return found


def rows(op: str, content: bytes, columns: int = 2) -> list[RowPair]:
    event = Rows(1, op, columns, b"head" + content, 4)
    return list(read_rows(event, ["a", "b"], [number(), number()], "crm.notes"))


def test_event_has_several_rows() -> None:
    assert rows("c", b"\x03" + b"\x00\x01\x02" + b"\x00\x03\x04") == [
        (None, {"a": 1, "b": 2}),
        (None, {"a": 3, "b": 4}),
    ]
    assert rows("d", b"\x03" + b"\x00\x01\x02") == [({"a": 1, "b": 2}, None)]


def test_null_has_no_bytes() -> None:
    assert rows("c", b"\x03" + b"\x01\x02" + b"\x02\x03") == [
        (None, {"a": None, "b": 2}),
        (None, {"a": 3, "b": None}),
    ]


def test_update_has_the_row_before_and_after() -> None:
    assert rows("u", b"\x03\x03" + b"\x00\x01\x02" + b"\x00\x01\x09") == [
        ({"a": 1, "b": 2}, {"a": 1, "b": 9}),
    ]


@pytest.mark.parametrize(("op", "content"), [("c", b"\x01\x00\x01"), ("u", b"\x03\x01\x00\x01\x02\x00\x01")])
def test_row_without_all_its_columns_is_rejected(op: str, content: bytes) -> None:
    with pytest.raises(BadCapture, match=r"crm\.notes has not all columns") as rejected:
        rows(op, content)
    assert "binlog_row_image = FULL" in rejected.value.hint


def test_row_with_other_columns_is_rejected() -> None:
    with pytest.raises(BadCapture, match="not all columns"):
        rows("c", b"\x07\x00\x01\x02\x03", columns=3)
