from __future__ import annotations

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.views.errors import BadView
from headrace.views.query.kinds import Kind
from headrace.views.query.rows import selected
from headrace.views.query.text import parse
from headrace.views.selection import Selection
from headrace.views.stores.row_selection import equalities, kinds_of, select_from_dataset
from tests.views.query.conditions import COLUMNS, CONDITION, KEY, ORDER, ROWS, selection_text

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("city", pa.string()),
        ("users", pa.int64()),
        ("rate", pa.float64()),
        ("is_open", pa.bool_()),
        ("opened", pa.date32()),
    ]
)


@settings(max_examples=25)  # DuckDB is opened for each; tests/views/query compares it with many more
@given(rows=ROWS, condition=st.none() | CONDITION, order=ORDER, limit=st.integers(1, 15))
def test_dataset_and_python_agree_on_every_selection(
    rows: list[dict[str, object]], condition: str | None, order: list[tuple[str, str]], limit: int
) -> None:
    from datetime import date

    typed = [{**row, "opened": row["opened"] and date.fromisoformat(str(row["opened"]))} for row in rows]
    dataset = ds.dataset(pa.Table.from_pylist(typed, SCHEMA))
    selection = parse(selection_text(condition, order, limit), columns=COLUMNS, key=KEY)
    assert select_from_dataset(dataset, selection) == selected(typed, selection)


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("", {}),
        ("city = 'Oslo'", {"city": "Oslo"}),
        ("3 = users AND city = 'Oslo' AND rate > 1", {"users": 3, "city": "Oslo"}),
        ("city = 'Oslo' OR users = 3", {}),
        ("NOT city = 'Oslo'", {}),
        ("city = note", {}),
    ],
)
def test_equalities_are_those_that_every_selected_row_has(where: str, found: dict[str, object]) -> None:
    assert equalities(Selection(where=where)) == found


def test_condition_on_another_type_is_rejected() -> None:
    dataset = ds.dataset(pa.Table.from_pylist([{"id": 1}], SCHEMA))
    with pytest.raises(BadView, match="holds integer"):
        select_from_dataset(dataset, Selection(where="users = 'three'"))


def test_every_arrow_type_has_its_kind() -> None:
    schema = pa.schema(
        [
            ("a", pa.timestamp("us", "UTC")),
            ("b", pa.timestamp("us")),
            ("c", pa.list_(pa.int64())),
            ("d", pa.duration("us")),
        ]
    )
    assert list(kinds_of(schema).values()) == [Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ, Kind.JSON, Kind.OTHER]
