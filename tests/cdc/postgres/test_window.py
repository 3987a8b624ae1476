from __future__ import annotations

from typing import Any

import pytest

from headrace.cdc.change import UNAVAILABLE, Change, Column, Op, Table
from headrace.cdc.postgres.window import ReadRow, Window, parse_visibility

TABLE = Table(
    path=("public", "t"),
    columns=(
        Column(name="id", type="int32"),
        Column(name="a", type="string"),
        Column(name="b", type="string"),
    ),
    key=("id",),
)
LATER, SEEN = 200, 50


def window(*rows: dict[str, Any]) -> Window:
    return Window(
        watermark="w",
        table=TABLE,
        visibility=parse_visibility("90:100:95,97"),
        rows=[ReadRow(key=[str(row["id"])], row=row) for row in rows],
        is_last=False,
    )


def change(op: Op, row: dict[str, Any], table: Table = TABLE) -> Change:
    sides: dict[str, Any] = {"before": row} if op is Op.DELETE else {"after": row}
    return Change(table=table, op=op, committed_ms=0, source={}, position={}, **sides)


def rows_of(found: Window) -> list[dict[str, Any]]:
    return [read.row for read in found.rows]


ONE, TWO = {"id": 1, "a": "x", "b": "y"}, {"id": 2, "a": "x", "b": "y"}


@pytest.mark.parametrize("op", [Op.CREATE, Op.UPDATE, Op.DELETE])
def test_row_that_a_later_transaction_changed_is_not_yielded(op: Op) -> None:
    found = window(ONE, TWO)
    found.apply(change(op, ONE | {"a": "new"}), LATER)
    assert rows_of(found) == [TWO]


def test_row_that_was_read_after_its_change_is_yielded() -> None:
    found = window(ONE)
    found.apply(change(Op.UPDATE, ONE | {"a": "old"}), SEEN)
    assert rows_of(found) == [ONE]


def test_transaction_in_progress_when_rows_were_read_is_later() -> None:
    found = window(ONE, TWO)
    found.apply(change(Op.UPDATE, ONE), 95)
    found.apply(change(Op.UPDATE, TWO), 96)
    assert rows_of(found) == [TWO]


def test_change_of_another_table_does_not_matter() -> None:
    found = window(ONE)
    other = Table(path=("public", "u"), columns=TABLE.columns, key=TABLE.key)
    found.apply(change(Op.UPDATE, ONE, other), LATER)
    assert rows_of(found) == [ONE]


def test_value_that_no_change_carries_is_yielded_with_the_changed_row() -> None:
    found = window(ONE)
    found.apply(change(Op.UPDATE, {"id": 1, "a": "new", "b": UNAVAILABLE}), LATER)
    found.apply(change(Op.UPDATE, {"id": 1, "a": "newer", "b": UNAVAILABLE}), LATER)
    assert rows_of(found) == [{"id": 1, "a": "newer", "b": "y"}]
    found.apply(change(Op.UPDATE, {"id": 1, "a": "newest", "b": "z"}), LATER)
    assert rows_of(found) == []


def test_truncate_leaves_no_row() -> None:
    found = window(ONE, TWO)
    found.apply(Change(table=TABLE, op=Op.TRUNCATE, committed_ms=0, source={}, position={}), LATER)
    assert rows_of(found) == []


def test_rows_with_other_columns_have_to_be_read_again() -> None:
    found = window(ONE)
    found.apply(
        change(Op.UPDATE, {"id": 1}, Table(path=TABLE.path, columns=TABLE.columns[:1], key=("id",))), LATER
    )
    assert found.is_stale


def test_transaction_ids_of_the_stream_wrap_around() -> None:
    visibility = parse_visibility(f"{2**32 - 5}:{2**32 + 10}:{2**32 + 2}")
    assert visibility.sees(2**32 - 6)
    assert visibility.sees(9)
    assert not visibility.sees(2)
    assert not visibility.sees(10)
