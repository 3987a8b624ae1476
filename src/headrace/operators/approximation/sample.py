"""A uniform sample of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from headrace.operators.emitted_times import require_final_rows
from headrace.operators.operator import BadOperator, Operator, names, require_columns, require_kind
from headrace.operators.tables import columns as of
from headrace.operators.tables.newest import COUNT_MAX, Newest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NUMBER = "__number"


@dataclass(frozen=True, slots=True)
class Sample(Operator):
    """Keep a uniform sample of all rows so far: a reservoir of `count` rows for each key.

        clicks.transform(op.Sample(1_000, by="country"))

    The output is a changelog: a row that leaves the sample is retracted. Each row has a random number, the hash of its
    content and the seed, and the rows with the greatest numbers are the sample. So a stream has the sample of the
    bounded rows, and two samples merge into the sample of all rows.

    count   the number of rows per key
    by      the columns of the key; empty for one sample of all rows
    seed    another seed gives another sample

    Equal rows have the same number: they are in the sample together or not at all. Rows of a topic differ by
    `_partition` and `_offset`, which count as content.
    """

    count: int
    _: KW_ONLY
    by: str | Sequence[str] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "by", names(self.by, operator="Sample", field="by"))
        for field in ("count", "seed"):
            require_kind(getattr(self, field), int, operator="Sample", field=field, hint="set an integer")
        if not 1 <= self.count <= COUNT_MAX:
            raise BadOperator(
                "Sample", "count", f"is {self.count!r}", hint=f"set a number of rows from 1 to {COUNT_MAX:,}"
            )
        if not -(2**63) <= self.seed < 2**63:
            raise BadOperator("Sample", "seed", f"is {self.seed!r}", hint="set an integer of 64 bits")

    def __call__(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        require_columns(rows, self.by, operator="Sample", field="by")
        require_final_rows(rows, operator="Sample", field="by")
        number = F.xxhash64(F.lit(self.seed).cast("bigint"), *of.row_parts(rows, rows.columns))
        newest = Newest(self.count, by=self.by, order=_NUMBER, keep=self.count)
        sampled = rows.withColumn(_NUMBER, number).transform(newest)
        return sampled.drop(_NUMBER)
