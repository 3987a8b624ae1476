"""Merges the staged rows of a batch into their table in PostgreSQL, inside the transaction that writes the fence.

The last row of every key is chosen as `changes.collapse` and `changes.accumulate` choose it. One statement does
it all. If the table rejects rows, or rows are deleted, the chosen rows are numbered in a temporary table first, and
each half is written separately until the rejected rows are found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import psycopg
from msgspec import Struct
from psycopg.rows import dict_row

from headrace.pipeline.errors import SinkUnavailable
from headrace.pipeline.sinks.postgres_client import is_rejection, rejected_by_halves
from headrace.pipeline.sinks.sink import RejectedRow
from headrace.pipeline.sinks.table_schema import Column, Kind
from headrace.pipeline.sinks.table_stage import (
    ATTEMPT,
    ORDER,
    RANK,
    REASON,
    StageLayout,
    is_deleted,
)
from headrace.pipeline.sinks.table_store import quoted
from headrace.pipeline.sinks.table_task import StagedPart

_CHOSEN = "headrace_chosen"
"""The temporary table of the rows to write, numbered from 0 in the column `position`."""

_POSITION, _IS_DELETED = "position", "is_deleted"

_FLOATS = (Kind.FLOAT, Kind.DOUBLE)
_TEXTS = (Kind.TEXT, Kind.JSON)


class StageMerge(Struct, frozen=True, kw_only=True):
    """The stage of one batch, and the table that it is merged into."""

    connection: psycopg.Connection
    table: str
    """Quoted."""
    keys: str
    """An empty table with the columns of the key: it rejects keys that the table could not have."""
    stage: str
    layout: StageLayout
    parts: Sequence[StagedPart]
    types: Mapping[str, str]
    """Of the columns of the table, without lengths: a cast to a length would cut a text."""
    own_type: Callable[[Column], str]
    """The type that a staged column has."""
    insert_statement: Callable[[Sequence[str], str], str]

    def run(self) -> tuple[int, list[RejectedRow]]:
        """How many rows were written or deleted, and the rejected ones."""
        self._check_complete()
        if not any(part.rows for part in self.parts):
            return 0, []
        if self._is_one_statement:
            try:
                with self.connection.transaction():
                    return self._insert_all(), []
            except psycopg.Error as error:
                if not is_rejection(error):
                    raise
        return self._write_chosen()

    @property
    def _is_one_statement(self) -> bool:
        """Whether a single INSERT writes all rows, and counts them."""
        shape = self.layout.shape
        counts_all = not shape.replaces_rows or len(shape.names) > len(shape.key)
        return counts_all and not any(part.deletes or part.marked for part in self.parts)

    def _check_complete(self) -> None:
        """PostgreSQL empties an unlogged table when it recovers from a crash."""
        counted = self._execute(
            f"SELECT {ATTEMPT}, count(*) FROM {self.stage} WHERE {self._is_valid} GROUP BY {ATTEMPT}"
        ).fetchall()
        if dict(counted) != {part.attempt: part.rows for part in self.parts if part.rows}:
            raise SinkUnavailable(
                f"staged rows of table {self.layout.shape.name} are lost",
                hint="PostgreSQL has restarted meanwhile; the job writes the same batch again",
            )

    @property
    def _is_valid(self) -> str:
        """Of the tasks whose responses arrived: others may have staged the same rows."""
        attempts = ", ".join(str(part.attempt) for part in self.parts)
        return f"{ATTEMPT} IN ({attempts})"

    def _insert_all(self) -> int:
        return self._execute(self._insert(f"({self._chosen()})")).rowcount

    def _insert(self, source: str, condition: str = "true") -> str:
        columns = self.layout.shape.columns
        values = ", ".join(self._value(column, "s") for column in columns)
        names = [column.name for column in columns]
        return self.insert_statement(names, f"SELECT {values} FROM {source} s WHERE {condition}")

    # The rows to write

    def _chosen(self) -> str:
        shape = self.layout.shape
        staged = [self.layout.staged_name(column.name) for column in self.layout.columns]
        if not shape.replaces_rows:
            more = f"{RANK}, {REASON}, false AS {_IS_DELETED}"
            return f"SELECT {', '.join(staged)}, {more} FROM {self.stage} WHERE {self._is_valid}"
        names = [self._combined(column) for column in self.layout.columns]
        # A row that deletes needs its key only.
        reason, windows = f"CASE WHEN {self._deleted} THEN NULL ELSE {REASON} END AS {REASON}", ""
        if shape.merge:
            reason = f"max({REASON}) OVER same AS {REASON}"
            windows = f" WINDOW same AS (PARTITION BY {self._keys})"
        # A task has all rows of its keys, and in one chunk each key has one row.
        is_distinct = bool(shape.merge) or any(part.chunks > 1 for part in self.parts)
        distinct = f"DISTINCT ON ({self._keys}) " if is_distinct else ""
        order = f" ORDER BY {self._keys}, {self._last_first}" if is_distinct else ""
        return (
            f"SELECT {distinct}{', '.join(names)}, {RANK}, {reason}, {self._deleted} AS {_IS_DELETED} "
            f"FROM {self.stage} WHERE {self._is_valid}{windows}{order}"
        )

    @property
    def _keys(self) -> str:
        """By bytes, whatever the collation of the database: it is faster, and no two keys are equal."""
        return ", ".join(
            self.layout.staged_name(column.name) + (' COLLATE "C"' if column.kind in _TEXTS else "")
            for column in self._key_columns
        )

    @property
    def _key_columns(self) -> list[Column]:
        return [column for column in self.layout.shape.columns if column.name in self.layout.shape.key]

    @property
    def _last_first(self) -> str:
        """The order of the rows of a key, as Arrow's sort: null, NaN, all other values."""
        terms = []
        if self.layout.order is not None and self.layout.order.kind in _FLOATS:
            terms = [f"nullif({ORDER}, 'NaN') DESC NULLS LAST", f"{ORDER} IS NOT NULL DESC"]
        elif self.layout.order is not None:
            terms = [f"{ORDER} DESC NULLS LAST"]
        if any(part.deletes for part in self.parts):
            terms.append(f"{self._deleted} ASC")
        return ", ".join([*terms, f"{RANK} DESC"])

    @property
    def _deleted(self) -> str:
        op = self.layout.op
        return "false" if op is None else is_deleted(self.layout.staged_name(op.name))

    def _combined(self, column: Column) -> str:
        """The staged value of the last row, or of all rows of the key together."""
        name = self.layout.staged_name(column.name)
        how = self.layout.shape.merge.get(column.name)
        if how is None:
            return name
        if how == "sum":
            value = f"CAST({name} AS double precision)" if column.kind in _FLOATS else name
            return f"sum({value}) OVER same AS {name}"
        if column.kind is Kind.BOOLEAN:
            return f"{'bool_and' if how == 'min' else 'bool_or'}({name}) OVER same AS {name}"
        if column.kind is Kind.BINARY:
            digits = f"{how}(encode({name}, 'hex') COLLATE \"C\") OVER same"
            return f"decode({digits}, 'hex') AS {name}"
        if column.kind in _FLOATS:
            # As Arrow: NaN only if there is nothing else.
            number = f"{how}({name}) FILTER (WHERE {name} <> 'NaN') OVER same"
            return f"coalesce({number}, {how}({name}) OVER same) AS {name}"
        collation = ' COLLATE "C"' if column.kind in _TEXTS else ""
        return f"{how}({name}{collation}) OVER same AS {name}"

    def _value(self, column: Column, alias: str) -> str:
        """The staged value as one of the table: as COPY would read its text."""
        value, there = f"{alias}.{self.layout.staged_name(column.name)}", self.types[column.name]
        if there == self.own_type(column).partition("(")[0]:
            return value
        if column.kind in _FLOATS:
            return f"CAST(CAST({value} AS text) AS {there})"
        return f"CAST({value} AS {there})" if column.kind in _TEXTS else value

    # Row by row where the table rejects some

    def _write_chosen(self) -> tuple[int, list[RejectedRow]]:
        self._execute(
            f"CREATE TEMP TABLE {_CHOSEN} ON COMMIT DROP AS "
            f"SELECT row_number() OVER () - 1 AS {_POSITION}, s.* FROM ({self._chosen()}) s"
        )
        self._execute(f"CREATE UNIQUE INDEX ON {_CHOSEN} ({_POSITION})")
        self._execute(f"ANALYZE {_CHOSEN}")
        ((count,),) = self._execute(f"SELECT count(*) FROM {_CHOSEN}").fetchall()
        marked = self._execute(
            f"SELECT {_POSITION}, {REASON} FROM {_CHOSEN} WHERE {REASON} IS NOT NULL ORDER BY {_POSITION}"
        ).fetchall()
        reasons = dict(marked)
        if any(part.deletes for part in self.parts):
            reasons |= self._rejected(count, self._delete)
        reasons |= self._rejected(count, self._put)
        return count - len(reasons), list(self._originals(reasons))

    def _rejected(self, count: int, write: Callable[[int, int], None]) -> dict[int, str]:
        found = rejected_by_halves(self.connection, self.layout.shape.name, count, write)
        return {each.position: each.reason for each in found}

    def _delete(self, begin: int, end: int) -> None:
        keys = [quoted(column.name) for column in self._key_columns]
        values = [self._value(column, "s") for column in self._key_columns]
        self._execute(f"TRUNCATE {self.keys}")  # of the half before this one
        self._execute(
            f"INSERT INTO {self.keys} ({', '.join(keys)}) SELECT {', '.join(values)} FROM {_CHOSEN} s "
            f"WHERE s.{_IS_DELETED} AND {_between(begin, end)}"
        )
        is_same = " AND ".join(f"t.{name} = s.{name}" for name in keys)
        self._execute(f"DELETE FROM {self.table} t USING {self.keys} s WHERE {is_same}")

    def _put(self, begin: int, end: int) -> None:
        self._execute(self._insert(_CHOSEN, f"NOT s.{_IS_DELETED} AND {_between(begin, end)}"))

    def _originals(self, reasons: Mapping[int, str]) -> Iterator[RejectedRow]:
        """The rejected rows as they were. A merged row stands for several, and all of them are rejected."""
        if not reasons:
            return
        is_same = f"r.{RANK} = s.{RANK}"
        if self.layout.shape.merge:
            keys = [self.layout.staged_name(column.name) for column in self._key_columns]
            is_same = " AND ".join(f"r.{name} = s.{name}" for name in keys)
        with self.connection.cursor(row_factory=dict_row) as cursor:
            cursor.execute(
                f"SELECT s.{_POSITION}, r.* FROM {_CHOSEN} s JOIN {self.stage} r ON {is_same} "
                f"WHERE r.{self._is_valid} AND s.{_POSITION} = ANY(%s) ORDER BY r.{RANK}".encode(),
                (list(reasons),),
            )
            for found in cursor:
                yield RejectedRow(row=self.layout.original(found), reason=reasons[found[_POSITION]])

    def _execute(self, statement: str) -> psycopg.Cursor[Any]:
        return self.connection.execute(statement.encode())


def _between(begin: int, end: int) -> str:
    return f"s.{REASON} IS NULL AND s.{_POSITION} >= {begin} AND s.{_POSITION} < {end}"
