"""What a database does for the `Table` sink: one transaction a batch, with the fence in it.

Here are the steps and their order; `table_sqlite` and `table_postgres` know how each is done.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

import pyarrow as pa
from msgspec import Struct

from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.table_schema import Column

FENCES = "headrace_fences"
"""The table, in the same database, with the fence of each job and table."""


class TableShape(Struct, frozen=True, kw_only=True):
    """What a store needs to know of its table."""

    job: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    mode: str
    merge: Mapping[str, str]

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)


class RowRefusal(Struct, frozen=True, kw_only=True):
    """A row that the database refuses: its position among the given rows, and the reason."""

    position: int
    reason: str


class TableStore(abc.ABC):
    """A connection to one table. Every step happens inside `transaction`."""

    @abc.abstractmethod
    def prepare(self) -> None:
        """Make the table and the fences if they are not there, add columns, check the rest."""

    @abc.abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """One that only this job's writers wait for. What fails within it leaves nothing behind."""

    @abc.abstractmethod
    def fence(self) -> Fence | None: ...

    @abc.abstractmethod
    def keep_fence(self, fence: Fence) -> None: ...

    @abc.abstractmethod
    def remove_fence(self) -> None: ...

    @abc.abstractmethod
    def remove_all(self) -> None: ...

    @abc.abstractmethod
    def remove(self, keys: pa.Table) -> Sequence[RowRefusal]:
        """Delete the rows of these keys, except those that are returned."""

    @abc.abstractmethod
    def put(self, rows: pa.Table) -> Sequence[RowRefusal]:
        """Insert or upsert the rows, depending on the shape, except those that are returned."""

    @abc.abstractmethod
    def close(self) -> None: ...
