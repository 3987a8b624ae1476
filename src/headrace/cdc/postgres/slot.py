"""The replication slot and the publication of a capture: found, created, altered, dropped."""

from __future__ import annotations

import json
import re
import time
import zlib
from collections.abc import Sequence

import psycopg
from msgspec import Struct
from psycopg import sql

from headrace.cdc.errors import BadCapture, SourceUnavailable
from headrace.cdc.postgres.catalog import CatalogTable
from headrace.cdc.postgres.connection import Connection
from headrace.cdc.postgres.replication import lsn_number, lsn_text
from headrace.cdc.snapshot_queue import Path

NAME_BYTES_MAX = 63
"""of an identifier in PostgreSQL"""

RELEASE_S_MAX = 5.0
RELEASE_LOOK_S = 0.1

_REQUESTED = "headrace reads these tables next: "

AGAIN_HINT = "remove the capture and add it again: it begins with a new snapshot"


class Slot(Struct, frozen=True, kw_only=True):
    name: str
    database: str
    active_pid: int | None
    wal_status: str | None
    confirmed_lsn: int


def object_name(capture: str) -> str:
    """The name of the capture's slot and publication. A name that had to be changed gets a checksum, so that no two
    captures share a slot: each would discard changes that the other has not read."""
    plain = "headrace_" + re.sub(r"[^a-z0-9_]", "_", capture.lower())
    if plain == f"headrace_{capture}" and len(plain) <= NAME_BYTES_MAX:
        return plain
    suffix = f"_{zlib.crc32(capture.encode()):08x}"
    return plain[: NAME_BYTES_MAX - len(suffix)] + suffix


def find_slot(connection: Connection, name: str) -> Slot | None:
    row = connection.execute(
        "SELECT database, active_pid, wal_status, confirmed_flush_lsn::text FROM pg_replication_slots"
        " WHERE slot_name = %s",
        [name],
    ).fetchone()
    if row is None:
        return None
    database, active_pid, wal_status, confirmed = row
    return Slot(
        name=name,
        database=database or "",
        active_pid=active_pid,
        wal_status=wal_status,
        confirmed_lsn=lsn_number(confirmed) if confirmed else 0,
    )


def require_slot(connection: Connection, name: str, *, lsn: int | None = None) -> Slot:
    """The slot of a capture that continues at `lsn`. Raises `BadCapture` if changes are missing in it."""
    slot = find_slot(connection, name)
    if slot is None:
        raise BadCapture(
            f"replication slot {name} was dropped: changes since then are unknown", hint=AGAIN_HINT
        )
    if slot.wal_status == "lost":
        raise BadCapture(
            f"replication slot {name} is lost: the server has removed the log that it needs",
            hint=f"raise max_slot_wal_keep_size, then {AGAIN_HINT}",
        )
    if lsn is not None and slot.confirmed_lsn > lsn:
        raise BadCapture(
            f"replication slot {name} begins at {lsn_text(slot.confirmed_lsn)}, after the capture's position"
            f" {lsn_text(lsn)}: changes between them are discarded",
            hint=AGAIN_HINT,
        )
    return slot


def require_own_database(slot: Slot | None, database: str) -> None:
    if slot is not None and slot.database != database:
        raise BadCapture(
            f"replication slot {slot.name} belongs to database {slot.database}: names are shared by the whole server",
            hint="give the capture another name",
        )


def drop_slot(connection: Connection, name: str) -> None:
    """Succeeds if there is none. The server releases a slot some time after its connection was closed."""
    deadline_s = time.monotonic() + RELEASE_S_MAX
    while True:
        try:
            connection.execute(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s",
                [name],
            )
            return
        except psycopg.errors.UndefinedObject:
            return
        except psycopg.errors.ObjectInUse:
            if time.monotonic() > deadline_s:
                raise slot_in_use(name, find_slot(connection, name)) from None
            time.sleep(RELEASE_LOOK_S)


def slot_in_use(name: str, slot: Slot | None) -> SourceUnavailable:
    pid = slot.active_pid if slot else None
    return SourceUnavailable(
        f"replication slot {name} is in use by another process (pid {pid} on the server)",
        hint=f"stop the other runner of this capture, or SELECT pg_terminate_backend({pid})",
    )


def create_slot_command(name: str) -> str:
    """For a replication connection. The exported snapshot is valid until the next command there."""
    return f"CREATE_REPLICATION_SLOT {name} LOGICAL pgoutput EXPORT_SNAPSHOT"


def start_command(name: str, lsn: int) -> str:
    return (
        f"START_REPLICATION SLOT {name} LOGICAL {lsn_text(lsn)}"
        f" (proto_version '1', publication_names '{name}', messages 'true')"
    )


def published_tables(connection: Connection, name: str) -> set[Path] | None:
    """None if there is no publication."""
    exists = connection.execute("SELECT FROM pg_publication WHERE pubname = %s", [name]).fetchone()
    if exists is None:
        return None
    rows = connection.execute(
        "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s", [name]
    )
    return {(schema, table) for schema, table in rows}


def publish(connection: Connection, name: str, tables: Sequence[CatalogTable]) -> list[Path]:
    """Make the publication hold exactly these tables. Returns those that it did not hold before."""
    published = published_tables(connection, name)
    wanted = {table.path for table in tables}
    if published == wanted:
        return []
    identifier = sql.Identifier(name)
    listed = sql.SQL(", ").join(table.reference for table in tables)
    if published is None:
        connection.execute(
            sql.SQL("CREATE PUBLICATION {} FOR TABLE {} WITH (publish_via_partition_root = true)").format(
                identifier, listed
            )
        )
    else:
        connection.execute(sql.SQL("ALTER PUBLICATION {} SET TABLE {}").format(identifier, listed))
    return sorted(wanted - (published or set()))


def request_snapshot(connection: Connection, name: str, tables: Sequence[Path]) -> None:
    """Keep the request in the database until a position holds it: the process may end before one is stored."""
    note = _REQUESTED + json.dumps(tables) if tables else None
    connection.execute(
        sql.SQL("COMMENT ON PUBLICATION {} IS {}").format(sql.Identifier(name), sql.Literal(note))
    )


def requested_snapshot(connection: Connection, name: str) -> list[Path]:
    row = connection.execute(
        "SELECT obj_description(oid, 'pg_publication') FROM pg_publication WHERE pubname = %s", [name]
    ).fetchone()
    note = row[0] if row else None
    if note is None or not note.startswith(_REQUESTED):
        return []
    return [(schema, table) for schema, table in json.loads(note.removeprefix(_REQUESTED))]


def drop_publication(connection: Connection, name: str) -> None:
    connection.execute(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(sql.Identifier(name)))
