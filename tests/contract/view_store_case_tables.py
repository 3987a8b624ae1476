"""Views in SQLite and in PostgreSQL."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from tests.contract.view_store_contract import Lab, ViewStoreCase, view_store_case


@view_store_case("sqlite")
def sqlite(lab: Lab) -> ViewStoreCase:
    def rows_by_name(name: str) -> list[dict[str, Any]]:
        with closing(sqlite3.connect(lab.folder / "views.db")) as database:
            database.row_factory = sqlite3.Row
            return [dict(row) for row in database.execute(f'SELECT * FROM "{name}"')]

    return ViewStoreCase(kind="sqlite", rows_by_name=rows_by_name)


@view_store_case("postgresql")
def postgresql(lab: Lab) -> ViewStoreCase:
    address = lab.fixture("postgres").create_database(lab.name)

    def rows_by_name(name: str) -> list[dict[str, Any]]:
        with psycopg.connect(address, row_factory=dict_row) as connection:
            return connection.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(name))).fetchall()

    return ViewStoreCase(kind="postgresql", at=address, rows_by_name=rows_by_name)
