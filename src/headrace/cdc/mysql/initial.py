"""The initial snapshot: all tables as they were at one place of the log."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from headrace.cdc.change import Change, Committed, Event, Op, Position
from headrace.cdc.mysql.catalog import CatalogTable, Path
from headrace.cdc.mysql.connection import Connection
from headrace.cdc.mysql.described import table_of
from headrace.cdc.mysql.place import LogEnd
from headrace.cdc.mysql.snapshot import CHUNK_ROWS, ChunkRows
from headrace.cdc.snapshot_queue import SnapshotQueue
from headrace.clock import Clock


def read_tables(
    reader: Connection, tables: Sequence[CatalogTable], queue: SnapshotQueue, begun: LogEnd, clock: Clock
) -> Generator[Event, None, None]:
    """`reader` is in the transaction that has begun there."""
    by_path: dict[Path, CatalogTable] = {table.path: table for table in tables}
    position = begun_position(begun, tables)
    while (path := queue.current) is not None:
        table = by_path.get(path)
        if table is not None:
            queue.expect(table.rows_total)
            yield from _read_table(reader, table, queue, position, clock)
        queue.finish_table()
    # Before the last event: its reader may take a long time, and DDL of the tables waits for the transaction.
    reader.close()
    yield Committed(committed_ms=clock.now_ms(), position=position)


def begun_position(begun: LogEnd, tables: Sequence[CatalogTable]) -> dict[str, Any]:
    """Of a capture of these tables that has yielded nothing after this place."""
    return {
        "file": begun.place.file,
        "pos": begun.place.position,
        "gtid": begun.gtid,
        "tables": [list(table.path) for table in tables],
    }


def _read_table(
    reader: Connection,
    catalog_table: CatalogTable,
    queue: SnapshotQueue,
    position: dict[str, Any],
    clock: Clock,
) -> Generator[Event, None, None]:
    chunk = ChunkRows(catalog_table)
    table = table_of(catalog_table.path, catalog_table.columns, catalog_table.key)
    source = snapshot_source(catalog_table.path, position)
    is_complete = False
    while not is_complete:
        is_complete = True
        read_ms = clock.now_ms()
        found = reader.stream(chunk.statement(reader, queue.after, CHUNK_ROWS))
        for rows, values in enumerate(found, start=1):
            is_complete = rows < CHUNK_ROWS
            queue.read(chunk.key(values), 1)
            yield Change(
                table=table,
                op=Op.READ,
                after=chunk.row(values),
                committed_ms=read_ms,
                source=source,
                position={**position, "snapshot": queue.state()},
            )


def snapshot_source(path: Path, position: Position) -> dict[str, Any]:
    """`source` of a row that was read at a position."""
    place = {
        "server_id": 0,
        "gtid": position["gtid"] or None,
        "file": position["file"],
        "pos": position["pos"],
    }
    return {"db": path[0], "table": path[1], **place, "row": 0, "snapshot": True}
