"""What readers of SQLite and of PostgreSQL have in common: the same rows, the same answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headrace.kafka.position import Position
from headrace.testing import PostgresServer
from headrace.views.errors import BadView, ViewUnavailable
from headrace.views.query.paging import on_page, page_token
from headrace.views.query.text import parse
from headrace.views.reading.postgresql import PostgresReader
from headrace.views.reading.sqlite import SqliteReader
from headrace.views.reading.table import TableReader
from headrace.views.selection import Selection
from tests.views.reading.tables import DEFINITION, NULLS, ROW, TRUE_OF_ROW, write

Open = Callable[[int], TableReader]


class Tables:
    def __init__(self, at: str | Path, open_: Open) -> None:
        self.at = at
        self.open = open_


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def tables(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    if request.param == "sqlite":
        path = tmp_path_factory.mktemp("views") / "views.db"
        tables = Tables(path, lambda version: SqliteReader(path, DEFINITION, version))
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        address = server.create_database("read_views")
        tables = Tables(address, lambda version: PostgresReader(address, DEFINITION, version))
    write(tables.at)
    return tables


@pytest.fixture
def reader(tables: Tables) -> Iterator[TableReader]:
    with closing(tables.open(1)) as reader:
        yield reader


def ids(reader: TableReader, text: str) -> list[int]:
    found = reader.select(parse(text, columns=reader.columns(), key=["id"]))
    return [row["id"] for row in found]


def test_values_of_every_type_are_those_that_were_written(reader: TableReader) -> None:
    assert reader.select(Selection(order_by=(("id", False),))) == [ROW, NULLS]


def test_rows_are_found_by_values_of_every_type(reader: TableReader) -> None:
    for condition in TRUE_OF_ROW:
        assert ids(reader, f"WHERE {condition}") == [1], condition
        assert ids(reader, f"WHERE NOT ({condition}) AND id = 1") == [], condition


@pytest.mark.parametrize("column", [each for each in ROW if each not in ("tags",)])
def test_page_begins_behind_a_value_of_every_type(reader: TableReader, column: str) -> None:
    selection = parse(f"ORDER BY {column} LIMIT 1", columns=reader.columns(), key=["id"])
    first = reader.select(selection)
    assert [row["id"] for row in first] == [1]
    second = reader.select(on_page(selection, page_token(selection, first[0]), key=["id"]))
    assert [row["id"] for row in second] == [2]
    third = on_page(selection, page_token(selection, second[0]), key=["id"])
    assert reader.select(third) == []


def test_json_has_no_order(reader: TableReader) -> None:
    with pytest.raises(BadView, match="holds JSON"):
        ids(reader, "ORDER BY tags")


@pytest.mark.parametrize("condition", ["name = 5", "id = 'x'", "is_open = 1", "day = 'soon'", "id = TRUE"])
def test_comparison_with_a_value_of_another_type_is_an_error_for_users(
    reader: TableReader, condition: str
) -> None:
    with pytest.raises(BadView):
        ids(reader, f"WHERE {condition}")
    assert ids(reader, "") == [1, 2]  # the reader works on


def test_position_is_that_of_the_last_batch(tables: Tables, reader: TableReader) -> None:
    assert reader.position() == Position({"shops": {0: 100}})
    mark = reader.mark()
    assert reader.mark() == mark


def test_snapshot_does_not_see_a_batch_that_is_written_meanwhile(tables: Tables, reader: TableReader) -> None:
    with reader.snapshot():
        before = reader.mark()
        write(tables.at, batch=1, rows=({**ROW, "id": 3},))
        assert ids(reader, "") == [1, 2]
        assert reader.mark() == before
    assert reader.position() == Position({"shops": {0: 200}})
    assert ids(reader, "") == [1, 2, 3]


def test_version_that_is_not_there_is_unavailable(tables: Tables) -> None:
    with closing(tables.open(9)) as reader, pytest.raises(ViewUnavailable, match="version 9 of view shops"):
        reader.columns()


def test_reader_cannot_write(reader: TableReader) -> None:
    with pytest.raises((BadView, ViewUnavailable), match=r"read-?only"), reader._errors():
        reader._execute("DELETE FROM shops__1")
