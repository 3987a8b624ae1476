"""Clusters of points, continuously."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from headrace.operators.approximation.kmeans_step import (
    CENTRE,
    CLUSTER,
    TIME,
    WEIGHT,
    Forgetting,
    KMeansStep,
    PointLift,
)
from headrace.operators.emitted_times import require_final_rows
from headrace.operators.operator import (
    BadOperator,
    Duration,
    Operator,
    column,
    duration_us,
    event_time_column,
    names,
    require_columns,
    require_kind,
    time_name,
    time_us,
)
from headrace.operators.tables.columns import as_changelog, fields_of, kept_for
from headrace.operators.tables.weighted import OP
from headrace.operators.windows.skipped_rows import has_no_time, skip_rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

K_MAX = 10_000

FEATURE_MAX = 1e150
"""The square of a greater number does not fit in a float."""

_COUNTED = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(point|batche?)s?\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamingKMeans(Operator):
    """Cluster points by k-means, continuously, and forget old points: the model is a table that changes.

        trips.transform(op.StreamingKMeans(k=8, features=["lon", "lat"], half_life="1 hour"))

    The output is a changelog with the columns of `by`, the number of the `cluster`, its `centre` (an array with a
    number per feature), its `weight` (the number of its points, less what was forgotten), and `op`. It changes once per
    micro-batch.

    k           the number of clusters; there are fewer as long as there are fewer distinct points
    features    the columns of numbers
    half_life   after how long a point counts half: a duration in event time ("1 hour"), a number of points
                ("10000 points") or of micro-batches with points ("5 batches"); None to forget nothing
    by          the columns of the key, with a model for each; empty for one model of all rows
    time        the column with the event time; by default the column that the source declared. Only for a duration

    The centres of the first micro-batch are chosen by k-means++. A cluster with almost no weight left is replaced by
    one half of the heaviest cluster. The model depends on the micro-batches: a point is assigned to the nearest centre
    at the time of its batch. Rows with a feature that is null, NaN, infinite or beyond 1e150 are skipped and counted,
    as are rows without the time that they need.
    """

    k: int
    features: str | Sequence[str]
    half_life: Duration | None = None
    by: str | Sequence[str] = ()
    time: str | None = None

    def __post_init__(self) -> None:
        for field in ("features", "by"):
            given = names(getattr(self, field), operator="StreamingKMeans", field=field)
            object.__setattr__(self, field, given)
        object.__setattr__(self, "time", time_name(self.time, operator="StreamingKMeans"))
        require_kind(self.k, int, operator="StreamingKMeans", field="k", hint="set a number of clusters")
        if not 1 <= self.k <= K_MAX:
            raise BadOperator(
                "StreamingKMeans", "k", f"is {self.k!r}", hint=f"set a number from 1 to {K_MAX:,}"
            )
        if not self.features:
            raise BadOperator(
                "StreamingKMeans", "features", "is empty", hint='name columns: features=["lon", "lat"]'
            )
        for name in self.by:
            if name in (CLUSTER, CENTRE, WEIGHT, OP):
                raise BadOperator(
                    "StreamingKMeans",
                    "by",
                    f"names {name!r}, which is also the name of a result",
                    hint="rename the column first",
                )
        _ = self.forgetting

    @property
    def forgetting(self) -> Forgetting:
        if self.half_life is None:
            return Forgetting()
        counted = _COUNTED.fullmatch(self.half_life) if isinstance(self.half_life, str) else None
        if counted is None:
            return Forgetting(
                half_life_us=duration_us(self.half_life, operator="StreamingKMeans", field="half_life")
            )
        count = float(counted[1])
        if count == 0:
            raise BadOperator(
                "StreamingKMeans",
                "half_life",
                f"is {self.half_life!r}, but must be positive",
                hint='such as "5 batches"',
            )
        is_points = counted[2].lower() == "point"
        return Forgetting(half_life_points=count) if is_points else Forgetting(half_life_batches=count)

    def __call__(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        from headrace.operators.state.keys import hashes, key_parts
        from headrace.operators.state.spark import run_step

        require_columns(rows, self.by, operator="StreamingKMeans", field="by")
        self._require_numbers(rows)
        require_final_rows(rows, operator="StreamingKMeans", field="features")
        at, reasons = F.lit(0).cast("bigint"), {"bad_feature": reduce(or_, map(_is_bad, self.features))}
        if self.forgetting.half_life_us is not None:
            time = event_time_column(rows, self.time, operator="StreamingKMeans")
            at = time_us(time)
            reasons["no_time"] = has_no_time(time)
        rows = skip_rows(rows, reasons, name="streaming_kmeans")
        keys = fields_of(rows, self.by)
        step = KMeansStep(keys=keys, features=len(self.features), k=self.k, forgetting=self.forgetting)
        prepared = rows.select(
            *hashes(key_parts(rows, self.by, operator="StreamingKMeans", field="by"), "h"),
            *(column(name).alias(f"k{number}") for number, name in enumerate(self.by)),
            at.alias(TIME),
            *(column(name).cast("double").alias(f"a{number}") for number, name in enumerate(self.features)),
        )
        described = kept_for(
            "StreamingKMeans", keys, k=self.k, features=self.features, half_life=self.half_life
        )
        lift = PointLift(step)
        return as_changelog(run_step(prepared, lift, step, name="streaming_kmeans", kept_for=described))

    def _require_numbers(self, rows: DataFrame) -> None:
        from pyspark.sql.types import NumericType

        require_columns(rows, self.features, operator="StreamingKMeans", field="features")
        for name in self.features:
            kind = rows.schema[name].dataType
            if not isinstance(kind, NumericType):
                raise BadOperator(
                    "StreamingKMeans",
                    "features",
                    f"names column {name!r}, which is {kind.simpleString()}, not a number",
                    hint=f'cast it: rows.withColumn("{name}", F.col("{name}").cast("double"))',
                )


def _is_bad(name: str) -> Column:
    """Whether a feature is null, NaN, infinite or too great. NaN is greater than every number."""
    from pyspark.sql import functions as F

    number = column(name).cast("double")
    return number.isNull() | (F.abs(number) > FEATURE_MAX)
