"""A real PostgreSQL: committed rows survive a kill, and the port stays the same."""

from __future__ import annotations

import psycopg

from headrace.testing import PostgresServer
from headrace.testing.requirements import require_postgres


def test_committed_rows_survive_a_kill_on_the_same_address() -> None:
    require_postgres()
    with PostgresServer(settings={"work_mem": "7MB"}) as server:
        shop = server.create_database("shop")
        with psycopg.connect(shop) as connection:
            connection.execute("CREATE TABLE items AS SELECT 42 AS n")
            assert connection.execute("SHOW work_mem").fetchone() == ("7MB",)
        server.kill()
        server.start()
        with psycopg.connect(shop) as connection:
            assert connection.execute("SELECT n FROM items").fetchone() == (42,)
