"""The initial snapshot: the slot is created, and all tables are read as they were at that point of the log."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from typing import Any

import psycopg
from psycopg import sql

from headrace.cdc.change import Committed, Event, ReadRows
from headrace.cdc.errors import BadCapture
from headrace.cdc.postgres.block_reader import Block, BlockReader
from headrace.cdc.postgres.catalog import CatalogTable
from headrace.cdc.postgres.connection import Connection
from headrace.cdc.postgres.replication import ReplicationConnection, lsn_number
from headrace.cdc.postgres.session import Session
from headrace.cdc.postgres.slot import create_slot_command
from headrace.cdc.postgres.snapshot import open_reader
from headrace.cdc.snapshot_queue import SnapshotQueue
from headrace.clock import Clock

POLL_S = 0.1


def create_slot(replication: ReplicationConnection, name: str) -> Generator[None, None, tuple[int, str]]:
    """Where the stream begins, and the snapshot of that point. PostgreSQL waits for transactions that are open."""
    replication.send(create_slot_command(name))
    try:
        while (row := replication.result(wait_s=POLL_S)) is None:
            yield None
    except psycopg.errors.ConfigurationLimitExceeded:
        raise BadCapture(
            "all replication slots of the server are in use",
            hint="raise max_replication_slots and restart the server, or drop a slot of pg_replication_slots",
        ) from None
    _, consistent_point, snapshot, _ = row
    return lsn_number(consistent_point), snapshot


def snapshot_connection(address: str, snapshot: str, tables: Sequence[CatalogTable]) -> Connection:
    connection = open_reader(address)
    connection.execute("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(snapshot)))
    # The columns must not change before they are read.
    listed = sql.SQL(", ").join(table.reference for table in tables)
    connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(listed))
    return connection


def read_tables(
    session: Session,
    readers: Sequence[Connection],
    tables: Sequence[CatalogTable],
    queue: SnapshotQueue,
    lsn: int,
    clock: Clock,
) -> Generator[Event | ReadRows, None, None]:
    by_path = {table.path: table for table in tables}
    while (path := queue.current) is not None:
        table = by_path.get(path)
        if table is not None:
            queue.expect(table.rows_total)
            yield from _read_table(session, readers, table, queue, lsn, clock)
        queue.finish_table()
    # Before the last event: its reader may take a long time, and the tables are locked against DDL and TRUNCATE.
    for reader in readers:
        reader.execute("COMMIT")
        reader.close()
    yield Committed(committed_ms=clock.now_ms(), position={"lsn": lsn})


def _read_table(
    session: Session,
    readers: Sequence[Connection],
    table: CatalogTable,
    queue: SnapshotQueue,
    lsn: int,
    clock: Clock,
) -> Generator[ReadRows, None, None]:
    described = session.described(table)
    source = {**described.source, "lsn": lsn, "snapshot": True}
    with closing(BlockReader(readers, table, described).blocks()) as blocks:
        for block in blocks:
            before = queue.rows_read
            queue.read(block.key(block.count - 1), block.count)
            state = queue.state()

            def position_after(
                row: int, block: Block = block, before: int = before, state: Any = state
            ) -> dict[str, Any]:
                progress = {**state, "key": block.key(row), "rows": before + row + 1}
                return {"lsn": lsn, "snapshot": progress}

            yield ReadRows(
                table=described.table,
                columns=block.columns,
                count=block.count,
                committed_ms=clock.now_ms(),
                source=source,
                position_after=position_after,
            )
