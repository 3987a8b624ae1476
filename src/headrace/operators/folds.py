"""The state of aggregates: columns that can be merged in any order and any number of times.

A fold turns every row into a state (`lift`), merges several states into one (`merge`), and computes the result of a
state (`result`). Merging is associative and commutative. So it does not matter where rows are merged: in the task that
reads them, in the state of a bucket, or when two sessions merge. Folds ignore null values, as aggregates in SQL do.

States of a group are adjacent. `starts` has the start of each group, as for numpy's `reduceat`.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import HeadraceError
from headrace.operators.state.ids import Ints, Mask

Columns = list[pa.Array]
Floats = npt.NDArray[np.float64]

SUM_MAX = float(2**63)
"""The limit of sums of integers, which are 64-bit integers. They overflow silently, so a sum of floats detects it."""


class Fold(abc.ABC):
    """One aggregate of one column. `values` are the values of the column; None stands for `*`."""

    state: Sequence[pa.DataType]
    result_type: pa.DataType

    @abc.abstractmethod
    def lift(self, values: pa.Array | None, times_us: Ints) -> Columns: ...

    @abc.abstractmethod
    def merge(self, columns: Columns, starts: Ints) -> Columns: ...

    @abc.abstractmethod
    def result(self, columns: Columns) -> pa.Array: ...

    @abc.abstractmethod
    def empty(self, count: int) -> Columns:
        """States without rows."""


class CountFold(Fold):
    state = (pa.int64(),)
    result_type = pa.int64()

    def lift(self, values: pa.Array | None, times_us: Ints) -> Columns:
        if values is None:
            return [pa.array(np.ones(len(times_us), dtype=np.int64))]
        return [_validity(values)]

    def merge(self, columns: Columns, starts: Ints) -> Columns:
        return [_sums(columns[0], starts)]

    def result(self, columns: Columns) -> pa.Array:
        return columns[0]

    def empty(self, count: int) -> Columns:
        return [_zeros(count)]


class CompletenessFold(Fold):
    """The fraction of rows that arrived before the watermark passed the end of their window.

    Only the step knows which rows are late (`with_lateness`).
    """

    state = (pa.int64(), pa.int64())
    result_type = pa.float64()

    def lift(self, values: pa.Array | None, times_us: Ints) -> Columns:
        return [pa.array(np.ones(len(times_us), dtype=np.int64)), _zeros(len(times_us))]

    def with_lateness(self, columns: Columns, is_over: Mask) -> Columns:
        """The states of new rows, with the rows of closed windows counted as late."""
        return [columns[0], pa.array(np.where(is_over, np.asarray(columns[0]), 0))]

    def merge(self, columns: Columns, starts: Ints) -> Columns:
        return [_sums(columns[0], starts), _sums(columns[1], starts)]

    def result(self, columns: Columns) -> pa.Array:
        rows, late = (np.asarray(each) for each in columns)
        return _null_where_none(pa.array((rows - late) / np.maximum(rows, 1)), columns[0])

    def empty(self, count: int) -> Columns:
        return [_zeros(count), _zeros(count)]


class SumFold(Fold):
    """The sum: a 64-bit integer for integers, a double for floats."""

    def __init__(self, values: pa.DataType) -> None:
        self.result_type = pa.int64() if pa.types.is_integer(values) else pa.float64()
        self.state = (self.result_type, pa.int64())

    def lift(self, values: pa.Array | None, times_us: Ints) -> Columns:
        assert values is not None
        return [values.cast(self.result_type).fill_null(0), _validity(values)]

    def merge(self, columns: Columns, starts: Ints) -> Columns:
        return [_sums(columns[0], starts), _sums(columns[1], starts)]

    def result(self, columns: Columns) -> pa.Array:
        return _null_where_none(columns[0], columns[1])

    def empty(self, count: int) -> Columns:
        return [_zeros(count, self.result_type), _zeros(count)]


class MeanFold(Fold):
    state = (pa.float64(), pa.int64())
    result_type = pa.float64()

    def lift(self, values: pa.Array | None, times_us: Ints) -> Columns:
        assert values is not None
        return [values.cast(pa.float64()).fill_null(0), _validity(values)]

    def merge(self, columns: Columns, starts: Ints) -> Columns:
        return [_sums(columns[0], starts), _sums(columns[1], starts)]

    def result(self, columns: Columns) -> pa.Array:
        counts = np.asarray(columns[1])
        means = np.asarray(columns[0]) / np.maximum(counts, 1)
        return _null_where_none(pa.array(means), columns[1])

    def empty(self, count: int) -> Columns:
        return [_zeros(count, pa.float64()), _zeros(count)]


class DeviationFold(Fold):
    """The sample standard deviation, from the count, the mean and the sum of squared differences from the mean.

    Sums of squares would lose precision if the mean is large (Chan, Golub and LeVeque).
    """

    state = (pa.int64(), pa.float64(), pa.float64())
    result_type = pa.float64()

    def lift(self, values: pa.Array | None, times_us: Ints) -> Columns:
        assert values is not None
        return [
            _validity(values),
            values.cast(pa.float64()).fill_null(0),
            _zeros(len(values), pa.float64()),
        ]

    def merge(self, columns: Columns, starts: Ints) -> Columns:
        if len(starts) == 0:
            return self.empty(0)
        counts, means, squares = (np.asarray(each) for each in columns)
        lengths = np.diff(np.append(starts, len(counts)))
        count = np.add.reduceat(counts, starts)
        # Differences are relative to the first value of each group, so that they are small numbers.
        anchor = np.repeat(means[_first_nonzero(counts, starts)], lengths)
        shift = np.add.reduceat(counts * (means - anchor), starts) / np.maximum(count, 1)
        distance = (means - anchor) - np.repeat(shift, lengths)
        square = np.add.reduceat(squares + counts * distance * distance, starts)
        mean = anchor[starts] + shift
        return [pa.array(count), pa.array(np.where(count > 0, mean, 0.0)), pa.array(square)]

    def result(self, columns: Columns) -> pa.Array:
        counts = np.asarray(columns[0])
        deviations = np.sqrt(np.asarray(columns[2]) / np.maximum(counts - 1, 1))
        return pa.array(deviations, mask=counts < 2)

    def empty(self, count: int) -> Columns:
        return [_zeros(count), _zeros(count, pa.float64()), _zeros(count, pa.float64())]


class ExtremeFold(Fold):
    """The minimum or the maximum, of any ordered type. NaN is greater than all other values."""

    def __init__(self, values: pa.DataType, *, greatest: bool) -> None:
        self.result_type = values
        self.state = (values,)
        self._greatest = greatest
        self._is_number = pa.types.is_integer(values) or pa.types.is_floating(values)

    def lift(self, values: pa.Array | None, times_us: Ints) -> Columns:
        assert values is not None
        return [values]

    def merge(self, columns: Columns, starts: Ints) -> Columns:
        column = columns[0]
        if self._is_number and column.null_count == 0 and len(starts):
            reduce = np.maximum if self._greatest else np.fmin
            return [pa.array(reduce.reduceat(np.asarray(column), starts), self.result_type)]
        return [_pick(column, [column], starts, last=self._greatest)]

    def result(self, columns: Columns) -> pa.Array:
        return columns[0]

    def empty(self, count: int) -> Columns:
        return [pa.nulls(count, self.result_type)]


class EdgeFold(Fold):
    """The value with the earliest or the latest time; among equal times, the minimum or the maximum."""

    def __init__(self, values: pa.DataType, *, last: bool) -> None:
        self.result_type = values
        self.state = (values, pa.int64())
        self._last = last

    def lift(self, values: pa.Array | None, times_us: Ints) -> Columns:
        assert values is not None
        return [values, pa.array(times_us)]

    def merge(self, columns: Columns, starts: Ints) -> Columns:
        by_time = [columns[1], columns[0]]
        picked = _positions(columns[0], by_time, starts, last=self._last)
        return [each.take(picked) for each in columns]

    def result(self, columns: Columns) -> pa.Array:
        return columns[0]

    def empty(self, count: int) -> Columns:
        return [pa.nulls(count, self.result_type), _zeros(count)]


class CollectFold(Fold):
    """The first `count_max` values, by time and then by value."""

    def __init__(self, values: pa.DataType, *, count_max: int) -> None:
        self.result_type = pa.list_(values)
        self.state = (self.result_type, pa.list_(pa.int64()))
        self._count_max = count_max

    def lift(self, values: pa.Array | None, times_us: Ints) -> Columns:
        assert values is not None
        offsets = pa.array(np.concatenate(([0], np.cumsum(np.asarray(_validity(values))))).astype(np.int32))
        is_valid = values.is_valid()
        times = pa.array(times_us).filter(is_valid)
        return [
            pa.ListArray.from_arrays(offsets, values.filter(is_valid)),
            pa.ListArray.from_arrays(offsets, times),
        ]

    def merge(self, columns: Columns, starts: Ints) -> Columns:
        if len(starts) == 0:
            return self.empty(0)
        values, times = columns[0].flatten(), columns[1].flatten()
        lengths = np.asarray(columns[0].value_lengths()).astype(np.int64)
        groups = np.repeat(_groups(starts, len(columns[0])), lengths)
        order = _order(groups, [times, values])
        groups = groups[order]
        counts = np.bincount(groups, minlength=len(starts))
        rank = np.arange(len(groups)) - np.repeat(np.cumsum(counts) - counts, counts)
        kept = pa.array(order[rank < self._count_max])
        offsets = np.concatenate(([0], np.cumsum(np.minimum(counts, self._count_max)))).astype(np.int32)
        return [pa.ListArray.from_arrays(pa.array(offsets), each.take(kept)) for each in (values, times)]

    def result(self, columns: Columns) -> pa.Array:
        return columns[0]

    def empty(self, count: int) -> Columns:
        offsets = pa.array(np.zeros(count + 1, dtype=np.int32))
        return [pa.ListArray.from_arrays(offsets, pa.array([], each.value_type)) for each in self.state]


class OriginalsFold(Fold):
    """All values in any order: the original rows, for the side output of late rows. They are never in the state."""

    def __init__(self) -> None:
        self.result_type = pa.list_(pa.string())
        self.state = (self.result_type,)

    def lift(self, values: pa.Array | None, times_us: Ints) -> Columns:
        assert values is not None
        return [pa.ListArray.from_arrays(pa.array(np.arange(len(values) + 1, dtype=np.int32)), values)]

    def merge(self, columns: Columns, starts: Ints) -> Columns:
        if len(starts) == 0:
            return self.empty(0)
        counts = np.add.reduceat(np.asarray(columns[0].value_lengths()), starts)
        offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
        return [pa.ListArray.from_arrays(pa.array(offsets), columns[0].flatten())]

    def result(self, columns: Columns) -> pa.Array:
        return columns[0]

    def empty(self, count: int) -> Columns:
        return [
            pa.ListArray.from_arrays(pa.array(np.zeros(count + 1, dtype=np.int32)), pa.array([], pa.string()))
        ]


def _zeros(count: int, kind: pa.DataType | None = None) -> pa.Array:
    return pa.array(np.zeros(count, dtype=np.int64)).cast(kind or pa.int64())


def _validity(values: pa.Array) -> pa.Array:
    if values.null_count == 0:
        return pa.array(np.ones(len(values), dtype=np.int64))
    return values.is_valid().cast(pa.int64())


def _sums(column: pa.Array, starts: Ints) -> pa.Array:
    if len(starts) == 0:
        return column.slice(0, 0)
    numbers = np.asarray(column)
    sums = np.add.reduceat(numbers, starts)
    if numbers.dtype == np.int64:
        watch = np.add.reduceat(numbers.astype(np.float64), starts)
        if (np.abs(watch) >= SUM_MAX * 0.999).any():
            raise HeadraceError(
                "a sum of integers does not fit in 64 bits", hint='sum doubles: "sum(cast(amount as double))"'
            )
    return pa.array(sums)


def _null_where_none(values: pa.Array, counts: pa.Array) -> pa.Array:
    none = np.asarray(counts) == 0
    return pc.if_else(pa.array(none), pa.scalar(None, values.type), values) if none.any() else values


def _first_nonzero(counts: Ints, starts: Ints) -> Ints:
    """The first position with a count in each group, or the start of a group without counts."""
    positions = np.where(counts > 0, np.arange(len(counts)), len(counts))
    first = np.minimum.reduceat(positions, starts)
    return np.where(first == len(counts), starts, first)


def _groups(starts: Ints, count: int) -> Ints:
    """The number of the group of each position."""
    return np.repeat(np.arange(len(starts)), np.diff(np.append(starts, count)))


def _order(groups: Ints, keys: Sequence[pa.Array]) -> Ints:
    table = pa.table([pa.array(groups), *keys], [str(number) for number in range(len(keys) + 1)])
    return np.asarray(pc.sort_indices(table, [(name, "ascending") for name in table.column_names])).astype(
        np.int64
    )


def _positions(values: pa.Array, keys: Sequence[pa.Array], starts: Ints, *, last: bool) -> pa.Array:
    """The position of the first or last value by the keys in each group; a null only if all values are null."""
    if len(starts) == 0:
        return pa.array([], pa.int64())
    # Nulls sort to the other end of their group.
    rank = values.is_valid().cast(pa.int8()) if last else values.is_null().cast(pa.int8())
    order = _order(_groups(starts, len(values)), [rank, *keys])
    ends = np.append(starts[1:], len(values)) - 1
    return pa.array(order[ends if last else starts])


def _pick(values: pa.Array, keys: Sequence[pa.Array], starts: Ints, *, last: bool) -> pa.Array:
    return values.take(_positions(values, keys, starts, last=last))
