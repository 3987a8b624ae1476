from __future__ import annotations

import uuid
from pathlib import Path

import psycopg
import pytest

from headrace.testing.debezium import DebeziumEngine, DebeziumFailed
from headrace.testing.postgres import PostgresServer
from headrace.testing.requirements import require_java, require_postgres
from tests.cdc.conftest import committed_records
from tests.cdc.postgres.steps import LOGICAL

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def test_engine_writes_a_snapshot_and_changes_and_continues(tmp_path: Path, bootstrap: str) -> None:
    require_java()
    require_postgres()
    name = f"dbz{uuid.uuid4().hex[:8]}"
    with PostgresServer(settings=LOGICAL) as server:
        address = server.create_database(name)
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("CREATE TABLE t (id int4 PRIMARY KEY)")
            connection.execute("INSERT INTO t VALUES (1)")
            with DebeziumEngine(name, address, tmp_path, bootstrap=bootstrap) as engine:
                engine.wait_for_events(1, 120)
            connection.execute("INSERT INTO t VALUES (2)")
            with DebeziumEngine(name, address, tmp_path, bootstrap=bootstrap) as engine:
                engine.wait_for_events(1, 120)
                with pytest.raises(DebeziumFailed, match="emitted 1 of 2 events"):
                    engine.wait_for_events(2, 0.1)
    found = committed_records(bootstrap, f"{name}.public.t")
    assert [(value["op"], value["after"]) for _, value in found] == [("r", {"id": 1}), ("c", {"id": 2})]
