"""The step of streaming k-means. A cluster is a row of state; the rows of a key have the same id."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from msgspec import Struct

from headrace.operators.approximation.clusters import Clusters, Matrix, moved
from headrace.operators.folds import Floats, lists
from headrace.operators.state.ids import Hashes, Ids, Ints, ids_of, segment_starts
from headrace.operators.state.run import ids_column
from headrace.operators.state.step import Step, StepResult, StepTime
from headrace.operators.state.table import StateTable, column_of, hashes_of, ids_in, ints_of, state_schema
from headrace.operators.tables.weighted import changelog_schema, emitted, numbered

CLUSTER, CENTRE, WEIGHT = "cluster", "centre", "weight"
TIME = "time"


class Forgetting(Struct, frozen=True, kw_only=True):
    """After how much the weight of a cluster halves: microseconds of event time, points or batches; None for never."""

    half_life_us: int | None = None
    half_life_points: float | None = None
    half_life_batches: float | None = None

    def decay(self, points: int, elapsed_us: int) -> float:
        """The factor of the weights of the model before a batch of so many points."""
        lives = 0.0
        if self.half_life_us is not None:
            lives = max(elapsed_us, 0) / self.half_life_us
        elif self.half_life_points is not None:
            lives = points / self.half_life_points
        elif self.half_life_batches is not None:
            lives = 1 / self.half_life_batches
        return float(0.5**lives)

    def weights(self, times_us: Ints, now_us: int) -> Floats:
        """The weights of new points: 1, or less for points that are older than the newest one."""
        if self.half_life_us is None:
            return np.ones(len(times_us))
        return np.asarray(0.5 ** ((now_us - times_us) / self.half_life_us), dtype=np.float64)


class KMeansStep(Step):
    """The input has `id`, the keys, `time` in microseconds, and the features `a0`…, which are finite."""

    def __init__(self, *, keys: Sequence[pa.Field], features: int, k: int, forgetting: Forgetting) -> None:
        own = numbered("k", keys, key=[each.name for each in keys])
        self._keys = [each.name for each in own]
        self._features = [f"a{number}" for number in range(features)]
        self._k = k
        self._forgetting = forgetting
        model = [
            pa.field(CLUSTER, pa.int32()),
            pa.field(CENTRE, pa.list_(pa.float64())),
            pa.field(WEIGHT, pa.float64()),
        ]
        time = pa.field(TIME, pa.int64())
        self.input_schema = state_schema(
            [*own, time, *(pa.field(name, pa.float64()) for name in self._features)]
        )
        self.state_schema = state_schema([*own, time, *model])
        self.output_schema = changelog_schema([*keys, *model])

    def __call__(self, table: StateTable, rows: pa.Table, time: StepTime) -> StepResult:
        if rows.num_rows == 0:
            return self.unchanged()
        order = np.argsort(ids_in(rows), kind="stable")
        rows = rows.take(pa.array(order)).combine_chunks()
        ids, times_us = ids_in(rows), ints_of(rows, TIME)
        starts = segment_starts(ids)
        ends = np.append(starts[1:], len(ids))
        points = np.column_stack([np.asarray(column_of(rows, name)) for name in self._features])
        before = self._sorted(table.take(ids[starts]))
        was = ids_in(before)
        old_times_us = ints_of(before, TIME)
        models, latest_us = [], []
        for start, end in zip(starts, ends, strict=True):
            first, last = (int(np.searchsorted(was, ids[start], side=side)) for side in ("left", "right"))
            at_us = times_us[start:end]
            newest_us = int(at_us.max())
            if last > first:
                newest_us = max(newest_us, int(old_times_us[first]))
            elapsed_us = newest_us - int(old_times_us[first]) if last > first else 0
            models.append(
                moved(
                    self._model(before, first, last),
                    points[start:end],
                    self._forgetting.weights(at_us, newest_us),
                    k=self._k,
                    decay=self._forgetting.decay(end - start, elapsed_us),
                )
            )
            latest_us.append(newest_us)
        now = self._rows(rows, starts, ids[starts], models, latest_us)
        return StepResult(
            rows=now, deleted=np.empty(0, dtype=np.complex128), output=self._changes(before, now)
        )

    def _sorted(self, rows: pa.Table) -> pa.Table:
        order = np.lexsort((ints_of(rows, CLUSTER), ids_in(rows)))
        return rows.take(pa.array(order)).combine_chunks()

    def _model(self, rows: pa.Table, first: int, last: int) -> Clusters:
        if first == last:
            return Clusters.none(len(self._features))
        part = rows.slice(first, last - first)
        centres: Matrix = np.asarray(column_of(part, CENTRE).flatten()).reshape(-1, len(self._features))
        return Clusters(centres, np.asarray(column_of(part, WEIGHT)))

    def _rows(
        self, rows: pa.Table, heads: Ints, ids: Ids, models: Sequence[Clusters], latest_us: Sequence[int]
    ) -> pa.Table:
        counts = np.array([len(each) for each in models])
        repeated = np.repeat(np.arange(len(ids)), counts)
        centres = np.concatenate([each.centres.ravel() for each in models])
        groups = np.repeat(np.arange(len(repeated)), len(self._features))
        columns = [
            ids_column(ids[repeated]),
            *(column_of(rows, name).take(pa.array(heads[repeated])) for name in self._keys),
            pa.array(np.array(latest_us)[repeated]),
            pa.array(np.concatenate([np.arange(count) for count in counts]), pa.int32()),
            lists(groups, pa.array(centres), len(repeated)),
            pa.array(np.concatenate([each.weights for each in models])),
        ]
        return pa.table(columns, schema=self.state_schema)

    def _changes(self, before: pa.Table, now: pa.Table) -> pa.Table:
        """The clusters that moved or have another weight."""
        names = [*self._keys, CLUSTER, CENTRE, WEIGHT]
        was, new = (
            [tuple(row.values()) for row in each.select(["id", *names]).to_pylist()] for each in (before, now)
        )
        unchanged = {_hashable(row) for row in was} & {_hashable(row) for row in new}
        parts, weights = [], []
        for table, rows, weight in ((before, was, -1), (now, new, 1)):
            is_other = [_hashable(row) not in unchanged for row in rows]
            parts.append(table.select(names).filter(pa.array(is_other, pa.bool_())))
            weights += [weight] * sum(is_other)
        both = pa.concat_tables(parts).combine_chunks()
        return emitted(
            self.output_schema, [column_of(both, name) for name in names], np.array(weights, np.int64)
        )


def _hashable(row: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(tuple(each) if isinstance(each, list) else each for each in row)


class PointLift:
    """Lift rows with `h1`, `h2`, `k0`…, `time` and `a0`…: the hashes become the id."""

    def __init__(self, step: KMeansStep) -> None:
        self._schema = step.input_schema

    def __call__(self, rows: pa.Table) -> tuple[pa.Table, Hashes]:
        first, second = hashes_of(rows)
        columns = [column_of(rows, name) for name in self._schema.names[1:]]
        return pa.table([ids_column(ids_of(first, second)), *columns], schema=self._schema), first
