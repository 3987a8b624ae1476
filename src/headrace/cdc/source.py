"""The contract between a database and the runner.

A source yields what happened, in commit order, from a position on. It knows nothing of topics and brokers. Every
implementation passes `tests/contract/test_change_sources.py`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

from headrace.cdc.change import BulkEvent, Event, Position


class SnapshotProgress(Struct, frozen=True, kw_only=True):
    """How far the snapshot of a table is. `rows_total` is the database's estimate."""

    table: str
    rows_read: int
    rows_total: int | None = None
    is_done: bool = False


class ChangeSource(Protocol):
    """One capture's connection to its database. Used by one thread at a time.

    `SourceUnavailable` means that the same call may succeed later; `BadCapture` that a person has to act first.
    """

    def check(self) -> list[str]:
        """The names of the captured tables. Raises `BadCapture` for what would prevent the capture: permissions,
        settings of the server, a table without a primary key. Changes nothing in the database."""
        ...

    def events(self, position: Position | None, *, once: bool = False) -> Generator[Event | None, None, None]:
        """Everything after the position. None means that there is nothing new at the moment.

        With `once` it ends when everything that was committed before the call was yielded; otherwise it has no end.

        Without a position, the source creates what it needs in the database, and yields a consistent snapshot of all
        tables first. The position of a snapshot's row continues the snapshot: a row that was yielded before it does
        not have to be read again. Tables that were added since are read as with `snapshot`.
        """
        ...

    def confirm(self, position: Position) -> None:
        """The log has everything up to this position: the database may discard it."""
        ...

    def snapshot(self, tables: Sequence[str]) -> None:
        """Read these tables again, while `events` goes on: their rows follow as `Op.READ`, in between the changes.

        Before `events`, it is a request to its next call. A position does not hold a request immediately, because
        events are in flight. A `Committed` has the tables in `requested` as soon as its position holds them. If no such
        position was stored, the runner requests the tables again after a restart.
        """
        ...

    def progress(self) -> list[SnapshotProgress]:
        """Of the snapshots that run, and of those that have ended since `events` was called."""
        ...

    def lag_bytes(self) -> int | None:
        """How much of the database's log is not confirmed; None if the database cannot tell."""
        ...

    def remove(self) -> None:
        """Remove what the source created in the database. Succeeds if it is gone already."""
        ...

    def close(self) -> None:
        """Close the connection. The generator of `events` is closed before."""
        ...


@runtime_checkable
class BulkSource(ChangeSource, Protocol):
    """A source that reads rows in blocks, because single rows would be slow."""

    def bulk_events(
        self, position: Position | None, *, once: bool = False
    ) -> Generator[BulkEvent | None, None, None]:
        """The same as `events`, with `ReadRows` for rows of a snapshot, and `ChangedRows` for changes of a backlog."""
        ...
