"""Whether the key of a row was seen before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.operators.approximation.bloom_step import BloomStep, bloom_size
from headrace.operators.approximation.frequency import require_new_name
from headrace.operators.approximation.rows_with_keys import (
    lift_first_rows,
    lift_rows,
    selected,
    with_times_of,
)
from headrace.operators.emitted_times import require_final_rows
from headrace.operators.operator import (
    BadOperator,
    Operator,
    names,
    require_columns,
    require_kind,
    require_text,
)
from headrace.operators.tables.columns import fields_of, kept_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEYS_MAX = 10_000_000_000
ERROR_MIN = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen(Operator):
    """Remember the keys of all rows so far in a Bloom filter of fixed size, and find rows whose key was seen before.

        orders.transform(op.Seen(key="order", keys_max=10_000_000))                        # drop repeated rows
        visits.transform(op.Seen(key="user", keys_max=10_000_000, column="is_returning"))  # a column instead

    A repeated key is always found. A new key is taken for a repeated one with the probability `error` or less, as long
    as there are no more than `keys_max` distinct keys. With more keys, the probability rises and the size stays.

    key        the columns of the key; null is a value
    keys_max   the expected number of distinct keys: with an error of 1 % a key takes 11 bits
    error      the rate of false positives
    column     the name of a column that is true for rows whose key was seen before; by default these rows are dropped

    Of the rows of a new key in one micro-batch, one counts as the first. Rows must be final: a changelog is rejected.
    """

    key: str | Sequence[str]
    keys_max: int
    error: float = 0.01
    column: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", names(self.key, operator="Seen", field="key"))
        if not self.key:
            raise BadOperator("Seen", "key", "is empty", hint='name a column: key="id"')
        if self.column is not None:
            require_text(self.column, operator="Seen", field="column", hint='such as column="is_returning"')
        limits: tuple[tuple[str, type, float, float], ...] = (
            ("keys_max", int, 1, KEYS_MAX),
            ("error", float, ERROR_MIN, 0.5),
        )
        for field, kind, least, greatest in limits:
            given, hint = getattr(self, field), f"set a number from {least:g} to {greatest:g}"
            require_kind(given, kind, operator="Seen", field=field, hint=hint)
            if not least <= given <= greatest:
                raise BadOperator("Seen", field, f"is {given!r}", hint=hint)

    def __call__(self, rows: DataFrame) -> DataFrame:
        from headrace.operators.state.spark import bucket_count, run_step

        require_columns(rows, self.key, operator="Seen", field="key")
        require_final_rows(rows, operator="Seen", field="key")
        if self.column is not None:
            require_new_name(rows, self.column, operator="Seen")
        size = bloom_size(self.keys_max / bucket_count(rows.sparkSession), self.error)
        step = BloomStep(columns=fields_of(rows, rows.columns), seen=self.column, size=size)
        described = kept_for("Seen", fields_of(rows, self.key), keys_max=self.keys_max, error=self.error)
        prepared = rows.select(*selected(rows, self.key, operator="Seen", field="key"))
        lift = lift_first_rows if self.column is None else lift_rows
        results = run_step(prepared, lift, step, name="seen", kept_for=described)
        return with_times_of(results, rows)
