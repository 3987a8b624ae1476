from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.cdc.postgres.catalog import captured_tables
from headrace.cdc.postgres.pgoutput import Relation, RelationColumn
from headrace.cdc.postgres.session import Session
from tests.cdc.postgres.steps import Database


@pytest.fixture
def session(database: Database) -> Iterator[Session]:
    session = Session(database.address, "headrace_shop", ["public.t"])
    yield session
    session.close()


def relation(name: str, oid: int, type_oid: int) -> Relation:
    column = RelationColumn(name="id", type_oid=type_oid, type_modifier=-1, is_key=True)
    return Relation(oid=oid, schema="public", name=name, replica_identity="d", columns=(column,))


def test_type_that_was_created_later_is_known(database: Database, session: Session) -> None:
    database.run("CREATE TYPE mood AS ENUM ('sad')", "CREATE TABLE t (id mood PRIMARY KEY)")
    [table] = captured_tables(database.connection, ["public.t"])
    described = session.described(table)
    assert described.table.columns[0].semantic == "io.debezium.data.Enum"
    assert session.described_relation(relation("t", table.oid, table.columns[0].type_oid), None) == described


def test_table_that_matches_no_pattern_is_not_described(session: Session) -> None:
    assert session.described_relation(relation("other", 1, 23), None) is None
    assert session.described_relation(relation("t", 1, 23), None) is not None
