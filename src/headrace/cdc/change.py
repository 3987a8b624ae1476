"""A change of a row, as every source yields it.

A position is what a source needs to continue: a mapping that JSON can hold, and that only the source reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Literal

import msgspec
from msgspec import Struct

Position = Mapping[str, Any]
Row = Mapping[str, Any]
"""Values by column, as JSON holds them in the envelope. A column whose value is unknown is `UNAVAILABLE`."""

ColumnType = Literal[
    "boolean", "int16", "int32", "int64", "float", "double", "string", "bytes", "array", "struct", "any"
]
"""The types of Kafka Connect; `any` for a value whose type may differ from row to row (SQLite)."""

UNAVAILABLE = "__debezium_unavailable_value"
"""The value of a large column that an update did not change, and that the database's log does not repeat."""


class Op(StrEnum):
    READ = "r"
    CREATE = "c"
    UPDATE = "u"
    DELETE = "d"
    TRUNCATE = "t"


class Column(Struct, frozen=True, kw_only=True):
    name: str
    type: ColumnType
    semantic: str | None = None
    """the name of the logical type, such as `io.debezium.time.Date`"""
    items: ColumnType | None = None
    """of an array"""
    optional: bool = True


class Table(Struct, frozen=True, kw_only=True):
    """A table as it was when a change was made. `path` is its name with the schemas before it: ("public", "users")."""

    path: tuple[str, ...]
    columns: tuple[Column, ...]
    key: tuple[str, ...]

    @property
    def name(self) -> str:
        return ".".join(self.path)


class Change(Struct, frozen=True, kw_only=True):
    table: Table
    op: Op
    before: Row | None = None
    after: Row | None = None
    transaction: str | None = None
    """the id of the database's transaction; None in a snapshot"""
    committed_ms: int
    """when the transaction was committed, or the row was read by the snapshot"""
    source: Position
    """where the change is in the database's log: fields of `source` in the envelope"""
    position: Position | None
    """from here a source continues with the next change; None if it can only continue after a later one"""
    whole: Row | None = None
    """`after` with values instead of `UNAVAILABLE`. They were read later, and may be newer than the change; then the
    change that made them follows. None if `after` has all values, or they cannot be read"""


class Committed(Struct, frozen=True, kw_only=True):
    """The end of a transaction, or a point of the log that no change stands at (a heartbeat)."""

    transaction: str | None = None
    committed_ms: int
    position: Position
    requested: tuple[str, ...] = ()
    """tables that `snapshot` has requested, and that this position and all later ones hold: who continues from one of
    them reads these tables, or has read them"""


class ReadRows(Struct, frozen=True, kw_only=True):
    """Rows of a snapshot that were read together. It stands for a change with `Op.READ` for each of them."""

    table: Table
    columns: Sequence[Any]
    """for each column of the table, an Arrow array of its values as JSON"""
    count: int
    committed_ms: int
    source: Position
    position_after: Callable[[int], Position]
    """from here a source continues after the row with this index"""

    @property
    def position(self) -> Position:
        return self.position_after(self.count - 1)

    def changes(self) -> Iterator[Change]:
        names = [column.name for column in self.table.columns]
        for row in range(self.count):
            values = (msgspec.json.decode(column[row].as_py()) for column in self.columns)
            yield Change(
                table=self.table,
                op=Op.READ,
                after=dict(zip(names, values, strict=True)),
                committed_ms=self.committed_ms,
                source=self.source,
                position=self.position_after(row),
            )


class RowGroup(Struct, frozen=True, kw_only=True):
    """Changes of one table and of one kind, by whole columns."""

    table: Table
    op: Op
    places: Any
    """of each of them among all changes of its block: an array of numbers that grow"""
    before: Mapping[str, Any] | None
    """for each column that is known, an Arrow array of its values as JSON"""
    after: Mapping[str, Any] | None
    source: Position
    """the fields that are the same for all of them"""


class BlockTransaction(Struct, frozen=True, kw_only=True):
    id: str
    committed_ms: int
    is_ended: bool
    """no change of it follows the block"""


class ChangedRows(Struct, frozen=True, kw_only=True):
    """A block of changes that were read together. It stands for a `Change` for each of them, and a `Committed` for each
    transaction that ends."""

    groups: Sequence[RowGroup]
    transactions: Sequence[BlockTransaction]
    """in their order; at most the last one is not ended"""
    transaction_of: Any
    """the index of the transaction of each change: an array"""
    source: Mapping[str, Any]
    """fields of `source` that are numbers, by their names: an array of one for each change"""
    committed_ms: int
    position: Position

    @property
    def count(self) -> int:
        return len(self.transaction_of)


Event = Change | Committed
BulkEvent = Event | ReadRows | ChangedRows
