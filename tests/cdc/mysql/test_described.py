"""Names and types of columns: from the log if it has them, else from the catalog if that still fits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.cdc.errors import BadCapture
from headrace.cdc.mysql import tablemap as t
from headrace.cdc.mysql.catalog import CatalogTable
from headrace.cdc.mysql.charsets import Charsets
from headrace.cdc.mysql.connection import Connection
from headrace.cdc.mysql.described import describe, is_same_type
from headrace.cdc.mysql.tablemap import MapColumn, TableDescription
from headrace.cdc.mysql.types import Spec
from tests.cdc.mysql.steps import Database

ID = Spec(name="id", type="int", optional=False)
TITLE = Spec(name="title", type="varchar", length=80, charset="utf8mb4")
KNOWN = CatalogTable(
    path=("crm", "notes"),
    engine="InnoDB",
    is_transactional=True,
    rows_total=0,
    changed_s=0,
    key=("id",),
    columns=(ID, TITLE),
)


@pytest.fixture
def charsets(database: Database) -> Iterator[Charsets]:
    with Connection(database.address) as connection:
        yield Charsets(connection)


def logged(*columns: MapColumn, key: tuple[int, ...] | None = (0,)) -> TableDescription:
    return TableDescription(database="crm", table="notes", columns=columns, key=key)


def column(kind: int, metadata: int = 0, name: str | None = None, **more: object) -> MapColumn:
    return MapColumn(type=kind, metadata=metadata, optional=True, name=name, **more)  # type: ignore[arg-type]


def test_names_in_the_log_are_those_of_the_event(charsets: Charsets) -> None:
    found = describe(logged(column(t.LONG, name="number"), column(t.TINY, name="old")), KNOWN, charsets)
    assert found is not None
    assert (found.names, found.table.key) == (("number", "old"), ("number",))


def test_dropped_column_has_the_type_of_the_log(charsets: Charsets) -> None:
    columns = [
        column(t.LONG, name="id", is_unsigned=True),
        column(t.VARCHAR, 80, name="text", collation=8),
        column(t.VARCHAR, 80, name="bytes", collation=63),
        column(t.BIT, 256, name="bits"),
        column(t.ENUM, 1, name="enum", values=(b"\xe9",), collation=8),
    ]
    found = describe(logged(*columns), None, charsets)
    assert found is not None
    assert [each.type for each in found.table.columns] == ["int64", "string", "bytes", "string", "string"]
    assert found.readers[4](b"\1", 0) == ("é", 1)


def test_catalog_is_used_without_names_if_its_types_fit(charsets: Charsets) -> None:
    found = describe(logged(column(t.LONG), column(t.VARCHAR, 80), key=None), KNOWN, charsets)
    assert found is not None
    assert (found.names, found.table.key) == (("id", "title"), ("id",))


@pytest.mark.parametrize(
    "columns",
    [
        [column(t.LONG)],
        [column(t.LONG), column(t.VARCHAR, 40)],
        [column(t.VARCHAR, 80), column(t.LONG)],
        [column(t.LONG), column(t.VARCHAR, 80), column(t.LONG)],
    ],
)
def test_catalog_of_other_types_is_rejected(charsets: Charsets, columns: list[MapColumn]) -> None:
    with pytest.raises(BadCapture, match=r"crm\.notes was altered") as rejected:
        describe(logged(*columns, key=None), KNOWN, charsets)
    assert "binlog_row_metadata = FULL" in rejected.value.hint


def test_table_without_key_or_names_is_not_described(charsets: Charsets) -> None:
    assert describe(logged(column(t.LONG, name="id"), key=()), KNOWN, charsets) is None
    assert describe(logged(column(t.LONG), key=None), None, charsets) is None


def test_format_that_cannot_be_read_is_rejected(charsets: Charsets) -> None:
    with pytest.raises(BadCapture, match=r"column z of table crm\.notes"):
        describe(logged(column(t.LONG, name="id"), column(t.VARCHAR_COMPRESSED, 9, name="z")), None, charsets)


@pytest.mark.parametrize(
    ("spec", "kind", "metadata", "expected"),
    [
        (Spec(name="c", type="decimal", precision=10, scale=3), t.NEWDECIMAL, 2563, True),
        (Spec(name="c", type="decimal", precision=10, scale=2), t.NEWDECIMAL, 2563, False),
        (Spec(name="c", type="datetime", scale=3), t.DATETIME2, 3, True),
        (Spec(name="c", type="datetime", scale=6), t.DATETIME2, 3, False),
        (Spec(name="c", type="bit", length=10), t.BIT, 258, True),
        (Spec(name="c", type="bit", length=9), t.BIT, 258, False),
        (Spec(name="c", type="polygon"), t.GEOMETRY, 4, True),
        (Spec(name="c", type="longblob"), t.BLOB, 4, True),
    ],
)
def test_type_of_the_catalog_is_compared(spec: Spec, kind: int, metadata: int, expected: bool) -> None:
    assert is_same_type(spec, column(kind, metadata)) == expected
