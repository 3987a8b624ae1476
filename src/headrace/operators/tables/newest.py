"""The newest rows of each key of a changelog, continuously."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from headrace.operators.operator import BadOperator, Operator, column, names, require_columns, require_kind
from headrace.operators.tables import columns as of
from headrace.operators.tables.newest_order import Order, SortTerm, read_order, sort_terms
from headrace.operators.tables.newest_step import MARK, NewestLift, NewestStep
from headrace.operators.tables.weighted import OP, WeightedLift

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COUNT_MAX = 1_000_000
"""The most rows per key: all of them are read whenever one of them changes."""


@dataclass(frozen=True, slots=True)
class Newest(Operator):
    """Keep the newest rows of each key of a changelog: top-N by group.

        timeline.transform(op.Newest(800, by="user", order=["at", "post"]))
        scores.transform(op.Newest(3, by="game", order={"score": "desc", "at": "asc"}, rank="rank"))

    When one of them is retracted, the next newest row is emitted. When a newer row arrives, the oldest is retracted.

    count   the number of rows per key
    by      the columns of the key; empty for the newest of all rows
    order   the columns that order rows: names, the greatest first; or directions, {"score": "desc", "at": "asc"} or
            [F.desc("score"), F.asc("at")]. Null is less than every value, unless the direction says otherwise
            ("asc nulls last"). Name enough columns to distinguish any two rows; the order of rows that are equal in
            them is arbitrary, but always the same
    rank    the name of a column with the number of each row in its key, 1 for the first: ROW_NUMBER in SQL. A row whose
            rank changes is retracted and emitted again
    keep    how many rows per key the state stores as replacements for retracted ones; all rows by default. Rows beyond
            this limit are deleted: if more than `keep - count` of the stored rows are retracted, the key has fewer than
            `count` rows
    """

    count: int
    _: KW_ONLY
    by: str | Sequence[str] = ()
    order: Order
    rank: str | None = None
    keep: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "by", names(self.by, operator="Newest", field="by"))
        object.__setattr__(self, "order", read_order(self.order, operator="Newest"))
        for field, kinds in (("count", int), ("keep", int | None)):
            require_kind(
                getattr(self, field), kinds, operator="Newest", field=field, hint="set a number of rows"
            )
        if not 1 <= self.count <= COUNT_MAX:
            raise BadOperator(
                "Newest", "count", f"is {self.count!r}", hint=f"set a number of rows from 1 to {COUNT_MAX}"
            )
        if not self.order:
            raise BadOperator("Newest", "order", "is empty", hint='name a column: order="at"')
        rank: object = self.rank
        if rank is not None and (not isinstance(rank, str) or rank in ("", OP)):
            raise BadOperator("Newest", "rank", f"is {rank!r}", hint='set a name for the column: rank="rank"')
        if self.keep is not None and self.keep < self.count:
            raise BadOperator(
                "Newest",
                "keep",
                f"is {self.keep}, less than count={self.count}",
                hint=f"set it to {2 * self.count} for {self.count} replacements, or to None to store all rows",
            )

    @property
    def terms(self) -> tuple[SortTerm, ...]:
        return sort_terms(read_order(self.order, operator="Newest"))

    def __call__(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        from headrace.operators.state.keys import hashes, key_parts, require_plain
        from headrace.operators.state.spark import run_step

        order = self.terms
        sorted_by = [term.name for term in order]
        require_columns(rows, self.by, operator="Newest", field="by")
        require_columns(rows, sorted_by, operator="Newest", field="order")
        for name in sorted_by:
            require_plain(rows, name, operator="Newest", field="order")
        weight = of.weight(rows, operator="Newest")
        own = of.own_columns(rows, keep=[*self.by, *sorted_by])
        if self.rank in own:
            raise BadOperator(
                "Newest",
                "rank",
                f"is {self.rank!r}, a column that the rows already have",
                hint="choose another name, or drop the column",
            )
        fields = of.fields_of(rows, own)
        step = NewestStep(
            columns=fields,
            by=tuple(self.by),
            order=order,
            count=self.count,
            rank=self.rank,
            keep=self.keep,
        )
        selected = rows.select(
            *hashes(key_parts(rows, self.by, operator="Newest", field="by"), "h"),
            *hashes(of.row_parts(rows, own), "r"),
            weight,
            F.lit(False).alias(MARK),
            *(column(name).alias(f"c{number}") for number, name in enumerate(own)),
        )
        rank = {} if self.rank is None else {"rank": self.rank}
        kept_for = of.kept_for(
            "Newest", fields, count=self.count, by=self.by, order=self.order, keep=self.keep, **rank
        )
        is_final = self.keep is not None and not of.has_op(rows, operator="Newest")
        lift = NewestLift(step) if is_final else WeightedLift(step.input_schema)
        return of.as_changelog(run_step(selected, lift, step, name="newest", kept_for=kept_for))
