"""The `Table` sink against the contract: in SQLite and in PostgreSQL, with keys and without."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import psycopg
from pyspark.sql.types import StructType

from headrace.pipeline.sinks.table import Table
from tests.contract.sink_contract import Lab, Row, SinkCase, as_python, row, sink_case

TABLE = "contract"


@sink_case("table-sqlite")
def sqlite(lab: Lab) -> SinkCase:
    path = lab.folder / "views.db"
    return SinkCase(
        sink=lambda: Table(TABLE, key="id", at=path),
        read=partial(rows_in_sqlite, path),
        rejected=row(None),  # type: ignore[arg-type]
    )


@sink_case("table-sqlite-append")
def sqlite_append(lab: Lab) -> SinkCase:
    path = lab.folder / "views.db"
    return SinkCase(sink=lambda: Table(TABLE, at=path), read=partial(rows_in_sqlite, path), is_keyed=False)


@sink_case("table-postgres")
def postgres(lab: Lab) -> SinkCase:
    address = lab.fixture("postgres").create_database(lab.name)
    return SinkCase(
        sink=lambda: Table(TABLE, key="id", at=address),
        read=partial(rows_in_postgres, address),
        rejected=row("nul", 1, "a\0b"),
    )


@sink_case("table-postgres-append")
def postgres_append(lab: Lab) -> SinkCase:
    address = lab.fixture("postgres").create_database(lab.name)
    return SinkCase(
        sink=lambda: Table(TABLE, at=address),
        read=partial(rows_in_postgres, address),
        rejected=row("nul", 1, "a\0b"),
        is_keyed=False,
    )


@sink_case("table-postgres-by-tasks")
def postgres_by_tasks(lab: Lab) -> SinkCase:
    address = lab.fixture("postgres").create_database(lab.name)
    return SinkCase(
        sink=lambda: Table(TABLE, key="id", at=address, driver_rows_max=0),
        read=partial(rows_in_postgres, address),
        rejected=row("nul", 1, "a\0b"),
    )


@sink_case("table-postgres-append-by-tasks")
def postgres_append_by_tasks(lab: Lab) -> SinkCase:
    address = lab.fixture("postgres").create_database(lab.name)
    return SinkCase(
        sink=lambda: Table(TABLE, at=address, driver_rows_max=0),
        read=partial(rows_in_postgres, address),
        rejected=row("nul", 1, "a\0b"),
        is_keyed=False,
    )


def rows_in_sqlite(path: Path, schema: StructType) -> list[Row]:
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        try:
            found = connection.execute(f"SELECT * FROM {TABLE}").fetchall()
        except sqlite3.OperationalError:
            return []
    return [{field.name: as_python(each[field.name], field.dataType) for field in schema} for each in found]


def rows_in_postgres(address: str, schema: StructType) -> list[Row]:
    with psycopg.connect(address) as connection:
        cursor = connection.cursor(row_factory=psycopg.rows.dict_row)
        if connection.execute("SELECT to_regclass('contract')").fetchone() == (None,):
            return []
        found = cursor.execute("SELECT * FROM contract").fetchall()
    return [{field.name: as_python(each[field.name], field.dataType) for field in schema} for each in found]
