"""What a capture needs of the database, checked before anything is created. Each problem names its remedy."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.cdc.errors import BadCapture
from headrace.cdc.postgres.catalog import CatalogTable, captured_tables
from headrace.cdc.postgres.connection import Connection, quoted
from headrace.cdc.postgres.slot import Slot, find_slot, published_tables, require_own_database

SERVER_VERSION_MIN = 140_000
"""pgoutput sends logical messages from version 14 on; watermarks are such messages"""


def checked_tables(connection: Connection, name: str, patterns: Sequence[str]) -> list[CatalogTable]:
    """The captured tables. Raises `BadCapture` for what would prevent the capture; changes nothing."""
    database, user = _server(connection)
    tables = captured_tables(connection, patterns)
    if not tables:
        raise BadCapture(
            f"no table of database {database} matches {', '.join(patterns)}",
            hint="patterns match schema.table, such as public.* or public.users",
        )
    _keys(tables)
    _grants(tables, user)
    _publication(connection, name, tables, database, user)
    slot = find_slot(connection, name)
    require_own_database(slot, database)
    _free_slot(connection, slot)
    return tables


def is_capturable(table: CatalogTable) -> bool:
    """Whether a table that was created while the stream runs can be added to it. If not, the next start rejects it."""
    has_identity = table.replica_identity == "f" or table.has_key_identity
    return (
        bool(table.key) and has_identity and table.is_readable and table.is_schema_usable and table.is_owned
    )


def _server(connection: Connection) -> tuple[str, str]:
    row = connection.execute(
        "SELECT current_setting('server_version_num')::int, current_setting('server_version'),"
        " current_setting('wal_level'), pg_is_in_recovery(), current_database(), current_user"
    ).fetchone()
    assert row is not None
    number, version, wal_level, is_standby, database, user = row
    if number < SERVER_VERSION_MIN:
        raise BadCapture(
            f"PostgreSQL {version} is older than the supported version 14", hint="upgrade the server"
        )
    if is_standby:
        raise BadCapture(
            "the server is a standby, which accepts no watermarks",
            hint="use the address of the primary server",
        )
    if wal_level != "logical":
        raise BadCapture(
            f"wal_level of the server is {wal_level}; change capture needs logical",
            hint="ALTER SYSTEM SET wal_level = logical, then restart the server",
        )
    return database, user


def _keys(tables: Sequence[CatalogTable]) -> None:
    keyless = [table for table in tables if not table.key]
    if keyless:
        raise BadCapture(
            f"{_list(keyless)} {'has' if len(keyless) == 1 else 'have'} no primary key",
            hint=f"ALTER TABLE {keyless[0].quoted} ADD PRIMARY KEY (…), or choose other tables",
        )
    for table in tables:
        if table.replica_identity != "f" and not table.has_key_identity:
            raise BadCapture(
                f"table {table.label} does not log its primary key for updates and deletes (replica identity)",
                hint=f"ALTER TABLE {table.quoted} REPLICA IDENTITY DEFAULT",
            )


def _grants(tables: Sequence[CatalogTable], user: str) -> None:
    for table in tables:
        if not table.is_schema_usable:
            raise BadCapture(
                f"user {user} may not use schema {table.schema}",
                hint=f"GRANT USAGE ON SCHEMA {quoted(table.schema)} TO {quoted(user)}",
            )
    unreadable = [table for table in tables if not table.is_readable]
    if unreadable:
        names = ", ".join(table.quoted for table in unreadable)
        raise BadCapture(
            f"user {user} may not read {_list(unreadable)}", hint=f"GRANT SELECT ON {names} TO {quoted(user)}"
        )


def _publication(
    connection: Connection, name: str, tables: Sequence[CatalogTable], database: str, user: str
) -> None:
    published = published_tables(connection, name)
    if published == {table.path for table in tables}:
        return
    by_hand = (
        f"CREATE PUBLICATION {name} FOR TABLE {', '.join(table.quoted for table in tables)}"
        " WITH (publish_via_partition_root = true)"
    )
    row = connection.execute(
        "SELECT has_database_privilege(current_database(), 'CREATE'),"
        " (SELECT pg_has_role(pubowner, 'USAGE') FROM pg_publication WHERE pubname = %s)",
        [name],
    ).fetchone()
    assert row is not None
    may_create, owns_publication = row
    if published is None and not may_create:
        raise BadCapture(
            f"user {user} may not create a publication in database {database}",
            hint=f"GRANT CREATE ON DATABASE {quoted(database)} TO {quoted(user)}, or let an owner run {by_hand}",
        )
    if published is not None and not owns_publication:
        raise BadCapture(
            f"user {user} may not change publication {name}, whose tables are not those of the capture",
            hint=f"ALTER PUBLICATION {name} OWNER TO {quoted(user)}",
        )
    foreign = [table for table in tables if not table.is_owned and table.path not in (published or ())]
    if foreign:
        raise BadCapture(
            f"user {user} may not publish {_list(foreign)}, which it does not own",
            hint=f"ALTER TABLE {foreign[0].quoted} OWNER TO {quoted(user)}, or let an owner run {by_hand}",
        )


def _free_slot(connection: Connection, slot: Slot | None) -> None:
    if slot is not None:
        return
    row = connection.execute(
        "SELECT count(*), current_setting('max_replication_slots')::int FROM pg_replication_slots"
    ).fetchone()
    assert row is not None
    used, slots_max = row
    if used >= slots_max:
        raise BadCapture(
            f"all {slots_max} replication slots of the server are in use",
            hint="raise max_replication_slots and restart the server, or drop a slot of pg_replication_slots",
        )


def _list(tables: Sequence[CatalogTable]) -> str:
    names = ", ".join(table.label for table in tables)
    return f"table {names}" if len(tables) == 1 else f"tables {names}"
