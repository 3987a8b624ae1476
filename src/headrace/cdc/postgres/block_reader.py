"""Reads a table on several connections that see the same snapshot: in ranges of its key, whose blocks come in order.

A thread for each connection reads ahead, as far as its queue takes blocks. Blocks are read and converted mostly outside
of Python's lock, so the threads run at the same time.
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Generator, Iterator, Sequence
from typing import Any

import psycopg
import pyarrow as pa
from msgspec import Struct
from psycopg import pq, sql

from headrace.cdc.postgres.catalog import CatalogTable
from headrace.cdc.postgres.connection import Connection, is_readable
from headrace.cdc.postgres.json_columns import json_columns, text_columns, unescaped
from headrace.cdc.postgres.relation import Described
from headrace.cdc.postgres.snapshot import range_statement, sampled_keys
from headrace.cdc.snapshot_queue import Key

BLOCK_ROWS = 8_000
BLOCK_BYTES = 1_000_000
"""A block ends with the row that reaches one of them. Each block is one request to the broker, and some hundred calls
here: with 2,000 rows they took a third of all time."""

RANGE_ROWS = 4 * BLOCK_ROWS
"""Ranges have about so many rows. A range that waits for the ones before it is in memory."""

RANGE_BLOCKS = 2
"""So many blocks of a range may wait."""

WAIT_S = 0.1


class Block(Struct, frozen=True, kw_only=True):
    count: int
    columns: Sequence[Any]
    """values as JSON, by column"""
    keys: Sequence[Any]
    """texts of the key's columns, as COPY prints them"""

    def key(self, row: int) -> Key:
        return [None if (text := column[row].as_py()) is None else unescaped(text) for column in self.keys]


class _Stopped(Exception):
    """The reader of the blocks has ended."""


class BlockReader:
    """The blocks of one table, from entering its iteration until it is closed."""

    def __init__(self, connections: Sequence[Connection], table: CatalogTable, described: Described) -> None:
        self._connections = connections
        self._table = table
        self._described = described
        self._is_stopping = threading.Event()

    def blocks(self) -> Generator[Block, None, None]:
        """In the order of the key."""
        bounds: list[Key | None] = [None, *self._bounds(), None]
        ranges = list(itertools.pairwise(bounds))
        queues: list[queue.Queue[Block | BaseException | None]] = [
            queue.Queue(RANGE_BLOCKS) for _ in self._connections
        ]
        threads = [
            threading.Thread(
                target=self._read_ranges,
                args=(connection, ranges[number :: len(queues)], queues[number]),
                daemon=True,
            )
            for number, connection in enumerate(self._connections)
        ]
        pool = pa.default_memory_pool()
        # Arrow's own allocator keeps memory for each thread, some 50 MB in all.
        pa.set_memory_pool(pa.system_memory_pool())
        for thread in threads:
            thread.start()
        try:
            for number in range(len(ranges)):
                while (found := queues[number % len(queues)].get()) is not None:
                    if isinstance(found, BaseException):
                        raise found
                    yield found
        finally:
            self._is_stopping.set()
            for thread in threads:
                thread.join()
            pa.set_memory_pool(pool)

    def _bounds(self) -> list[Key]:
        rows = self._table.rows_total or 0
        ranges = rows // RANGE_ROWS
        if len(self._connections) == 1 or ranges < 2:
            return []
        keys = sampled_keys(self._connections[0], self._table, ranges)
        step = len(keys) / ranges
        return [keys[int(number * step)] for number in range(1, ranges)] if step >= 1 else keys

    def _read_ranges(
        self,
        connection: Connection,
        ranges: Sequence[tuple[Key | None, Key | None]],
        blocks: queue.Queue[Block | BaseException | None],
    ) -> None:
        try:
            for after, until in ranges:
                statement = range_statement(self._table, after, until)
                for text in copied(connection, statement, self._is_stopping):
                    self._put(blocks, self._block(text))
                self._put(blocks, None)
        except _Stopped:
            connection.close()  # in the middle of a COPY there is no other way to end it at once
        except BaseException as error:
            try:
                self._put(blocks, error)
            except _Stopped:
                return

    def _block(self, text: bytes) -> Block:
        texts = text_columns(text, len(self._described.names))
        return Block(
            count=len(texts[0]),
            columns=json_columns(texts, self._described),
            keys=[texts[at] for at in self._described.key_indexes],
        )

    def _put(self, blocks: queue.Queue[Any], found: Any) -> None:
        while not self._is_stopping.is_set():
            try:
                blocks.put(found, timeout=WAIT_S)
                return
            except queue.Full:
                continue
        raise _Stopped


def copied(connection: Connection, statement: sql.Composed, is_stopping: threading.Event) -> Iterator[bytes]:
    """The output of a COPY, in blocks of whole lines. psycopg's own loop takes longer for a row than all steps here."""
    libpq = connection.pgconn
    libpq.send_query(statement.as_bytes(connection))
    _wait_for_result(libpq, is_stopping)
    _result(libpq, pq.ExecStatus.COPY_OUT)
    lines: list[bytes] = []
    size = 0
    get = libpq.get_copy_data
    while True:
        count, line = get(1)
        if count > 0:
            lines.append(bytes(line))
            size += count
            if len(lines) >= BLOCK_ROWS or size >= BLOCK_BYTES:
                yield b"".join(lines)
                lines.clear()
                size = 0
        elif count == 0:
            _receive(libpq, is_stopping)
        else:
            break
    if lines:
        yield b"".join(lines)
    _wait_for_result(libpq, is_stopping)
    _result(libpq, pq.ExecStatus.COMMAND_OK)
    while libpq.get_result() is not None:
        pass


def _wait_for_result(libpq: pq.abc.PGconn, is_stopping: threading.Event) -> None:
    libpq.flush()
    while libpq.is_busy():
        _receive(libpq, is_stopping)


def _receive(libpq: pq.abc.PGconn, is_stopping: threading.Event) -> None:
    while not is_readable(libpq.socket, WAIT_S):
        if is_stopping.is_set():
            raise _Stopped
    libpq.consume_input()


def _result(libpq: pq.abc.PGconn, wanted: pq.ExecStatus) -> None:
    found = libpq.get_result()
    if found is None:
        raise psycopg.OperationalError("the server ended the statement")
    if found.status != wanted:
        while libpq.get_result() is not None:
            pass
        raise psycopg.errors.error_from_result(found, encoding="utf-8")
