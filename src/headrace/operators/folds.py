"""How aggregates are kept: as columns that can be merged, whatever the order and however often.

A fold makes a state of every row (`lift`), makes one state of several (`merge`), and tells the result of a state. As
merging is associative and commutative, it does not matter which rows meet where: in the task that read them, in the
state of a bucket, or when two sessions turn out to be one. Null values are left out, as SQL's aggregates do.

States of a group lie side by side, sorted; `starts` says where each group begins (as numpy's `reduceat` has it).
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
"""Sums of integers are 64-bit integers. They would wrap around silently; so a sum in floats watches over them."""


class Fold(abc.ABC):
    """One aggregate of one column. `values` are that column's; None stands for `*`."""

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
        """States of no rows."""


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
    """The share of rows that came before the watermark had passed the end of their window.

    How many did not, only the step that they come to knows (`behind`).
    """

    state = (pa.int64(), pa.int64())
    result_type = pa.float64()

    def lift(self, values: pa.Array | None, times_us: Ints) -> Columns:
        return [pa.array(np.ones(len(times_us), dtype=np.int64)), _zeros(len(times_us))]

    def with_lateness(self, columns: Columns, is_over: Mask) -> Columns:
        """What came, when these of the windows that it came for were over."""
        return [columns[0], pa.array(np.where(is_over, np.asarray(columns[0]), 0))]

    def merge(self, columns: Columns, starts: Ints) -> Columns:
        return [_sums(columns[0], starts), _sums(columns[1], starts)]

    def result(self, columns: Columns) -> pa.Array:
        rows, behind = (np.asarray(each) for each in columns)
        return _null_where_none(pa.array((rows - behind) / np.maximum(rows, 1)), columns[0])

    def empty(self, count: int) -> Columns:
        return [_zeros(count), _zeros(count)]


class SumFold(Fold):
    """Of integers as a 64-bit integer, of floats as a double."""

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
    """The sample's standard deviation, from count, mean and the sum of squared distances from the mean.

    Sums of squares would lose the digits that matter when the mean is large (Chan, Golub and LeVeque).
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
        # Distances are taken from each group's first value: only differences matter, and they are small numbers.
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
    """The least or the greatest value, of any type that has an order. NaN counts as greater than all others."""

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
    """The value with the earliest or the latest time; among several of that time, the least or the greatest one."""

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
    """The values by time, and equal times by value; the earliest `count_max` of them."""

    def __init__(self, values: pa.DataType, *, count_max: int) -> None:
        self.result_type = pa.list_(values)
        self.state = (self.result_type, pa.list_(pa.int64()))
        self._count_max = count_max

    def lift(self, values: pa.Array | None, times_us: Ints) -> Columns:
        assert values is not None
        offsets = pa.array(np.concatenate(([0], np.cumsum(np.asarray(_validity(values))))).astype(np.int32))
        is_there = values.is_valid()
        times = pa.array(times_us).filter(is_there)
        return [
            pa.ListArray.from_arrays(offsets, values.filter(is_there)),
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
    """All values, in any order: the rows themselves, which are carried along and never kept in state."""

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
    """Of each group the first position with a count, or its first one if none has."""
    positions = np.where(counts > 0, np.arange(len(counts)), len(counts))
    first = np.minimum.reduceat(positions, starts)
    return np.where(first == len(counts), starts, first)


def _groups(starts: Ints, count: int) -> Ints:
    """For each position the number of its group."""
    return np.repeat(np.arange(len(starts)), np.diff(np.append(starts, count)))


def _order(groups: Ints, keys: Sequence[pa.Array]) -> Ints:
    table = pa.table([pa.array(groups), *keys], [str(number) for number in range(len(keys) + 1)])
    return np.asarray(pc.sort_indices(table, [(name, "ascending") for name in table.column_names])).astype(
        np.int64
    )


def _positions(values: pa.Array, keys: Sequence[pa.Array], starts: Ints, *, last: bool) -> pa.Array:
    """Of each group the position that comes first or last by the keys; a null only if there is nothing else."""
    if len(starts) == 0:
        return pa.array([], pa.int64())
    is_there = values.is_valid()
    # What is null goes to the far end of its group.
    rank = is_there.cast(pa.int8()) if last else values.is_null().cast(pa.int8())
    order = _order(_groups(starts, len(values)), [rank, *keys])
    ends = np.append(starts[1:], len(values)) - 1
    return pa.array(order[ends if last else starts])


def _pick(values: pa.Array, keys: Sequence[pa.Array], starts: Ints, *, last: bool) -> pa.Array:
    return values.take(_positions(values, keys, starts, last=last))
