"""A real MariaDB: committed rows survive a kill, and the port stays the same."""

from __future__ import annotations

import pymysql

from headrace.testing import MariadbServer
from headrace.testing.requirements import require_mariadb


def test_committed_rows_survive_a_kill_on_the_same_address() -> None:
    require_mariadb()
    with MariadbServer(settings={"max_connections": "17"}) as server:
        address = server.create_database("shop")
        connection = pymysql.connect(**server.login, database="shop", autocommit=True)
        with connection.cursor() as cursor:
            cursor.execute("CREATE TABLE items SELECT 42 AS n")
            cursor.execute("SELECT @@max_connections, @@log_bin, @@bind_address")
            assert cursor.fetchone() == (17, 1, "127.0.0.1")
        server.kill()
        server.start()
        assert server.address("shop") == address
        again = pymysql.connect(**server.login, database="shop")
        with again.cursor() as cursor:
            cursor.execute("SELECT n FROM items")
            assert cursor.fetchone() == (42,)
        again.close()
