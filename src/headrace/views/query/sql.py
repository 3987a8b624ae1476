"""A selection as SQL of a database, with its values as parameters. The databases agree on the result.

sql = rendered(selection, DUCKDB, kinds)
connection.execute(f"SELECT * FROM {table} {sql.text}", sql.values)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from msgspec import Struct

from headrace.conditions.expression import Call, Column, Expression, Literal, Value, quoted
from headrace.views.errors import BadView
from headrace.views.query.kinds import Kind
from headrace.views.query.text import condition
from headrace.views.selection import Selection

_RANGES = frozenset({"<", "<=", ">", ">=", "between"})
_COMPARISONS = _RANGES | {"=", "<>", "in"}
_UPPER, _LOWER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"


class Dialect(Struct, frozen=True, kw_only=True):
    """How a database differs from the others."""

    name: str
    placeholder: str = "?"
    percent: str = "%"
    """The operator, where `%` also begins a placeholder."""
    double: str = "DOUBLE"
    has_own_collation: bool = False
    """Whether the database orders text by a locale, unless it is told otherwise."""
    has_ascii_case: bool = False
    """Whether `lower` and `upper` change letters of ASCII only."""
    are_times_text: bool = False
    has_no_decimals: bool = False


SQLITE = Dialect(name="sqlite", double="REAL", has_ascii_case=True, are_times_text=True, has_no_decimals=True)
"""The connection needs `PRAGMA case_sensitive_like = ON`."""
POSTGRESQL = Dialect(
    name="postgresql",
    placeholder="%s",
    percent="%%",
    double="double precision",
    has_own_collation=True,
)
"""The session needs the time zone UTC."""
DUCKDB = Dialect(name="duckdb")
"""The session needs the time zone UTC."""


class Sql(Struct, frozen=True):
    text: str
    """WHERE, ORDER BY and LIMIT, to follow the name of the table."""
    values: tuple[Any, ...]


def rendered(selection: Selection, dialect: Dialect, kinds: Mapping[str, Kind]) -> Sql:
    """`kinds` are those of the columns; a column that is not in it is compared as the database does."""
    rendering = _Rendering(dialect, kinds)
    parts = []
    where = condition(selection.where)
    if where is not None:
        parts.append(f"WHERE {rendering.of(where)}")
    if selection.order_by:
        parts.append(f"ORDER BY {', '.join(rendering.ordered(*each) for each in selection.order_by)}")
    parts.append(f"LIMIT {int(selection.limit)} OFFSET {int(selection.offset)}")
    return Sql(" ".join(parts), tuple(rendering.values))


class _Rendering:
    def __init__(self, dialect: Dialect, kinds: Mapping[str, Kind]) -> None:
        self._dialect = dialect
        self._kinds = kinds
        self.values: list[Any] = []

    def ordered(self, name: str, is_descending: bool) -> str:
        if self._kinds.get(name) is Kind.JSON:
            raise BadView(f"column {name} holds JSON, which has no order", hint="order by another column")
        return f"{self._column(name, is_ordered=True)}{' DESC' if is_descending else ''} NULLS LAST"

    def of(self, node: Expression) -> str:
        match node:
            case Column(name):
                return self._column(name)
            case Literal(value):
                return self._literal(value, None)
            case Call(name, arguments):
                if name in _COMPARISONS:
                    return self._comparison(name, arguments)
                return f"({self._call(name, arguments)})"

    # Columns and values

    def _column(self, name: str, *, is_ordered: bool = False) -> str:
        """Text is ordered by code points: the locale of a database would give another answer than another store."""
        is_text = self._kinds.get(name) is Kind.TEXT
        column = quoted(name.replace("%", self._dialect.percent))
        return (
            f'({column} COLLATE "C")'
            if is_ordered and is_text and self._dialect.has_own_collation
            else column
        )

    def _literal(self, value: Value, compared: Kind | None) -> str:
        """`compared` is the kind of the column that it is compared with."""
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        if isinstance(value, int):
            # Without the cast it may be a small integer, and its sum with a column too large for one.
            return f"CAST({value} AS BIGINT)"
        is_inexact = isinstance(value, float) or compared is Kind.REAL
        if isinstance(value, float | Decimal) and (is_inexact or self._dialect.has_no_decimals):
            self.values.append(float(value))
            kind = "REAL" if compared is Kind.REAL else self._dialect.double
            return f"CAST({self._dialect.placeholder} AS {kind})"
        if self._dialect.are_times_text:
            value = _as_sqlite(value, compared)
        self.values.append(value)
        return self._dialect.placeholder

    # Operators

    def _comparison(self, name: str, arguments: tuple[Expression, ...]) -> str:
        column = next((each.name for each in arguments if isinstance(each, Column)), "")
        compared = self._kinds.get(column)
        for each in arguments:
            if isinstance(each, Literal) and compared is not None:
                _check_comparable(column, compared, each.value)
        first, *others = [
            self._literal(each.value, compared)
            if isinstance(each, Literal)
            else self._column(each.name, is_ordered=name in _RANGES)
            if isinstance(each, Column)
            else self.of(each)
            for each in arguments
        ]
        if name == "in":
            return f"({first} IN ({', '.join(others)}))"
        if name == "between":
            return f"({first} BETWEEN {others[0]} AND {others[1]})"
        return f"({first} {name} {others[0]})"

    def _call(self, name: str, arguments: tuple[Expression, ...]) -> str:
        if name == "lower" or name == "upper":
            return self._cased(name, arguments[0])
        parts = [self.of(each) for each in arguments]
        return _CALLS[name](parts, self._dialect)

    def _cased(self, name: str, argument: Expression) -> str:
        text = self.of(argument)
        if self._dialect.has_ascii_case:
            return f"{name}({text})"
        before, after = (_UPPER, _LOWER) if name == "lower" else (_LOWER, _UPPER)
        return f"translate({text}, '{before}', '{after}')"


_CALLS: dict[str, Callable[[list[str], Dialect], str]] = {
    "and": lambda parts, _: " AND ".join(parts),
    "or": lambda parts, _: " OR ".join(parts),
    "not": lambda parts, _: f"NOT {parts[0]}",
    "is null": lambda parts, _: f"{parts[0]} IS NULL",
    "like": lambda parts, _: f"{parts[0]} LIKE {parts[1]} ESCAPE '\\'",
    "+": lambda parts, _: f"{parts[0]} + {parts[1]}",
    "-": lambda parts, _: f"{parts[0]} - {parts[1]}",
    "*": lambda parts, _: f"{parts[0]} * {parts[1]}",
    "/": lambda parts, dialect: f"CAST({parts[0]} AS {dialect.double}) / NULLIF({parts[1]}, 0)",
    "%": lambda parts, dialect: f"{parts[0]} {dialect.percent} NULLIF({parts[1]}, 0)",
    "negative": lambda parts, _: f"-({parts[0]})",
    "abs": lambda parts, _: f"abs({parts[0]})",
    "length": lambda parts, _: f"length({parts[0]})",
    "coalesce": lambda parts, _: f"coalesce({', '.join(parts)})",
}


_NUMBERS = frozenset({Kind.INTEGER, Kind.REAL, Kind.DOUBLE, Kind.DECIMAL})


def _check_comparable(column: str, kind: Kind, value: Value) -> None:
    """Each database converts the one to the other in its own way, or rejects it with an error of its own."""
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    fits = {
        Kind.TEXT: isinstance(value, str),
        Kind.BOOLEAN: isinstance(value, bool),
        **dict.fromkeys(_NUMBERS, is_number),
    }
    if not fits.get(kind, True):
        example = {Kind.TEXT: "'Oslo'", Kind.BOOLEAN: "TRUE"}.get(kind, "10")
        raise BadView(
            f"column {column} holds {kind.value} and can't be compared with {value!r}",
            hint=f"write it as {column} = {example}",
        )


def _as_sqlite(value: Value, compared: Kind | None) -> Any:
    """Times as the `Table` sink stores them, and a text that is compared with a time too."""
    if isinstance(value, str) and compared in (Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ, Kind.DATE):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise BadView(
                f"{value!r} is not a time", hint="write 2026-11-18 or 2026-11-18T06:30:00Z"
            ) from None
    if isinstance(value, datetime):
        if compared is Kind.DATE:
            return value.date().isoformat()
        if compared is Kind.TIMESTAMP_NTZ:
            return f"{value.replace(tzinfo=None):%Y-%m-%d %H:%M:%S.%f}"
        moment = value.astimezone(UTC) if value.tzinfo else value
        return f"{moment:%Y-%m-%d %H:%M:%S.%f}Z"
    return value.isoformat() if isinstance(value, date) else value
