"""Views in PostgreSQL, beyond the contract of all stores: grants, comments, indexes, columns, long readers."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from headrace.pipeline.fence import Fence
from headrace.testing.ports import free_port
from headrace.testing.postgres import PostgresServer
from headrace.views.definition import Definition
from headrace.views.errors import BadView, ViewUnavailable
from headrace.views.stores import postgresql
from headrace.views.stores.postgresql import PostgresViews

Fill = Callable[..., PostgresViews]


@pytest.fixture
def address(postgres: PostgresServer) -> str:
    return postgres.create_database(f"views_{uuid.uuid4().hex[:12]}")


@pytest.fixture
def database(address: str) -> Any:
    with psycopg.connect(address, autocommit=True) as connection:
        yield connection


@pytest.fixture
def role(database: psycopg.Connection) -> Any:
    name = f"reader {uuid.uuid4().hex[:8]}"
    database.execute(f'CREATE ROLE "{name}"'.encode())
    yield name
    database.execute(f'DROP OWNED BY "{name}"'.encode())
    database.execute(f'DROP ROLE "{name}"'.encode())


@pytest.fixture
def definition(address: str) -> Definition:
    return Definition(name="users", topics=("t",), key=("id",), store="postgresql", at=address)


@pytest.fixture
def fill(definition: Definition, tmp_path: Path) -> Fill:
    def write(version: int, **row: object) -> PostgresViews:
        store = PostgresViews(definition, tmp_path)
        schema = StructType().add("id", "long")
        for name in row:
            schema = schema.add(name, "string")
        writer = store.sink(version).open(f"job {version}", schema)
        batch = pa.RecordBatch.from_pylist([{"id": 1, **row}])
        writer.apply([batch], Fence(job="j", checkpoint="c", batch_id=0), lambda _rejected: None)
        writer.close()
        return store

    return write


def described(database: psycopg.Connection) -> tuple[Any, ...]:
    found = database.execute(
        "SELECT relacl::text[], obj_description(oid), reloptions, pg_get_userbyid(relowner) FROM pg_class "
        "WHERE oid = 'users'::regclass"
    ).fetchone()
    assert found is not None
    acl, *rest = found
    return (sorted(acl or ()), *rest)


@pytest.mark.parametrize(
    "columns",
    [{"city": "Rome"}, {"city": "Rome", "country": "Italy"}, {"town": "Rome"}],
    ids=["same", "more", "other"],
)
def test_grants_comment_and_options_are_kept(
    fill: Fill, database: psycopg.Connection, role: str, columns: dict[str, str]
) -> None:
    fill(1, city="Oslo").switch(1)
    database.execute(f'GRANT SELECT ON users TO "{role}" WITH GRANT OPTION'.encode())
    database.execute("GRANT SELECT ON users TO PUBLIC")
    database.execute("COMMENT ON VIEW users IS 'whose \"own\"'")
    database.execute("ALTER VIEW users SET (security_barrier = true)")
    before = described(database)
    fill(2, **columns).switch(2)
    assert described(database) == before
    database.execute(f'SET ROLE "{role}"'.encode())
    assert database.execute("SELECT * FROM users").fetchall() == [(1, *columns.values())]
    database.execute("RESET ROLE")


def test_view_of_another_owner_can_read_the_new_version(
    fill: Fill, database: psycopg.Connection, role: str
) -> None:
    fill(1, city="Oslo").switch(1)
    database.execute(f'GRANT CREATE ON SCHEMA public TO "{role}"'.encode())
    database.execute(f'ALTER VIEW users OWNER TO "{role}"'.encode())
    for version, columns in ((2, {"city": "Rome"}), (3, {"town": "Lima"})):
        fill(version, **columns).switch(version)
        assert described(database)[-1] == role
        assert database.execute("SELECT * FROM users").fetchall() == [(1, *columns.values())]


def test_indexes_of_users_are_created_on_the_new_version(fill: Fill, database: psycopg.Connection) -> None:
    fill(1, city="Oslo").switch(1)
    database.execute('CREATE UNIQUE INDEX "by ""city""" ON users__1 (lower(city), id DESC) WHERE id > 0')
    fill(2, city="Rome").switch(2)
    fill(3, city="Rome").switch(3)
    rows = database.execute(
        "SELECT indexdef FROM pg_indexes WHERE tablename = 'users__3' ORDER BY 1"
    ).fetchall()
    assert (
        'CREATE UNIQUE INDEX "by ""city""__3" ON public.users__3 USING btree (lower(city), id DESC) WHERE (id > 0)',
    ) in rows


def test_index_on_a_column_that_is_gone_stops_the_switch(fill: Fill, database: psycopg.Connection) -> None:
    store = fill(1, city="Oslo")
    store.switch(1)
    database.execute("CREATE INDEX by_city ON users__1 (city)")
    with pytest.raises(BadView, match=r'cannot have the index by_city: .*column "city" does not exist'):
        fill(2, town="Oslo").switch(2)
    assert store.served() == 1


def test_view_of_the_database_on_changed_columns_stops_the_switch(
    fill: Fill, database: psycopg.Connection
) -> None:
    store = fill(1, city="Oslo")
    store.switch(1)
    database.execute("CREATE VIEW cities AS SELECT DISTINCT city FROM users")
    fill(2, city="Rome").switch(2)
    assert database.execute("SELECT city FROM cities").fetchall() == [("Rome",)]
    with pytest.raises(BadView, match="has other columns now, and cities of the database depends on it"):
        fill(3, town="Rome").switch(3)
    assert store.served() == 2
    assert database.execute("SELECT city FROM cities").fetchall() == [("Rome",)]


def test_switch_waits_for_a_long_reader_and_other_readers_do_not(
    fill: Fill, address: str, database: psycopg.Connection
) -> None:
    store = fill(1, city="Oslo")
    store.switch(1)
    new = fill(2, city="Rome")
    failures: list[Exception] = []

    def switch() -> None:
        try:
            new.switch(2)
        except Exception as error:
            failures.append(error)

    with psycopg.connect(address) as long_reader:
        assert long_reader.execute("SELECT city FROM users").fetchall() == [("Oslo",)]
        thread = threading.Thread(target=switch)
        thread.start()
        database.execute("SET statement_timeout = '30s'")
        for _ in range(20):
            assert database.execute("SELECT city FROM users").fetchall() == [("Oslo",)]
        assert thread.is_alive()
    thread.join(60)
    assert failures == []
    assert database.execute("SELECT city FROM users").fetchall() == [("Rome",)]


def test_reader_that_does_not_end_is_named(fill: Fill, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = fill(1, city="Oslo")
    store.switch(1)
    monkeypatch.setattr(postgresql, "SWITCH_S_MAX", 0.0)
    with psycopg.connect(address, application_name="report") as long_reader:
        long_reader.execute("SELECT city FROM users")
        with pytest.raises(ViewUnavailable, match=r"process \d+ \(report, idle in transaction\)"):
            fill(2, city="Rome").switch(2)
    assert store.served() == 1


def test_name_of_a_table_is_rejected(
    definition: Definition, database: psycopg.Connection, tmp_path: Path
) -> None:
    database.execute("CREATE TABLE users (id int)")
    with pytest.raises(BadView, match="has a table or view users already"):
        PostgresViews(definition, tmp_path).check()


def test_missing_right_is_an_error_with_the_grant(
    database: psycopg.Connection, role: str, address: str, tmp_path: Path
) -> None:
    database.execute(f'ALTER ROLE "{role}" LOGIN'.encode())
    database.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    own = address.replace("headrace@", f"{role.replace(' ', '%20')}@")
    definition = Definition(name="users", topics=("t",), key=("id",), store="postgresql", at=own)
    with pytest.raises(BadView, match="may not create tables") as raised:
        PostgresViews(definition, tmp_path).check()
    assert raised.value.hint.startswith("GRANT CREATE ON SCHEMA public TO")


def test_server_that_is_away_is_unavailable_and_the_password_stays_secret(tmp_path: Path) -> None:
    at = f"postgresql://shop:secret@127.0.0.1:{free_port()}/shop"
    definition = Definition(name="users", topics=("t",), key=("id",), store="postgresql", at=at)
    with pytest.raises(ViewUnavailable, match=r"PostgreSQL at 127\.0\.0\.1") as raised:
        PostgresViews(definition, tmp_path).check()
    assert "secret" not in str(raised.value)
    with pytest.raises(BadView, match="needs an address"):
        PostgresViews(Definition(name="users", topics=("t",), key=("id",), store="postgresql"), tmp_path)


def test_value_that_the_table_rejects_does_not_hold_up_the_rest(
    fill: Fill, database: psycopg.Connection
) -> None:
    store = fill(1, city="Oslo")
    store.switch(1)
    database.execute("ALTER TABLE users__1 ADD CONSTRAINT short CHECK (length(city) < 6)")
    writer = store.sink(1).open("job 1", StructType().add("id", "long").add("city", "string"))
    batch = pa.RecordBatch.from_pylist([{"id": 2, "city": "Rome"}, {"id": 3, "city": "Trondheim"}])
    rejected: list[Any] = []
    writer.apply([batch], Fence(job="job 1", checkpoint="other", batch_id=0), rejected.extend)
    writer.close()
    (found,) = rejected
    assert found.row["id"] == 3
    assert 'violates check constraint "short"' in found.reason
    assert sorted(database.execute("SELECT id, city FROM users").fetchall()) == [(1, "Oslo"), (2, "Rome")]
