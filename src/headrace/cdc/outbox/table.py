"""The outbox table for users: the statement that creates it, and a call that adds an event to it.

An event is added in the transaction of the change that it tells of. Either both are committed, or none.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

from headrace.cdc.errors import BadCapture

_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "postgresql": (
        "id            uuid PRIMARY KEY DEFAULT gen_random_uuid()",
        "aggregatetype text NOT NULL",
        "aggregateid   text NOT NULL",
        "type          text NOT NULL",
        "payload       jsonb",
        "headers       jsonb",
    ),
    "mysql": (
        "id            char(36) CHARACTER SET ascii PRIMARY KEY",
        "aggregatetype varchar(200) NOT NULL",
        "aggregateid   varchar(200) NOT NULL",
        "type          varchar(200) NOT NULL",
        "payload       json",
        "headers       json",
    ),
    "sqlite": (
        "id            TEXT PRIMARY KEY NOT NULL",
        "aggregatetype TEXT NOT NULL",
        "aggregateid   TEXT NOT NULL",
        "type          TEXT NOT NULL",
        "payload       TEXT CHECK (typeof(payload) IN ('text', 'null'))",
        "headers       TEXT",
    ),
}


def create_statement(kind: str, table: str = "outbox") -> str:
    """`table` is written as it is, with quotes if its name needs them."""
    if kind not in _COLUMNS:
        raise BadCapture(
            f"{kind!r} is not a database with an outbox", hint=f"choose one of {', '.join(_COLUMNS)}"
        )
    columns = ",\n".join(f"    {column}" for column in _COLUMNS[kind])
    return f"CREATE TABLE {table} (\n{columns}\n);"


def add(
    connection: Any,
    *,
    aggregatetype: str,
    aggregateid: str,
    type: str,
    payload: Any,
    headers: Mapping[str, str] | None = None,
    table: str = "outbox",
) -> str:
    """Add an event in the open transaction of a DB-API connection (sqlite3, psycopg, pymysql). Returns its id.

        with connection:
            connection.execute("UPDATE orders SET state = 'paid' WHERE id = 7")
            outbox.add(connection, aggregatetype="order", aggregateid="7", type="paid", payload={"id": 7})

    A `payload` of str or bytes is stored as it is; anything else as JSON.
    """
    id = str(uuid.uuid4())
    row = {
        "id": id,
        "aggregatetype": aggregatetype,
        "aggregateid": aggregateid,
        "type": type,
        "payload": payload if payload is None or isinstance(payload, str | bytes) else json.dumps(payload),
    }
    if headers is not None:
        row["headers"] = json.dumps(headers)
    is_sqlite = connection.__class__.__module__.startswith("sqlite3")
    marks = ", ".join(["?" if is_sqlite else "%s"] * len(row))
    cursor = connection.cursor()
    try:
        cursor.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))
    finally:
        cursor.close()
    return id
