"""Tables and views of PostgreSQL as its catalog describes them."""

from __future__ import annotations

import uuid

import psycopg

from headrace.testing.postgres import PostgresServer
from headrace.views.stores.postgresql_objects import dependents, relation


def test_view_is_described_and_restored_with_its_rights_and_comments(postgres: PostgresServer) -> None:
    address = postgres.create_database(f"objects_{uuid.uuid4().hex[:12]}")
    with psycopg.connect(address) as connection:
        assert relation(connection, "users") is None
        connection.execute("CREATE TABLE t (id bigint, city varchar(10))")
        connection.execute("CREATE VIEW users WITH (security_barrier = true) AS SELECT * FROM t")
        connection.execute("CREATE VIEW cities AS SELECT city FROM users")
        connection.execute("GRANT SELECT ON users TO PUBLIC")
        connection.execute("COMMENT ON VIEW users IS 'it''s'")
        connection.execute("COMMENT ON COLUMN users.city IS 'where'")
        found = relation(connection, "users")
        assert found is not None
        assert found.columns == (("id", "bigint"), ("city", "character varying(10)"))
        assert found.comment == "it's"
        assert found.options == ("security_barrier=true",)
        assert ("", "SELECT", False) in found.grants
        assert found.column_comments == (("city", "where"),)
        assert dependents(connection, "users") == ["cities"]
        assert dependents(connection, "cities") == []
        connection.execute("DROP VIEW users CASCADE")
        connection.execute(f"CREATE VIEW users{found.options_clause} AS SELECT * FROM t".encode())
        for statement in found.restoring("users"):
            connection.execute(statement.encode())
        restored = relation(connection, "users")
        assert restored is not None
        assert restored.column_comments == found.column_comments
        assert (restored.comment, restored.options, sorted(restored.grants)) == (
            found.comment,
            found.options,
            sorted(found.grants),
        )
