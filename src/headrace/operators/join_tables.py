"""Join of two tables, updated continuously by the changes of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Literal, cast

from headrace.operators.joins.sides import On, Pairs, read_on, require_frame, require_like_sides
from headrace.operators.operator import (
    BadOperator,
    Operator,
    any_null,
    column,
    names,
    require_columns,
    require_one_of,
)
from headrace.operators.tables import columns as of
from headrace.operators.tables.changelog import OFFSET, Changelog
from headrace.operators.tables.join_step import LEFT, RIGHT, JoinStep
from headrace.operators.tables.weighted import WeightedLift

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

How = Literal["inner", "left", "full"]

HOW: Mapping[How, tuple[bool, bool]] = {"inner": (False, False), "left": (True, False), "full": (True, True)}
"""For each side, whether rows without a match are emitted."""


@dataclass(frozen=True, slots=True)
class JoinTables(Operator):
    """Join two tables, each given by its changes, into a changelog.

        posts.transform(op.JoinTables(follows, on={"author": "followee"}, key="id", other_key=["follower", "followee"]))

    At any time, the emitted rows (`op` is `+`) minus the retracted rows (`-`) are the join of the current tables. Many
    rows may match many rows. A null matches nothing.

    other       the changes of the other table
    on          the columns that must be equal: a name, several names, or {"author": "followee"} if the names differ
    how         "inner", "left" (all rows of the first table, with nulls if they have no match) or "full"
    key         the primary key of the first table if its rows are changes by key (see `Changelog`); without it, the
                rows are a changelog: `op` is `+` or `-`, and rows without a column `op` are added
    other_key   the same for the other table
    order, other_order   the columns by which the changes of a key are ordered; `_offset` by default

    A column of `on` with the same name on both sides appears once. Columns that start with `_` are dropped.
    """

    other: DataFrame
    _: KW_ONLY
    on: On
    how: How = "inner"
    key: str | Sequence[str] = ()
    other_key: str | Sequence[str] = ()
    order: str | Sequence[str] = OFFSET
    other_order: str | Sequence[str] = OFFSET

    def __post_init__(self) -> None:
        require_frame(self.other, operator="JoinTables", field="other")
        pairs = read_on(self.on, operator="JoinTables")
        object.__setattr__(self, "on", dict(pairs))
        require_one_of(self.how, How, operator="JoinTables", field="how")
        for field in ("key", "other_key", "order", "other_order"):
            object.__setattr__(self, field, names(getattr(self, field), operator="JoinTables", field=field))
        require_columns(self.other, [right for _, right in pairs], operator="JoinTables", field="on")

    @property
    def pairs(self) -> Pairs:
        return tuple(cast(Mapping[str, str], self.on).items())

    def __call__(self, rows: DataFrame) -> DataFrame:
        from headrace.operators.state.spark import run_step

        for side in (rows, self.other):
            of.require_retractions(side, operator="JoinTables")
        left = _changelog(rows, self.key, self.order, side="key")
        right = _changelog(self.other, self.other_key, self.other_order, side="other_key")
        require_like_sides(left, right, self.pairs, operator="JoinTables", field="other")
        own = [self._own(left, LEFT), self._own(right, RIGHT)]
        _check_names(own, shared={one for one, other in self.pairs if one == other})
        fields = of.fields_of(left, own[LEFT]), of.fields_of(right, own[RIGHT])
        step = JoinStep(left=fields[LEFT], right=fields[RIGHT], on=self.pairs, keeps=HOW[self.how])
        both = self._selected(left, LEFT, step).unionByName(self._selected(right, RIGHT, step))
        kept_for = of.kept_for("JoinTables", [*fields[LEFT], *fields[RIGHT]], on=self.on, how=self.how)
        lift = WeightedLift(step.input_schema)
        return of.as_changelog(run_step(both, lift, step, name="join", kept_for=kept_for))

    def _own(self, rows: DataFrame, side: int) -> list[str]:
        return of.own_columns(rows, keep=[pair[side] for pair in self.pairs])

    def _selected(self, rows: DataFrame, side: int, step: JoinStep) -> DataFrame:
        """The input columns of the step. The columns of the other side are null."""
        from pyspark.sql import functions as F
        from pyspark.sql.pandas.types import from_arrow_type

        from headrace.operators.state.keys import hashes, key_parts

        on = [pair[side] for pair in self.pairs]
        own = self._own(rows, side)
        is_null = any_null(on)
        if not HOW[self.how][side]:
            rows = rows.where(~is_null)
        parts = of.row_parts(rows, own)
        keys = hashes(key_parts(rows, on, operator="JoinTables", field="on"), "h")
        # A row with a null in its key matches nothing. The hash of the whole row distributes such rows.
        alone = hashes([F.lit(f"alone {side}"), *parts], "h")
        hashed = [
            F.when(is_null, apart).otherwise(together).alias(f"h{number}")
            for number, (apart, together) in enumerate(zip(alone, keys, strict=True), start=1)
        ]
        return rows.select(
            *hashed,
            *hashes(parts, "r"),
            of.weight(rows, operator="JoinTables"),
            F.lit(side).alias("side"),
            *(
                column(own[int(field.name[1:])]).alias(field.name)
                if field.name[0] == "ab"[side]
                else F.lit(None).cast(from_arrow_type(field.type)).alias(field.name)
                for field in step.input_schema
                if field.name[1:].isdigit()
            ),
        )


def _changelog(
    rows: DataFrame, key: str | Sequence[str], order: str | Sequence[str], *, side: str
) -> DataFrame:
    """The rows as a changelog. Without a key, they already are one."""
    if not key:
        return rows
    if of.is_changelog(rows):
        raise BadOperator(
            "JoinTables",
            side,
            "is set, but the rows are already a changelog",
            hint=f"remove {side}=",
        )
    return rows.transform(Changelog(key=key, order=order))


def _check_names(own: Sequence[Sequence[str]], *, shared: Set[str]) -> None:
    twice = sorted(set(own[LEFT]) & set(own[RIGHT]) - shared)
    if twice:
        raise BadOperator(
            "JoinTables",
            "other",
            f"has a column {twice[0]!r}, which is also a column of the first table",
            hint=f'rename one of them: other.withColumnRenamed("{twice[0]}", …)',
        )
