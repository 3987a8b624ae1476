"""Changes of a table by primary key as a changelog: the old row of a key is retracted, the new row is added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.operators.operator import (
    BadOperator,
    Operator,
    any_null,
    column,
    names,
    require_columns,
    require_kind,
)
from headrace.operators.tables import columns as of
from headrace.operators.tables.latest_step import DELETED, UNKNOWN_VALUE, LatestLift, LatestStep, value_hash
from headrace.operators.tables.weighted import OP, ROW_HASH

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

OFFSET = "_offset"
"""The offset of a record in its partition: the default order of changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changelog(Operator):
    """Turn changes by primary key into a changelog (`op` is `+` or `-`).

        users = read_topic(spark, "users", format="changes", schema="id BIGINT NOT NULL, name STRING")
        users.transform(op.Changelog(key="id"))

    The input is change events of a database (`op` is c, u, r or d) or any other rows. A row whose `op` is d or -
    deletes the row of its key; every other row replaces it. The output has the columns of the row, except those that
    start with `_`, and `op`.

    key            the columns of the primary key
    order          the columns by which the changes of a key are ordered; `_offset` by default. A change that is older
                   than the current row is ignored, so changes may arrive late, out of order or more than once
    keep_deleted   whether deleted keys are kept in the state, so that a late change can't restore the row. The default
                   is True, except if the order is `_offset`: then no change is late
    unchanged      for columns whose value an update may lack (a large value that PostgreSQL did not repeat), the name
                   of the column that says so, a boolean: the value before the change stays
    """

    key: str | Sequence[str]
    order: str | Sequence[str] = OFFSET
    keep_deleted: bool | None = None
    unchanged: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", names(self.key, operator="Changelog", field="key"))
        object.__setattr__(self, "order", names(self.order, operator="Changelog", field="order"))
        require_kind(
            self.keep_deleted,
            bool | None,
            operator="Changelog",
            field="keep_deleted",
            hint="set True or False",
        )
        require_kind(
            self.unchanged,
            Mapping,
            operator="Changelog",
            field="unchanged",
            hint='name the columns: unchanged={"text": "_is_unchanged"}',
        )
        for name in ("key", "order"):
            if not getattr(self, name):
                raise BadOperator("Changelog", name, "is empty", hint=f'name a column: {name}="id"')

    @property
    def keeps_deleted(self) -> bool:
        return tuple(self.order) != (OFFSET,) if self.keep_deleted is None else self.keep_deleted

    def __call__(self, rows: DataFrame) -> DataFrame:
        from headrace.operators.state.spark import run_step

        self._check(rows)
        own = of.own_columns(rows, keep=self.key)
        fields = of.fields_of(rows, own)
        step = LatestStep(
            columns=fields,
            key=tuple(self.key),
            order=of.fields_of(rows, self.order),
            keeps_deleted=self.keeps_deleted,
            unchanged=[own.index(name) for name in self.unchanged],
        )
        selected = rows.select(*self._selected(rows, own))
        lift = LatestLift(step)
        settings = {"unchanged": sorted(self.unchanged)} if self.unchanged else {}
        kept_for = of.kept_for(
            "Changelog", fields, key=self.key, order=self.order, keep_deleted=self.keeps_deleted, **settings
        )
        return of.as_changelog(run_step(selected, lift, step, name="changelog", kept_for=kept_for))

    def _check(self, rows: DataFrame) -> None:
        from headrace.operators.state.keys import require_plain

        require_columns(rows, self.key, operator="Changelog", field="key")
        of.has_op(rows, operator="Changelog")
        if of.is_changelog(rows):
            raise BadOperator(
                "Changelog",
                "key",
                "is set, but the rows are already a changelog",
                hint="remove Changelog and use the rows directly",
            )
        if tuple(self.order) == (OFFSET,) and OFFSET not in rows.columns:
            raise BadOperator(
                "Changelog",
                "order",
                "is not set, and the rows have no column _offset",
                hint='name a column that increases with every change of a key: order="version"',
            )
        require_columns(rows, self.order, operator="Changelog", field="order")
        for names_of in (self.unchanged.keys(), self.unchanged.values()):
            require_columns(rows, names_of, operator="Changelog", field="unchanged")
        for name in self.order:
            require_plain(rows, name, operator="Changelog", field="order")

    def _selected(self, rows: DataFrame, own: Sequence[str]) -> list[Column]:
        from pyspark.sql import functions as F

        from headrace.operators.state.keys import hashes, key_parts

        is_deleted = F.col(OP).isin(*of.DELETIONS) if OP in rows.columns else F.lit(False)
        hashed = key_parts(rows, self.key, operator="Changelog", field="key")
        return [
            *hashes([self._checked(), *hashed], "h"),
            F.xxhash64(*of.row_parts(rows, [name for name in own if name not in self.unchanged])).alias(
                ROW_HASH
            ),
            F.coalesce(is_deleted, F.lit(False)).alias(DELETED),
            *(column(name).alias(f"o{number}") for number, name in enumerate(self.order)),
            *(column(name).alias(f"c{number}") for number, name in enumerate(own)),
            *(self._value_hash(rows, name).alias(value_hash(own.index(name))) for name in self.unchanged),
        ]

    def _value_hash(self, rows: DataFrame, name: str) -> Column:
        """Null if the change lacks the value."""
        from pyspark.sql import functions as F

        known = F.when(column(name).isNull(), F.lit(UNKNOWN_VALUE).cast("bigint")).otherwise(
            F.xxhash64(*of.row_parts(rows, [name]))
        )
        return F.when(~F.coalesce(column(self.unchanged[name]), F.lit(False)), known)

    def _checked(self) -> Column:
        """Fail on a row with null in its key: the row that it changes is unknown."""
        from pyspark.sql import functions as F

        problem = (
            f"Changelog: a row has null in its key ({', '.join(self.key)}). "
            "Declare the column NOT NULL in the schema of read_topic: such a record then becomes a dead letter"
        )
        return F.when(any_null(self.key), F.raise_error(F.lit(problem)).cast("int")).otherwise(F.lit(0))
