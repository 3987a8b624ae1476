"""How often the value of a row has occurred."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.operators.approximation.count_min_step import CountMinStep, depth_for, width_for
from headrace.operators.approximation.rows_with_keys import lift_rows, selected, with_times_of
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

ERROR_MIN = 1e-6
"""It takes 13 million cells of 24 bytes per bucket."""

CONFIDENCE_MAX = 1 - 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Frequency(Operator):
    """Add the estimated number of rows with the same value so far, by a count-min sketch of fixed size.

        requests.transform(op.Frequency(of="ip", column="requests")).where("requests > 10000")

    The estimate includes the rows of the micro-batch. It is never too low; with probability `confidence` it is too
    high by at most `error` times the number of all rows.

    of           the columns of the value; null is a value
    column       the name of the column of the estimate
    error        the greatest error, as a share of all rows
    confidence   the probability of that error

    Rows must be final: a changelog is rejected.
    """

    of: str | Sequence[str]
    column: str = "count"
    error: float = 0.001
    confidence: float = 0.99

    def __post_init__(self) -> None:
        object.__setattr__(self, "of", names(self.of, operator="Frequency", field="of"))
        if not self.of:
            raise BadOperator("Frequency", "of", "is empty", hint='name a column: of="ip"')
        require_text(self.column, operator="Frequency", field="column", hint='such as column="count"')
        for field, least, greatest in (("error", ERROR_MIN, 0.5), ("confidence", 0.5, CONFIDENCE_MAX)):
            hint = f"set a fraction from {least:g} to {greatest:g}"
            given = getattr(self, field)
            require_kind(given, float | int, operator="Frequency", field=field, hint=hint)
            if not least <= given <= greatest:
                raise BadOperator("Frequency", field, f"is {given!r}", hint=hint)

    def __call__(self, rows: DataFrame) -> DataFrame:
        from headrace.operators.state.spark import run_step

        require_columns(rows, self.of, operator="Frequency", field="of")
        require_final_rows(rows, operator="Frequency", field="of")
        require_new_name(rows, self.column, operator="Frequency")
        fields = fields_of(rows, rows.columns)
        step = CountMinStep(
            columns=fields,
            estimate=self.column,
            width=width_for(self.error),
            depth=depth_for(self.confidence),
        )
        described = kept_for(
            "Frequency", fields_of(rows, self.of), error=self.error, confidence=self.confidence
        )
        prepared = rows.select(*selected(rows, self.of, operator="Frequency", field="of"))
        results = run_step(prepared, lift_rows, step, name="frequency", kept_for=described)
        return with_times_of(results, rows)


def require_new_name(rows: DataFrame, name: str, *, operator: str) -> None:
    if name in rows.columns:
        raise BadOperator(
            operator,
            "column",
            f"is {name!r}, a column that the rows already have",
            hint="choose another name, or drop the column",
        )
