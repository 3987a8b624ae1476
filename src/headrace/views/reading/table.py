"""Reading a version that is a table: what SQLite and PostgreSQL have in common."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from headrace.conditions.expression import Call, Column, quoted, written
from headrace.kafka.position import Position
from headrace.views.definition import Definition, Row
from headrace.views.errors import BadView, ViewUnavailable
from headrace.views.query.kinds import Kind
from headrace.views.query.literals import literal_of
from headrace.views.query.sql import Dialect, rendered
from headrace.views.reader import Reader
from headrace.views.reading.fences import FENCES, position_in
from headrace.views.selection import Selection

QUERY_TIMEOUT_S = 30
"""Of one statement. A reader that waits longer is better told to select less; the store has other readers too."""


class TableReader(Reader):
    """The connection is opened with the first call."""

    dialect: ClassVar[Dialect]

    def __init__(self, definition: Definition, version: int) -> None:
        self._definition = definition
        self._version = version
        self._name = definition.physical(version)
        self._table = quoted(self._name)
        self._types: dict[str, str] = {}
        self._depth = 0

    # What is there

    def columns(self) -> Sequence[str]:
        return list(self.types())

    def types(self) -> Mapping[str, str]:
        """They are fixed for a version, except that the job may add columns when it starts."""
        if not self._types:
            with self._errors():
                self._types = self._read_types()
            if not self._types:
                raise self._gone()
        return self._types

    def kinds(self) -> dict[str, Kind]:
        return {name: self._kind(declared) for name, declared in self.types().items()}

    def mark(self) -> str | None:
        with self._errors():
            row = self._execute(
                f"SELECT fence FROM {FENCES} WHERE target = {self.dialect.placeholder}", (self._name,)
            ).fetchone()
        return None if row is None else str(row[0])

    def position(self) -> Position | None:
        fence = self.mark()
        return None if fence is None else position_in(fence)

    # Rows

    def get(self, key: Row) -> dict[str, Any] | None:
        names = self._definition.key
        if sorted(key) != sorted(names):
            raise BadView(
                f"{', '.join(key) or 'nothing'} is not the key of view {self._definition.name}",
                hint=f"its key is {', '.join(names)}",
            )
        if any(value is None for value in key.values()):
            return None
        is_key = Call("and", tuple(Call("=", (Column(name), literal_of(name, key[name]))) for name in names))
        found = self.select(Selection(where=written(is_key), limit=1))
        return found[0] if found else None

    def select(self, selection: Selection) -> list[dict[str, Any]]:
        sql = rendered(selection, self.dialect, self.kinds())
        with self._errors():
            cursor = self._execute(f"SELECT * FROM {self._table} {sql.text}", sql.values)
            names = [column[0] for column in cursor.description]
            return [self._row(names, values) for values in cursor.fetchall()]

    def _row(self, names: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
        return dict(zip(names, values, strict=True))

    # Transactions

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        if self._depth:
            yield
            return
        with self._errors():
            self._execute(self._begin)
        self._depth = 1
        try:
            yield
        finally:
            self._depth = 0
            self._end()

    _begin: ClassVar[str]

    def _gone(self) -> ViewUnavailable:
        return ViewUnavailable(
            f"version {self._version} of view {self._definition.name} is not there",
            hint="another version may be served by now: open the view again; else start its job",
        )

    # What each database does in its own way

    @abc.abstractmethod
    def _execute(self, statement: str, values: Sequence[Any] = ()) -> Any:
        """A cursor with the result."""

    @abc.abstractmethod
    def _end(self) -> None:
        """The transaction. It has changed nothing, so that this can't fail."""

    @abc.abstractmethod
    def _errors(self) -> contextlib.AbstractContextManager[None]:
        """Turns the errors of the database into `ViewUnavailable` and `BadView`."""

    @abc.abstractmethod
    def _read_types(self) -> dict[str, str]: ...

    @staticmethod
    @abc.abstractmethod
    def _kind(declared: str) -> Kind: ...
