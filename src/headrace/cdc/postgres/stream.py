"""Messages of pgoutput to changes, in commit order, each with the position after it. No I/O.

A position of the stream is `{"lsn": L}`: everything before L has been yielded. In the middle of a transaction it is
`{"lsn": L, "commit": C, "done": N}`: of the transaction that commits at C, N changes have been yielded too. PostgreSQL
sends a transaction that was not confirmed again as a whole, and always in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from headrace.cdc.change import Change, Committed, Op, Position
from headrace.cdc.postgres.pgoutput import (
    UNCHANGED,
    Begin,
    Commit,
    Delete,
    Insert,
    Message,
    Relation,
    Truncate,
    Update,
    Values,
)
from headrace.cdc.postgres.relation import Described
from headrace.cdc.postgres.replication import POSTGRES_EPOCH_US

Describe = Callable[[Relation, Described | None], Described | None]
"""The table of a Relation message; None if it is not captured."""


class Incomplete(Struct, frozen=True, kw_only=True):
    """A change whose row misses large values, because an update did not change them."""

    change: Change
    relation: int
    described: Described
    values: Values
    """of the row; those that are missing are `UNCHANGED`"""
    xid: int


class Stream:
    """Where the stream is: the transaction, and how much of it has been yielded."""

    def __init__(self, position: Position, describe: Describe) -> None:
        self.lsn: int = position["lsn"]
        self.xid: int | None = None
        """of the transaction whose changes arrive; None between transactions"""
        self.snapshot: Mapping[str, Any] | None = position.get("snapshot")
        """the part of the position that the snapshot owns"""
        self._describe = describe
        self._tables: dict[int, Described | None] = {}
        self._commit_lsn: int = position.get("commit", 0)
        self._skip: int = position.get("done", 0)
        self._skip_commit_lsn = self._commit_lsn
        self._done = 0
        self._committed_ms = 0
        self._transaction = ""

    @property
    def is_between_transactions(self) -> bool:
        return self.xid is None and not self._skip

    @property
    def is_skipping(self) -> bool:
        """Some of the next changes have been yielded before."""
        return self._skip > 0

    @property
    def transaction(self) -> tuple[int, int] | None:
        """The id of the transaction whose changes arrive, and when it was committed."""
        return None if self.xid is None else (self.xid, self._committed_ms)

    def knows(self, relation: int) -> bool:
        return relation in self._tables

    def table(self, relation: int) -> Described | None:
        """None if it is not captured."""
        return self._tables[relation]

    def passed(self, bounds: Sequence[Message], changes: int) -> None:
        """The changes of a block of messages were yielded by columns. `bounds` are its last begin and its last commit,
        in their order; `changes` those of its last transaction."""
        for message in bounds:
            if isinstance(message, Begin):
                self._begin(message)
            elif isinstance(message, Commit):
                self.commit(message)
        self._done += changes

    def position(self) -> dict[str, Any]:
        position: dict[str, Any] = {"lsn": self.lsn}
        if self.xid is not None or self._skip:
            position["commit"] = self._commit_lsn
            position["done"] = self._done if self.xid is not None else self._skip
        if self.snapshot is not None:
            position["snapshot"] = self.snapshot
        return position

    def advance(self, lsn: int) -> None:
        """Nothing that is captured was committed before `lsn`."""
        assert self.is_between_transactions
        self.lsn = max(self.lsn, lsn)

    def apply(self, lsn: int, message: Message) -> Sequence[Change | Incomplete]:
        """The changes of the message. `Commit` is the caller's: see `commit`."""
        kind = type(message)
        if kind is Insert:
            return self._insert(lsn, message)  # type: ignore[arg-type]  # mypy does not narrow by type()
        if kind is Update:
            return self._update(lsn, message)  # type: ignore[arg-type]
        if kind is Delete:
            return self._delete(lsn, message)  # type: ignore[arg-type]
        if isinstance(message, Begin):
            self._begin(message)
        elif isinstance(message, Relation):
            self._tables[message.oid] = self._describe(message, self._tables.get(message.oid))
        elif isinstance(message, Truncate):
            return self._truncate(lsn, message)
        return ()

    def _begin(self, begin: Begin) -> None:
        if self._skip and begin.commit_lsn != self._skip_commit_lsn:
            # The transaction that was in progress is the first one to be sent again, or does not exist any more.
            self._skip = 0
        self.xid = begin.xid
        self._transaction = str(begin.xid)
        self._commit_lsn = begin.commit_lsn
        self._done = 0
        self._committed_ms = (begin.committed_us + POSTGRES_EPOCH_US) // 1_000

    def commit(self, commit: Commit) -> Committed:
        """The end of the transaction. `position` is behind it from now on."""
        xid = self.xid
        self.lsn = commit.end_lsn
        self.xid = None
        self._skip = 0
        return Committed(
            transaction=None if xid is None else str(xid),
            committed_ms=self._committed_ms,
            position=self.position(),
        )

    def _insert(self, lsn: int, insert: Insert) -> Sequence[Change]:
        described = self._tables[insert.relation]
        if described is None:
            return ()
        return self._change(lsn, described, Op.CREATE, None, described.row(insert.new))

    def _update(self, lsn: int, update: Update) -> Sequence[Change | Incomplete]:
        described = self._tables[update.relation]
        if described is None:
            return ()
        old, new = update.old, update.new
        if old is not None:
            new = described.filled(new, old, update.is_old_whole)
        changes = self._update_changes(lsn, described, update, new)
        if not changes or UNCHANGED not in new:
            return changes
        assert self.xid is not None
        *before, last = changes
        incomplete = Incomplete(
            change=last, relation=update.relation, described=described, values=new, xid=self.xid
        )
        return (*before, incomplete)

    def _update_changes(
        self, lsn: int, described: Described, update: Update, new: Values
    ) -> Sequence[Change]:
        old = update.old
        if old is None:
            return self._change(lsn, described, Op.UPDATE, None, described.row(new))
        before = described.row(old) if update.is_old_whole else None
        after = described.row(new)
        if not described.is_key_changed(old, new):
            return self._change(lsn, described, Op.UPDATE, before, after)
        if before is None:
            before = described.key_row(old)
        return (
            *self._change(lsn, described, Op.DELETE, before, None),
            *self._change(lsn, described, Op.CREATE, None, after),
        )

    def _delete(self, lsn: int, delete: Delete) -> Sequence[Change]:
        described = self._tables[delete.relation]
        if described is None:
            return ()
        before = described.row(delete.old) if delete.is_old_whole else described.key_row(delete.old)
        return self._change(lsn, described, Op.DELETE, before, None)

    def _truncate(self, lsn: int, truncate: Truncate) -> Sequence[Change]:
        changes: list[Change] = []
        for oid in truncate.relations:
            described = self._tables[oid]
            if described is not None:
                changes += self._change(lsn, described, Op.TRUNCATE, None, None)
        return changes

    def _change(
        self,
        lsn: int,
        described: Described,
        op: Op,
        before: dict[str, Any] | None,
        after: dict[str, Any] | None,
    ) -> Sequence[Change]:
        """One change, or none if it has been yielded before."""
        self._done += 1
        if self._done <= self._skip:
            return ()
        position: dict[str, Any] = {"lsn": self.lsn, "commit": self._commit_lsn, "done": self._done}
        if self.snapshot is not None:
            position["snapshot"] = self.snapshot
        change = Change(
            table=described.table,
            op=op,
            before=before,
            after=after,
            transaction=self._transaction,
            committed_ms=self._committed_ms,
            source={**described.source, "txId": self.xid, "lsn": lsn},
            position=position,
        )
        return (change,)
