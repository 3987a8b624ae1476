"""Tables and columns, as the catalog of a real server has them."""

from __future__ import annotations

import pytest

from headrace.cdc.mysql.catalog import captured_tables, is_captured, table_by_path
from headrace.cdc.mysql.connection import Connection
from tests.cdc.mysql.steps import Database


@pytest.mark.parametrize(
    ("path", "database", "patterns", "expected"),
    [
        (("crm", "notes"), "crm", ["*"], True),
        (("crm", "notes"), "crm", ["note?"], True),
        (("crm", "notes"), "crm", ["crm.n*"], True),
        (("crm", "notes"), "crm", ["Notes"], False),
        (("other", "notes"), "crm", ["*"], False),
        (("crm", "notes"), "", ["crm.*"], True),
        (("mysql", "user"), "", ["*"], False),
    ],
)
def test_pattern_is_that_of_a_table_or_of_its_database_and_itself(
    path: tuple[str, str], database: str, patterns: list[str], expected: bool
) -> None:
    assert is_captured(path, database, patterns) == expected


def test_table_has_its_columns_and_the_key_in_its_order(database: Database) -> None:
    database.run(
        "CREATE TABLE notes (a INT UNSIGNED, b VARCHAR(9) CHARACTER SET latin1 NOT NULL, c DECIMAL(9,3), d BIT(7),"
        " e DATETIME(3), `j``s` JSON, PRIMARY KEY (b, a))",
        "CREATE VIEW seen AS SELECT 1",
    )
    with Connection(database.address) as connection:
        (table,) = captured_tables(connection, database.name, ["*"])
        assert table_by_path(connection, table.path) == table
        assert table_by_path(connection, (database.name, "missing")) is None
    a, b, c, d, e, json = table.columns
    assert (table.key, table.engine, table.is_transactional) == (("b", "a"), "InnoDB", True)
    assert a.is_unsigned
    assert (b.charset, b.length, b.optional) == ("latin1", 9, False)
    assert (c.precision, c.scale, d.length, e.scale) == (9, 3, 7, 3)
    assert (json.name, json.is_json, b.is_json) == ("j`s", True, False)
    assert table.label == f"{database.name}.notes"
    assert table.changed_s > 1_700_000_000
