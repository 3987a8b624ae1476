"""What the tests of the MySQL source share: a database to change, and ways to take events from a source."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from typing import Any

import pymysql

from headrace.cdc.change import Change, Committed, Event
from headrace.testing.mariadb import MariadbServer

WAIT_S = 60


class Database:
    def __init__(self, server: MariadbServer, name: str, *, exists: bool = False) -> None:
        self.server = server
        self.name = name
        self.address = server.address(name) if exists else server.create_database(name)
        self.connection: Any = None
        self.connect()

    def connect(self) -> None:
        """Also again: a session has the settings that the server had when it began."""
        self.connection = pymysql.connect(**self.server.login, database=self.name, autocommit=True)

    def run(self, *statements: str) -> None:
        """Each statement is a transaction of its own, unless it begins one."""
        for statement in statements:
            self.rows(statement)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())

    def value(self, query: str) -> Any:
        return self.rows(query)[0][0]

    def create_user(self, *grants: str) -> str:
        """A user with these permissions, in which DB stands for the database; returns the address."""
        user = f"{self.name}_user"
        self.run(f"CREATE USER '{user}'@'%' IDENTIFIED BY 'secret'")
        self.run(*(f"GRANT {grant.replace('DB', self.name)} TO '{user}'@'%'" for grant in grants))
        return self.server.address(self.name, user=user)

    def purge_log(self) -> None:
        """Of all files but the last. The server keeps those that a stream reads, and notices late that it has ended."""
        deadline_s = time.monotonic() + WAIT_S
        while len(files := self.rows("SHOW BINARY LOGS")) > 1:
            assert time.monotonic() < deadline_s, "the server keeps its log"
            self.run(f"PURGE BINARY LOGS TO '{files[-1][0]}'")

    def close(self) -> None:
        self.connection.close()


def take_until(events: Iterable[Event | None], is_end: Callable[[Event], bool]) -> list[Event]:
    """Events up to the one that ends it. Fails if it does not come in time."""
    deadline_s = time.monotonic() + WAIT_S
    taken: list[Event] = []
    for event in events:
        if event is not None:
            json.dumps(event.position)
            taken.append(event)
            if is_end(event):
                return taken
        if time.monotonic() > deadline_s:
            break
    raise AssertionError(f"the event has not come; the last ones are {taken[-5:]}")


def take_transaction(events: Iterable[Event | None]) -> list[Change]:
    """The changes of the next transaction. The end of one that was yielded before may come first."""
    taken: list[Change] = []

    def is_end(event: Event) -> bool:
        if isinstance(event, Change):
            taken.append(event)
        return bool(taken) and isinstance(event, Committed) and event.transaction is not None

    take_until(events, is_end)
    return taken


def take_snapshot(events: Iterable[Event | None]) -> list[Change]:
    """Up to the end of the snapshot that is read."""
    return changes_of(take_until(events, is_snapshot_end))


def is_snapshot_end(event: Event) -> bool:
    return isinstance(event, Committed) and not event.position.get("snapshot")


def changes_of(events: Iterable[Event]) -> list[Change]:
    return [event for event in events if isinstance(event, Change)]


def read_on(events: Iterable[Event | None]) -> None:
    """Until the source raises, or for as long as a test waits."""
    deadline_s = time.monotonic() + WAIT_S
    for _event in events:
        if time.monotonic() > deadline_s:
            return
