"""The newest rows of a key, kept up to date over a changelog."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from headrace.operators.operator import BadOperator, Operator, column, names, require_columns
from headrace.operators.tables import columns as of
from headrace.operators.tables.newest_step import MARK, NewestStep
from headrace.operators.tables.weighted import WeightedLift

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COUNT_MAX = 1_000_000
"""Of one key: all its rows are read whenever one of them changes."""


@dataclass(frozen=True, slots=True)
class Newest(Operator):
    """Of each key, the rows that are the greatest in the order.

        timeline.transform(op.Newest(800, by="user", order=["at", "post"]))

    When one of them is taken back, the next one comes up; when a newer one comes, the oldest is taken back.

    count   how many
    by      the columns of the key; none for the newest of all
    order   the columns that say how new a row is, the greatest first; what is null is the oldest. Give as many as it
            takes to tell any two rows apart; what is equal in them is told apart in some way that is always the same
    keep    how many rows of a key are kept, to come up when others go; all of them unless given. With a bound, rows
            that fall below it are forgotten: when more than `keep - count` of the kept ones go, fewer than `count`
            are left
    """

    count: int
    _: KW_ONLY
    by: str | Sequence[str] = ()
    order: str | Sequence[str]
    keep: int | None = None

    def __post_init__(self) -> None:
        for field in ("by", "order"):
            object.__setattr__(self, field, names(getattr(self, field), operator="Newest", field=field))
        if isinstance(self.count, bool) or not 1 <= self.count <= COUNT_MAX:
            raise BadOperator(
                "Newest", "count", f"is {self.count!r}", hint=f"a number of rows, from 1 to {COUNT_MAX}"
            )
        if not self.order:
            raise BadOperator("Newest", "order", "is empty", hint='name a column: order="at"')
        if self.keep is not None and self.keep < self.count:
            raise BadOperator(
                "Newest",
                "keep",
                f"is {self.keep}, fewer than the {self.count} that are shown",
                hint=f"{2 * self.count}, for as many that can come up; or None, for all",
            )

    def __call__(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        from headrace.operators.state.keys import hashes, key_parts, require_plain
        from headrace.operators.state.spark import run_step

        require_columns(rows, self.by, operator="Newest", field="by")
        require_columns(rows, self.order, operator="Newest", field="order")
        for name in self.order:
            require_plain(rows, name, operator="Newest", field="order")
        weight = of.weight(rows, operator="Newest")
        own = of.own_columns(rows, keep=[*self.by, *self.order])
        fields = of.fields_of(rows, own)
        step = NewestStep(
            columns=fields, by=tuple(self.by), order=tuple(self.order), count=self.count, keep=self.keep
        )
        selected = rows.select(
            *hashes(key_parts(rows, self.by, operator="Newest", field="by"), "h"),
            *hashes(of.row_parts(rows, own), "r"),
            weight,
            F.lit(False).alias(MARK),
            *(column(name).alias(f"c{number}") for number, name in enumerate(own)),
        )
        kept_for = of.kept_for(
            "Newest", fields, count=self.count, by=self.by, order=self.order, keep=self.keep
        )
        lift = WeightedLift(step.input_schema)
        return of.as_changelog(run_step(selected, lift, step, name="newest", kept_for=kept_for))
