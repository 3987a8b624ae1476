"""What the tests of the PostgreSQL source share: a database to change, and ways to take events from a source."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import sql

from headrace.cdc.change import Change, Committed, Event, Op, Position

LOGICAL = {
    "wal_level": "logical",
    "fsync": "off",
    "max_replication_slots": "20",
    "max_wal_senders": "20",
}
WAIT_S = 20


class Database:
    def __init__(self, *, name: str, address: str, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        self.name = name
        self.address = address
        self.connection = connection

    def run(self, *statements: str) -> None:
        """Each statement is a transaction of its own."""
        for statement in statements:
            self.connection.execute(sql.SQL(statement))

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql.SQL(query)).fetchall()

    def value(self, query: str) -> Any:
        return self.rows(query)[0][0]

    def drop_slots(self) -> None:
        """Also those that a source which was just closed still holds."""
        deadline = time.monotonic() + WAIT_S
        query = "SELECT slot_name FROM pg_replication_slots WHERE database = current_database()"
        while (slots := self.rows(query)) and time.monotonic() < deadline:
            for (slot,) in slots:
                self.run(
                    "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots"
                    f" WHERE slot_name = '{slot}' AND active_pid IS NOT NULL"
                )
                with suppress(psycopg.errors.ObjectInUse):
                    self.run(f"SELECT pg_drop_replication_slot('{slot}')")


def take_until(events: Iterable[Event | None], is_end: Callable[[Event], bool]) -> list[Event]:
    """Events up to the one that ends it. Fails if it does not come in time."""
    deadline = time.monotonic() + WAIT_S
    taken: list[Event] = []
    for event in events:
        if event is not None:
            json.dumps(event.position)
            taken.append(event)
            if is_end(event):
                return taken
        if time.monotonic() > deadline:
            break
    raise AssertionError(f"the event has not come; the last ones are {taken[-5:]}")


def lsn_of(position: Position | None) -> int:
    assert position is not None
    lsn: int = position["lsn"]
    return lsn


def end_of(events: Iterable[Event]) -> Committed:
    """The last of the events, which is the end of a transaction."""
    last = list(events)[-1]
    assert isinstance(last, Committed)
    return last


def take_changes(events: Iterable[Event | None], count: int) -> list[Change]:
    """So many changes, and everything between them."""
    left = iter(range(count - 1, -1, -1))
    taken = take_until(events, lambda event: isinstance(event, Change) and next(left) == 0)
    return changes_of(taken)


def take_transaction(events: Iterable[Event | None]) -> list[Event]:
    return take_until(events, lambda event: isinstance(event, Committed) and event.transaction is not None)


def take_snapshot(events: Iterable[Event | None]) -> list[Change]:
    return changes_of(take_until(events, lambda event: isinstance(event, Committed)))


def changes_of(events: Iterable[Event]) -> list[Change]:
    return [event for event in events if isinstance(event, Change)]


def state_of(changes: Iterable[Change]) -> dict[tuple[Any, ...], Any]:
    """The last row of each key, which is the table."""
    state: dict[tuple[Any, ...], Any] = {}
    for change in changes:
        if change.op is Op.TRUNCATE:
            state = {key: row for key, row in state.items() if key[0] != change.table.name}
            continue
        row = change.before if change.op is Op.DELETE else change.after
        assert row is not None
        key = (change.table.name, *(row[name] for name in change.table.key))
        if change.op is Op.DELETE:
            state.pop(key, None)
        else:
            state[key] = change.after
    return state


def idle(events: Iterator[Event | None], count: int = 1) -> None:
    """The source has sent what it had to, and nothing is left to read."""
    for _ in range(count):
        for event in events:
            if event is None:
                break


def read_on(events: Iterable[Event | None], confirm: Callable[[Position], None] | None = None) -> None:
    """Until the source raises, or for as long as a test waits."""
    deadline = time.monotonic() + WAIT_S
    for event in events:
        if isinstance(event, Committed) and confirm is not None:
            confirm(event.position)
        if time.monotonic() > deadline:
            return
