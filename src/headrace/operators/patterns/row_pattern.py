"""Row patterns built in Python: the same as the text of MATCH_RECOGNIZE, which they become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.operators.operator import BadOperator, Duration, duration_us, names, require_kind, require_text
from headrace.operators.patterns.match_recognize import STEPS_MAX, MatchRecognize, PatternLate

_KIND = "RowPattern"


@dataclass(frozen=True, slots=True)
class RowPattern:
    """Rows in a sequence. Patterns are combined by `+` (one after the other) and `|` (the first is preferred).

        small, big = op.RowPattern("small", "amount < 1"), op.RowPattern("big", "amount > 500")
        fraud = (small.times(2, None) + big).match(
            partition_by="card", order_by="at", within="10 minutes", measures={"loss": "big.amount"}
        )

    variable    the name of the rows
    condition   the condition of DEFINE; by default every row satisfies it
    """

    variable: str
    condition: str | None = None
    text: str = field(default="", kw_only=True, repr=False)
    conditions: Mapping[str, str] = field(default_factory=dict, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        if self.text:
            return
        require_text(
            self.variable, operator=_KIND, field="variable", hint='name the rows: RowPattern("small", …)'
        )
        require_kind(
            self.condition, str | None, operator=_KIND, field="condition", hint='such as "amount < 1"'
        )
        object.__setattr__(self, "text", _quoted(self.variable))
        if self.condition is not None:
            object.__setattr__(self, "conditions", {self.variable: self.condition})

    def __add__(self, other: RowPattern) -> RowPattern:
        return _combined(f"{self.text} {_pattern(other).text}", self, other)

    def __or__(self, other: RowPattern) -> RowPattern:
        return _combined(f"({self.text} | {_pattern(other).text})", self, other)

    def times(self, least: int, most: int | None = -1, *, reluctant: bool = False) -> RowPattern:
        """So many times; `times(2, None)` is at least twice. A reluctant quantifier prefers fewer rows."""
        most = least if most == -1 else most
        for name, given in (("least", least), ("most", 0 if most is None else most)):
            require_kind(given, int, operator=_KIND, field=name, hint="set a number")
        bounds = f"{least},{'' if most is None else most}"
        return _combined(f"({self.text}){{{bounds}}}{'?' if reluctant else ''}", self)

    def optional(self, *, reluctant: bool = False) -> RowPattern:
        return self.times(0, 1, reluctant=reluctant)

    def excluded(self) -> RowPattern:
        """Part of the match, but not of the output of ALL ROWS PER MATCH."""
        return _combined(f"{{- {self.text} -}}", self)

    def at_start(self) -> RowPattern:
        """Only with the first row of a key."""
        return _combined(f"^ {self.text}", self)

    def at_end(self) -> RowPattern:
        """Only with the last row of a key; not on streams."""
        return _combined(f"{self.text} $", self)

    @staticmethod
    def permute(*patterns: RowPattern) -> RowPattern:
        """All of them, in any order."""
        if not patterns:
            raise BadOperator(_KIND, "permute", "has no patterns", hint="pass the patterns to permute")
        return _combined(f"PERMUTE({', '.join(_pattern(each).text for each in patterns)})", *patterns)

    def match(
        self,
        *,
        partition_by: str | Sequence[str] = (),
        order_by: str | Sequence[str] = (),
        measures: Mapping[str, str] | None = None,
        rows: str = "ONE ROW PER MATCH",
        skip: str = "PAST LAST ROW",
        within: Duration | None = None,
        subsets: Mapping[str, Sequence[str]] | None = None,
        rows_max: int | None = None,
        steps_max: int = STEPS_MAX,
        late: PatternLate | None = None,
    ) -> MatchRecognize:
        """The operator.

        partition_by   the columns of the key
        order_by       the order, each with DESC or NULLS LAST if needed; the event time by default
        measures       expressions by the name of their result
        rows           ONE ROW PER MATCH, or ALL ROWS PER MATCH with what may follow
        skip           what follows AFTER MATCH SKIP
        within         the time of a match
        subsets        names for several variables together
        rows_max, steps_max, late   as of MatchRecognize
        """
        keys = names(partition_by, operator=_KIND, field="partition_by")
        order = [order_by] if isinstance(order_by, str) else list(order_by)
        listed = {
            "PARTITION BY": [_quoted(each) for each in keys],
            "ORDER BY": order,
            "MEASURES": [f"{each} AS {_quoted(name)}" for name, each in (measures or {}).items()],
        }
        clauses = [f"{clause} {', '.join(parts)}" for clause, parts in listed.items() if parts]
        clauses += [rows, f"AFTER MATCH SKIP {skip}", f"PATTERN ({self.text})"]
        if within is not None:
            clauses.append(
                f"WITHIN INTERVAL '{duration_us(within, operator=_KIND, field='within')} microseconds'"
            )
        if subsets:
            members = (
                f"{_quoted(name)} = ({', '.join(map(_quoted, each))})" for name, each in subsets.items()
            )
            clauses.append(f"SUBSET {', '.join(members)}")
        if self.conditions:
            conditions = (f"{_quoted(name)} AS {each}" for name, each in self.conditions.items())
            clauses.append(f"DEFINE {', '.join(conditions)}")
        more: dict[str, Any] = {"rows_max": rows_max, "steps_max": steps_max, "late": late}
        return MatchRecognize("\n".join(clauses), **more)


def _pattern(given: object) -> RowPattern:
    require_kind(
        given, RowPattern, operator=_KIND, field="pattern", hint='combine patterns: RowPattern("a") + …'
    )
    assert isinstance(given, RowPattern)
    return given


def _combined(text: str, *parts: RowPattern) -> RowPattern:
    conditions: dict[str, str] = {}
    for part in parts:
        for name, condition in _pattern(part).conditions.items():
            if conditions.setdefault(name, condition) != condition:
                raise BadOperator(
                    _KIND,
                    "condition",
                    f"of {name!r} is both {conditions[name]!r} and {condition!r}",
                    hint="use one name for one condition",
                )
    return RowPattern("", text=text, conditions=conditions)


def _quoted(name: str) -> str:
    is_plain = name.isidentifier() and name.upper() != "PERMUTE"
    return name if is_plain else '"' + name.replace('"', '""') + '"'
