"""How rows become documents and rows again, and the file with the layout of the columns."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.pipeline.errors import BadSink
from headrace.pipeline.sinks.search_layout import (
    KEY_FIELD,
    LAYOUT_FILE,
    ROW_FIELD,
    Column,
    FieldKind,
    Layout,
    document_fields,
    key_text,
    layout_of,
    read_layout,
    row_of_document,
    tantivy_schema,
    write_layout,
)

AT = datetime(2026, 11, 15, 12, 30, 1, 5, tzinfo=UTC)
VALUES: list[tuple[pyarrow.DataType, Any, FieldKind]] = [
    (pyarrow.string(), "words", FieldKind.TEXT),
    (pyarrow.int32(), 7, FieldKind.INTEGER),
    (pyarrow.duration("us"), timedelta(seconds=1.5), FieldKind.INTEGER),
    (pyarrow.float64(), 1.5, FieldKind.FLOAT),
    (pyarrow.decimal128(10, 2), Decimal("9.25"), FieldKind.FLOAT),
    (pyarrow.bool_(), True, FieldKind.BOOLEAN),
    (pyarrow.timestamp("us", "UTC"), AT, FieldKind.DATE),
    (pyarrow.timestamp("us"), AT.replace(tzinfo=None), FieldKind.DATE),
    (pyarrow.date32(), date(2026, 11, 15), FieldKind.DATE),
    (pyarrow.binary(), b"\x00\xff", FieldKind.BYTES),
    (pyarrow.struct({"city": pyarrow.string()}), {"city": "Rome"}, FieldKind.JSON),
]


def layout(
    *fields: tuple[str, pyarrow.DataType], key: tuple[str, ...] = (), exact: tuple[str, ...] = ()
) -> Layout:
    return layout_of(pyarrow.schema(list(fields)), key=key, exact=exact)


@pytest.mark.parametrize(("type", "value", "kind"), VALUES, ids=str)
def test_row_survives_its_document(type: pyarrow.DataType, value: Any, kind: FieldKind) -> None:
    columns = layout(("one", type), ("many", pyarrow.list_(type)), ("none", type))
    assert [(each.kind, each.is_many) for each in columns.columns] == [
        (kind, False),
        (kind, True),
        (kind, False),
    ]
    row = {"one": value, "many": [value, None], "none": None}
    fields = document_fields(row, columns)
    assert row_of_document({name: [each] for name, each in fields.items()}, columns) == row
    assert "none" not in fields


def test_columns_of_the_key_and_exact_ones_are_words() -> None:
    text = pyarrow.string()
    columns = layout(("id", text), ("tag", text), ("body", text), key=("id",), exact=("tag",)).columns
    assert [each.kind for each in columns] == [FieldKind.WORD, FieldKind.WORD, FieldKind.TEXT]


@pytest.mark.parametrize(
    ("name", "type", "problem"),
    [("c", pyarrow.null(), "can't be indexed"), ("-c", pyarrow.string(), "can't have a column '-c'")],
)
def test_column_that_an_index_lacks_is_rejected(name: str, type: pyarrow.DataType, problem: str) -> None:
    with pytest.raises(BadSink, match=problem):
        tantivy_schema(layout((name, type)))


KEYS = st.tuples(st.none() | st.text(), st.none() | st.text() | st.integers())


@given(KEYS, KEYS)
def test_key_has_a_text_that_no_other_key_has(one: tuple[Any, Any], other: tuple[Any, Any]) -> None:
    texts = [key_text(dict(zip("ab", key, strict=True)), ("a", "b")) for key in (one, other)]
    assert (texts[0] == texts[1]) is (one == other)


def test_key_is_the_same_in_every_time_zone() -> None:
    elsewhere = AT.astimezone(timezone(timedelta(hours=5)))
    assert key_text({"at": AT}, ("at",)) == key_text({"at": elsewhere}, ("at",))


def test_document_has_the_row_and_its_key() -> None:
    fields = document_fields({"id": 1}, layout(("id", pyarrow.int64()), key=("id",)))
    assert fields == {"id": 1, ROW_FIELD: b"[1]", KEY_FIELD: "[1]"}


def test_layout_survives_its_file(tmp_path: Path) -> None:
    columns = layout(("id", pyarrow.int64()), ("tags", pyarrow.list_(pyarrow.date32())), key=("id",))
    write_layout(tmp_path / "index", columns)
    assert read_layout(tmp_path / "index") == columns
    assert [each.name for each in (tmp_path / "index").iterdir()] == [LAYOUT_FILE]
    assert json.loads((tmp_path / "index" / LAYOUT_FILE).read_text()) == {
        "key": ["id"],
        "columns": [
            {"name": "id", "kind": "integer", "many": False, "type": "", "counted": False},
            {"name": "tags", "kind": "date", "many": True, "type": "date", "counted": False},
        ],
    }


def test_missing_layout_is_none_and_a_damaged_one_an_error(tmp_path: Path) -> None:
    assert read_layout(tmp_path) is None
    for damaged in ("", "{", "{}", '{"key": 7, "columns": []}'):
        (tmp_path / LAYOUT_FILE).write_text(damaged)
        with pytest.raises(BadSink, match="is damaged"):
            read_layout(tmp_path)


def test_queries_search_the_text_columns_by_default() -> None:
    kinds = (FieldKind.TEXT, FieldKind.INTEGER, FieldKind.WORD)
    columns = Layout(columns=tuple(Column(name=kind.value, kind=kind) for kind in kinds))
    assert columns.text_columns == ["text", "word"]
