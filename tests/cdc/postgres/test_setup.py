from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from headrace.cdc.errors import BadCapture
from headrace.cdc.postgres.source import PostgresSource
from headrace.testing.postgres import PostgresServer
from tests.cdc.postgres.steps import LOGICAL, Database, take_snapshot

OpenSource = Callable[..., PostgresSource]


@pytest.fixture
def limited(database: Database) -> Iterator[Callable[[], PostgresSource]]:
    """A source of a user `u_NAME` that owns nothing, with a table of somebody else."""
    user = f"u_{database.name}"
    database.run(f"CREATE ROLE {user} LOGIN", "CREATE TABLE t (id int4 PRIMARY KEY)")
    address = database.address.replace("//headrace@", f"//{user}@")
    yield lambda: PostgresSource(database.name, address)
    database.run(f"REASSIGN OWNED BY {user} TO headrace", f"DROP OWNED BY {user}", f"DROP ROLE {user}")


def test_every_missing_permission_is_named_with_the_statement_that_grants_it(
    database: Database, limited: Callable[[], PostgresSource]
) -> None:
    user, name = f"u_{database.name}", database.name
    database.run("REVOKE ALL ON SCHEMA public FROM public")
    for match, remedy in [
        ("schema public", f'GRANT USAGE ON SCHEMA "public" TO "{user}"'),
        (r"read table public\.t", f'GRANT SELECT ON "public"."t" TO "{user}"'),
        ("create a publication", f'GRANT CREATE ON DATABASE "{name}" TO "{user}"'),
        (r"publish table public\.t", f'ALTER TABLE "public"."t" OWNER TO "{user}"'),
        ("cannot connect", f'ALTER ROLE "{user}" REPLICATION'),
    ]:
        with pytest.raises(BadCapture, match=match) as raised:
            limited().check()
        assert remedy in raised.value.hint
        if "OWNER" in remedy:
            database.run(f'GRANT CREATE ON SCHEMA public TO "{user}"')
        database.run(remedy)
    assert limited().check() == ["public.t"]
    source = limited()
    assert take_snapshot(source.events(None)) == []
    source.remove()


def test_publication_of_an_owner_needs_no_permission_to_create_one(
    database: Database, limited: Callable[[], PostgresSource]
) -> None:
    user = f"u_{database.name}"
    database.run(f"GRANT SELECT ON t TO {user}", f"ALTER ROLE {user} REPLICATION")
    with pytest.raises(BadCapture) as raised:
        limited().check()
    database.run(raised.value.hint.partition("run ")[2])
    assert limited().check() == ["public.t"]


def test_tables_without_a_primary_key_are_named(database: Database, open_source: OpenSource) -> None:
    database.run(
        "CREATE TABLE a (id int4)", "CREATE TABLE b (id int4)", "CREATE TABLE c (id int4 PRIMARY KEY)"
    )
    with pytest.raises(BadCapture, match=r"tables public\.a, public\.b have no primary key.*ADD PRIMARY KEY"):
        open_source().check()
    assert open_source("public.c").check() == ["public.c"]


@pytest.mark.parametrize("identity", ["NOTHING", "USING INDEX other"])
def test_table_that_does_not_log_its_key_is_named(
    database: Database, open_source: OpenSource, identity: str
) -> None:
    database.run(
        "CREATE TABLE t (id int4 PRIMARY KEY, n int4 NOT NULL)",
        "CREATE UNIQUE INDEX other ON t (n)",
        f"ALTER TABLE t REPLICA IDENTITY {identity}",
    )
    with pytest.raises(
        BadCapture, match=r'public\.t does not log.*ALTER TABLE "public"."t" REPLICA IDENTITY DEFAULT'
    ):
        open_source().check()


def test_pattern_without_a_table_is_named(database: Database, open_source: OpenSource) -> None:
    with pytest.raises(BadCapture, match=r"no table of database .* matches public\.users"):
        open_source("public.users").check()


def test_check_changes_nothing(database: Database, open_source: OpenSource) -> None:
    database.run("CREATE TABLE t (id int4 PRIMARY KEY)")
    open_source().check()
    assert database.value("SELECT count(*) FROM pg_publication") == 0
    assert (
        database.value("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()") == 0
    )


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        (
            {"wal_level": "replica"},
            "wal_level of the server is replica.*ALTER SYSTEM SET wal_level = logical",
        ),
        ({"max_replication_slots": "0"}, "all 0 replication slots.*max_replication_slots"),
    ],
)
def test_setting_of_the_server_that_prevents_a_capture_is_named(settings: dict[str, str], match: str) -> None:
    with PostgresServer(settings=LOGICAL | settings) as server:
        address = server.create_database("shop")
        with psycopg.connect(make_conninfo(address), autocommit=True) as connection:
            connection.execute("CREATE TABLE t (id int4 PRIMARY KEY)")
        with pytest.raises(BadCapture, match=match):
            PostgresSource("shop", address).check()
