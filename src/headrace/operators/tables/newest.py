"""The newest rows of each key of a changelog, continuously."""

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
"""The most rows per key: all of them are read whenever one of them changes."""


@dataclass(frozen=True, slots=True)
class Newest(Operator):
    """Keep the newest rows of each key of a changelog: top-N by group.

        timeline.transform(op.Newest(800, by="user", order=["at", "post"]))

    When one of them is retracted, the next newest row is emitted. When a newer row arrives, the oldest is retracted.

    count   the number of rows per key
    by      the columns of the key; empty for the newest of all rows
    order   the columns that order rows, the greatest first; null is the oldest. Name enough columns to distinguish any
            two rows; the order of rows that are equal in them is arbitrary, but always the same
    keep    how many rows per key the state stores as replacements for retracted ones; all rows by default. Rows beyond
            this limit are deleted: if more than `keep - count` of the stored rows are retracted, the key has fewer than
            `count` rows
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
                "Newest", "count", f"is {self.count!r}", hint=f"set a number of rows from 1 to {COUNT_MAX}"
            )
        if not self.order:
            raise BadOperator("Newest", "order", "is empty", hint='name a column: order="at"')
        if self.keep is not None and self.keep < self.count:
            raise BadOperator(
                "Newest",
                "keep",
                f"is {self.keep}, less than count={self.count}",
                hint=f"set it to {2 * self.count} for {self.count} replacements, or to None to store all rows",
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
