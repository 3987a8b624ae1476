"""Large values that an update did not change, read from the table again: PostgreSQL's log does not repeat them.

A change without such a value is held, and the events after it too, until the rows of all held changes are read by their
keys. Events keep their order and their positions.

A row is read after the transaction of its change is visible, so it has the value of the change or a newer one. A newer
one, or a row that is missing, comes from a later transaction, whose changes follow in the stream. What cannot be read,
because the table or its columns are others by now, stays unavailable: a capture does not fail for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any

import psycopg
from msgspec.structs import replace
from psycopg import sql

from headrace.cdc.change import Change, ChangedRows, Column, Event
from headrace.cdc.postgres.catalog import CatalogTable, table_by_oid
from headrace.cdc.postgres.connection import Connection, open_connection
from headrace.cdc.postgres.pgoutput import UNCHANGED, Value
from headrace.cdc.postgres.session import Session
from headrace.cdc.postgres.snapshot import read_window
from headrace.cdc.postgres.stream import Incomplete
from headrace.cdc.postgres.window import parse_visibility
from headrace.clock import Clock

HELD_EVENTS_MAX = 1_000
HELD_BYTES_MAX = 4_000_000
HELD_S_MAX = 0.05
"""for more changes that are read together. An idle stream is not waited for"""

KEYS_MAX = 500
"""of one statement: the server's planner takes longer for each of them"""

READ_BYTES_MAX = 4_000_000
"""of texts that are read by one statement; at least one row is read"""

LOCK_TIMEOUT_MS = 200
"""DDL locks a table for a long time. The stream needs feedback meanwhile"""

Key = tuple[Value, ...]
Texts = Mapping[int, Value]
"""of a row that was read, by the index of the column"""

_RowId = tuple[int, Key]

log = logging.getLogger("headrace.cdc")


class Reselector:
    """`wait` is called while rows cannot be read yet."""

    def __init__(self, session: Session, clock: Clock, wait: Callable[[], None]) -> None:
        self._session = session
        self._clock = clock
        self._wait = wait
        self._reader: Connection | None = None
        self._warned: set[str] = set()

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()

    def completed(
        self, events: Iterable[Event | Incomplete | ChangedRows | None]
    ) -> Iterator[Event | ChangedRows | None]:
        """The same events; changes that were incomplete are `whole`, if their rows could be read."""
        held: list[Event | Incomplete | ChangedRows] = []
        size, until_s = 0, 0.0
        for event in events:
            if not held and not isinstance(event, Incomplete):
                yield event
                continue
            if event is not None:
                if not held:
                    size, until_s = 0, self._clock.monotonic_s() + HELD_S_MAX
                held.append(event)
                size += _size(event)
                is_full = len(held) >= HELD_EVENTS_MAX or size >= HELD_BYTES_MAX
                if not is_full and self._clock.monotonic_s() < until_s:
                    continue
            yield from self._release(held)
            held = []
            if event is None:
                yield None
        yield from self._release(held)

    def _release(
        self, held: Sequence[Event | Incomplete | ChangedRows]
    ) -> Iterator[Event | ChangedRows | None]:
        incomplete = [event for event in held if isinstance(event, Incomplete)]
        while incomplete and not self._are_visible({each.xid for each in incomplete}):
            yield None
            self._wait()
        rows: dict[_RowId, Texts] = {}
        keys_max = KEYS_MAX
        at = 0
        for event in held:
            if not isinstance(event, Incomplete):
                yield event
                continue
            while _row_id(event) not in rows:
                asked = _same_table(incomplete[at:], rows, keys_max)
                read, is_cut = yield from self._read(asked)
                # The values of events that were yielded are not needed any more.
                needed = {_row_id(each) for each in incomplete[at:]}
                rows = {row: texts for row, texts in (rows | read).items() if row in needed}
                if is_cut:
                    keys_max = max(1, len(read))
                else:
                    rows |= {_row_id(each): {} for each in asked if _row_id(each) not in read}
            at += 1
            yield _completed(event, rows[_row_id(event)])

    def _are_visible(self, xids: Collection[int]) -> bool:
        """PostgreSQL writes a commit to its log before others see the transaction, and waits for standbys between."""
        row = self._connection().execute("SELECT pg_current_snapshot()::text").fetchone()
        assert row is not None
        visibility = parse_visibility(row[0])
        return all(visibility.sees(xid) for xid in xids)

    def _read(self, asked: Sequence[Incomplete]) -> Generator[None, None, tuple[dict[_RowId, Texts], bool]]:
        """The rows of these changes of one table, and whether some are left, because they are large."""
        while True:
            try:
                return self._read_now(asked)
            except psycopg.errors.LockNotAvailable:
                yield None
                self._wait()
            except psycopg.OperationalError:
                raise
            except (psycopg.Error, UnicodeDecodeError) as error:
                self._warn(asked[0].change.table.name, error)
                self.close()
                return {}, False

    def _warn(self, table: str, error: Exception) -> None:
        """Once for a table, and without the text of the error: it may have values of rows."""
        if table not in self._warned:
            self._warned.add(table)
            log.warning("large values of table %s cannot be read: %s", table, type(error).__name__)

    def _read_now(self, asked: Sequence[Incomplete]) -> tuple[dict[_RowId, Texts], bool]:
        described = asked[0].described
        reader = self._connection()
        table = table_by_oid(reader, asked[0].relation)
        if table is None or set(table.key) != set(described.table.key):
            return {}, False
        now = {column.name: column for column in self._session.described(table).table.columns}
        columns = [
            at
            for at in sorted({at for each in asked for at in _missing(each)})
            if _is_alike(described.table.columns[at], now.get(described.names[at]))
        ]
        if not columns:
            return {}, False
        keys = list(dict.fromkeys(_key(each) for each in asked))
        names = [described.names[at] for at in columns]
        statement = _statement(table, described.table.key, names, keys)
        found, is_cut = read_window(reader, statement, bytes_max=READ_BYTES_MAX)
        count = len(described.table.key)
        read: dict[_RowId, Texts] = {
            (id(described), row[:count]): dict(zip(columns, row[count:], strict=True)) for row in found
        }
        # A row may print its key in another way by now, such as 1.50 for 1.5: it is an answer, too.
        return read, is_cut and len(read) < len(keys)

    def _connection(self) -> Connection:
        if self._reader is None or self._reader.closed:
            self._reader = open_connection(self._session.address)
            self._reader.execute(sql.SQL("SET lock_timeout = {}").format(LOCK_TIMEOUT_MS))
        return self._reader


def _statement(
    table: CatalogTable, key: Sequence[str], columns: Sequence[str], keys: Sequence[Key]
) -> sql.Composed:
    """COPY prints values as the stream does. The name may be that of another table by now: its id tells."""
    wanted = sql.SQL(", ").join(
        sql.SQL("({})").format(sql.SQL(", ").join(map(sql.Literal, texts))) for texts in keys
    )
    return sql.SQL("COPY (SELECT {} FROM {} WHERE {}::regclass = {}::oid AND ({}) IN ({})) TO STDOUT").format(
        sql.SQL(", ").join(map(sql.Identifier, (*key, *columns))),
        table.reference,
        sql.Literal(table.quoted),
        sql.Literal(table.oid),
        sql.SQL(", ").join(map(sql.Identifier, key)),
        wanted,
    )


def _same_table(
    incomplete: Sequence[Incomplete], rows: Collection[_RowId], keys_max: int
) -> list[Incomplete]:
    """Changes to read together with the first one, with at most `keys_max` keys."""
    described = incomplete[0].described
    keys: set[Key] = set()
    found = []
    for each in incomplete:
        if each.described is not described or _row_id(each) in rows:
            continue
        keys.add(_key(each))
        if len(keys) > keys_max:
            break
        found.append(each)
    return found


def _key(event: Incomplete) -> Key:
    return tuple(event.values[at] for at in event.described.key_indexes)


def _row_id(event: Incomplete) -> _RowId:
    # Columns may have changed between two events of a table: each description has rows of its own.
    return id(event.described), _key(event)


def _missing(event: Incomplete) -> list[int]:
    return [at for at, text in enumerate(event.values) if text is UNCHANGED]


def _is_alike(then: Column, now: Column | None) -> bool:
    return now is not None and replace(now, optional=then.optional) == then


def _completed(event: Incomplete, texts: Texts) -> Change:
    values = list(event.values)
    for at in _missing(event):
        # A value that is missing is not null. If it is null now, the change that made it so follows.
        if (text := texts.get(at)) is not None:
            values[at] = text
    return (
        event.change if values == event.values else replace(event.change, whole=event.described.row(values))
    )


def _size(event: Event | Incomplete | ChangedRows) -> int:
    if isinstance(event, ChangedRows):
        return HELD_BYTES_MAX
    change = event.change if isinstance(event, Incomplete) else event
    if not isinstance(change, Change):
        return 0
    return _value_size(change.before or {}) + _value_size(change.after or {})


def _value_size(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(map(_value_size, value.values()))
    return sum(map(_value_size, value)) if isinstance(value, list) else 8
