"""The parts of MATCH_RECOGNIZE as values: row patterns, expressions, clauses. `at` is an offset in the text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from msgspec import Struct

# Row patterns


class Variable(Struct, frozen=True):
    name: str
    at: int = 0


class Empty(Struct, frozen=True):
    """A pattern that matches no row."""


class Anchor(Struct, frozen=True):
    is_start: bool
    at: int = 0


class Sequence(Struct, frozen=True):
    parts: tuple[Pattern, ...]


class Alternation(Struct, frozen=True):
    """The first choice is preferred."""

    choices: tuple[Pattern, ...]


class Permutation(Struct, frozen=True):
    parts: tuple[Pattern, ...]
    at: int = 0


class Repetition(Struct, frozen=True):
    part: Pattern
    least: int
    most: int | None
    """None for no limit."""
    is_greedy: bool = True
    at: int = 0


class Exclusion(Struct, frozen=True):
    """Rows that are part of the match, but not of the output."""

    part: Pattern
    at: int = 0


Pattern = Variable | Empty | Anchor | Sequence | Alternation | Permutation | Repetition | Exclusion

# Expressions, as parsed


class Constant(Struct, frozen=True):
    value: Any
    at: int = 0


class Name(Struct, frozen=True):
    """A column, with the fields of structs, and with a variable before it or without."""

    parts: tuple[str, ...]
    at: int = 0


class Operation(Struct, frozen=True):
    """A function of values: `+`, `and`, `case`, `lower`, …"""

    function: str
    operands: tuple[Expression, ...]
    at: int = 0


class Cast(Struct, frozen=True):
    operand: Expression
    type_name: str
    at: int = 0


class Call(Struct, frozen=True):
    """A function by its name, which binding replaces."""

    function: str
    arguments: tuple[Expression, ...]
    at: int = 0
    semantics: Literal["running", "final", None] = None
    is_distinct: bool = False
    star: tuple[str, ...] | None = None
    """`()` for `*`, the variable for `A.*`."""


# Expressions, after binding


class Field(Struct, frozen=True):
    """A column of the row at which an expression is evaluated."""

    column: str
    path: tuple[str, ...] = ()
    """Fields of structs."""
    at: int = 0


class Navigation(Struct, frozen=True):
    """An expression at another row: the row `offset` from the first or last row of a variable, moved by `rows`."""

    inner: Expression
    variable: str | None
    """None for all rows of the match."""
    is_first: bool = False
    offset: int = 0
    rows: int = 0
    """Negative for earlier rows."""
    is_final: bool = False
    at: int = 0


class Aggregate(Struct, frozen=True):
    function: str
    inner: Expression | None
    """None to count rows."""
    variable: str | None
    is_final: bool = False
    is_distinct: bool = False
    at: int = 0


class Classifier(Struct, frozen=True):
    """The variable of the row at which an expression is evaluated."""

    at: int = 0


class MatchNumber(Struct, frozen=True):
    at: int = 0


class MatchTime(Struct, frozen=True):
    """The event time of the match: that of its last row."""

    at: int = 0


Expression = (
    Constant
    | Name
    | Operation
    | Cast
    | Call
    | Field
    | Navigation
    | Aggregate
    | Classifier
    | MatchNumber
    | MatchTime
)


def children(node: Expression) -> tuple[Expression, ...]:
    match node:
        case Operation():
            return node.operands
        case Cast():
            return (node.operand,)
        case Call():
            return node.arguments
        case Navigation():
            return (node.inner,)
        case Aggregate():
            return () if node.inner is None else (node.inner,)
    return ()


# Clauses


class SortTerm(Struct, frozen=True):
    column: str
    is_descending: bool = False
    nulls_first: bool = True
    at: int = 0


class Named(Struct, frozen=True):
    """A measure or a condition."""

    name: str
    expression: Expression
    at: int = 0


class Subset(Struct, frozen=True):
    name: str
    variables: tuple[str, ...]
    at: int = 0


RowsPerMatch = Literal["one", "all show empty", "all omit empty", "all with unmatched"]
SkipTo = Literal["past last row", "to next row", "to first", "to last"]


class Skip(Struct, frozen=True):
    to: SkipTo = "past last row"
    variable: str | None = None
    at: int = 0


class Clauses(Struct, frozen=True, kw_only=True):
    """The clauses of MATCH_RECOGNIZE."""

    partition_by: tuple[Name, ...] = ()
    order_by: tuple[SortTerm, ...] = ()
    measures: tuple[Named, ...] = ()
    rows_per_match: RowsPerMatch = "one"
    skip: Skip = Skip()
    pattern: Pattern
    pattern_at: int = 0
    within_us: int | None = None
    within_at: int = 0
    subsets: tuple[Subset, ...] = ()
    conditions: tuple[Named, ...] = ()


def parts_of(pattern: Pattern) -> tuple[Pattern, ...]:
    match pattern:
        case Sequence() | Permutation():
            return pattern.parts
        case Alternation():
            return pattern.choices
        case Repetition() | Exclusion():
            return (pattern.part,)
    return ()


def walk_pattern(pattern: Pattern) -> Iterator[Pattern]:
    """All parts of a pattern, in the order of the text."""
    waiting = [pattern]
    while waiting:
        part = waiting.pop()
        yield part
        waiting.extend(reversed(parts_of(part)))


def variables_of(pattern: Pattern) -> dict[str, Variable]:
    """The variables by name, in the order of the text."""
    found: dict[str, Variable] = {}
    for part in walk_pattern(pattern):
        if isinstance(part, Variable):
            found.setdefault(part.name, part)
    return found


def has_part(pattern: Pattern, kind: type) -> bool:
    return any(isinstance(part, kind) for part in walk_pattern(pattern))
