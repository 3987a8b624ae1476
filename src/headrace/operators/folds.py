"""The state of aggregates: columns that can be merged in any order and any number of times.

A fold turns every row into a state (`lift`), merges several states into one (`merge`), and computes the result of a
state (`result`). Merging is associative and commutative. So it does not matter where rows are merged: in the task that
reads them, in the state of a bucket, or when two sessions merge. Folds ignore null values, as aggregates in SQL do.

States of a group are adjacent. `starts` has the start of each group, as for numpy's `reduceat`.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import HeadraceError
from headrace.operators.ordering import ranks_of, sort_key
from headrace.operators.state.ids import Ints, Mask, is_first

Columns = list[pa.Array]
Floats = npt.NDArray[np.float64]

FLOAT = pa.float64()

DECIMAL_DIGITS_MAX = 38
"""The most digits of a decimal in Spark."""

STATE_DIGITS = 76
"""The digits of a sum of decimals in the state: 38 for a value, and more than enough for the count."""

SUM_MAX = float(2**63)
"""The limit of sums of integers, which are 64-bit integers. They overflow silently, so a sum of floats detects it."""


class Fold(abc.ABC):
    """One aggregate of one column. `values` are the values of the column; None stands for `*`.

    By default, the columns of the state are sums or lists, and the first one is the result.
    """

    state: Sequence[pa.DataType]
    result_type: pa.DataType

    @abc.abstractmethod
    def lift(self, values: pa.Array | None, times_us: Ints) -> Columns: ...

    def merge(self, columns: Columns, starts: Ints) -> Columns:
        return [_sums(each, starts) for each in columns]

    def result(self, columns: Columns) -> pa.Array:
        return columns[0]

    def empty(self, count: int) -> Columns:
        """States without rows."""
        return [_empty(count, kind) for kind in self.state]


class CountFold(Fold):
    state = (pa.int64(),)
    result_type = pa.int64()

    def lift(self, values: pa.Array | None, times_us: Ints) -> Columns:
        return [_ones(len(times_us)) if values is None else _validity(values)]


class CompletenessFold(Fold):
    """The fraction of the expected events that arrived before the watermark passed the end of their window.

    Each row is an event, or reports how many it stands for and how many are missing (`lost_events`). Only the step
    knows which rows are late (`with_lateness`). The state has the expected and the missing events.
    """

    state = (pa.int64(), pa.int64())
    result_type = pa.float64()

    def lift(self, values: pa.Array | None, times_us: Ints) -> Columns:
        if values is None:
            return [_ones(len(times_us)), _empty(len(times_us), pa.int64())]
        missing = values.field("missing")
        return [pc.add(values.field("received"), missing), missing]

    def with_lateness(self, columns: Columns, is_over: Mask) -> Columns:
        """The states of new rows, with the events of closed windows counted as missing."""
        return [columns[0], pc.if_else(pa.array(is_over), *columns)]

    def result(self, columns: Columns) -> pa.Array:
        expected, missing = (np.asarray(each) for each in columns)
        return _null_where_none(pa.array((expected - missing) / np.maximum(expected, 1)), columns[0])


class SumFold(Fold):
    """The sum: a 64-bit integer for integers, a double for floats."""

    def __init__(self, values: pa.DataType) -> None:
        self.result_type = pa.int64() if pa.types.is_integer(values) else pa.float64()
        self.state = (self.result_type, pa.int64())

    def lift(self, values: pa.Array | None, times_us: Ints) -> Columns:
        assert values is not None
        return [values.cast(self.state[0]).fill_null(0), _validity(values)]

    def result(self, columns: Columns) -> pa.Array:
        return _null_where_none(columns[0], columns[1])


class MeanFold(SumFold):
    """The average. From an integer sum, values can be subtracted exactly."""

    def __init__(self, values: pa.DataType = FLOAT) -> None:
        super().__init__(values)
        self.result_type = FLOAT

    def result(self, columns: Columns) -> pa.Array:
        means = np.asarray(columns[0]) / np.maximum(np.asarray(columns[1]), 1)
        return _null_where_none(pa.array(means), columns[1])


class DecimalSumFold(Fold):
    """The exact sum of decimals, with the type of Spark's sum.

    A result that does not fit in its type is null, or an error if `is_strict`, as with Spark's ANSI mode. The state is
    wide enough for any number of values, so only the result matters, not the sums on the way to it.
    """

    def __init__(self, values: pa.DataType, *, is_strict: bool) -> None:
        self.sum_type = pa.decimal128(min(values.precision + 10, DECIMAL_DIGITS_MAX), values.scale)
        self.result_type = self.sum_type
        self.state = (pa.decimal256(STATE_DIGITS, values.scale), pa.int64())
        self._is_strict = is_strict

    def lift(self, values: pa.Array | None, times_us: Ints) -> Columns:
        assert values is not None
        return [values.cast(self.state[0]).fill_null(Decimal(0)), _validity(values)]

    def result(self, columns: Columns) -> pa.Array:
        sums = columns[0]
        fits = self.fits(np.array(pc.less(pc.abs(sums), _limit(self.sum_type, sums.type))))
        return _null_where_none(pc.if_else(pa.array(fits), sums, None).cast(self.sum_type), columns[1])

    def fits(self, is_inside: Mask) -> Mask:
        """The mask, or an error if a result does not fit in its type and the fold is strict."""
        if self._is_strict and not is_inside.all():
            raise HeadraceError(
                f"a sum or an average of decimals does not fit in {self.result_type}",
                hint='use fewer digits: "sum(cast(amount as decimal(18, 2)))"',
            )
        return is_inside


class DecimalMeanFold(DecimalSumFold):
    """The average of decimals: the exact sum divided by the count, rounded as Spark does (half up)."""

    def __init__(self, values: pa.DataType, *, is_strict: bool) -> None:
        super().__init__(values, is_strict=is_strict)
        digits = (values.precision + 4, values.scale + 4)
        self.result_type = pa.decimal128(*(min(each, DECIMAL_DIGITS_MAX) for each in digits))

    def result(self, columns: Columns) -> pa.Array:
        sums, counts = _unscaled(columns[0]), np.asarray(columns[1]).tolist()
        scale, result_scale = self.sum_type.scale, self.result_type.scale
        # Spark rounds twice: its division has one digit more than a decimal can have.
        shift, drop = 10 ** (DECIMAL_DIGITS_MAX + 1 - scale), 10 ** (DECIMAL_DIGITS_MAX + 1 - result_scale)
        means = [
            _half_up(_half_up(each * shift, max(count, 1)), drop)
            for each, count in zip(sums, counts, strict=True)
        ]
        sum_max, mean_max = 10**self.sum_type.precision, 10**self.result_type.precision
        fits = self.fits(
            np.array(
                [abs(one) < sum_max and abs(mean) < mean_max for one, mean in zip(sums, means, strict=True)],
                dtype=np.bool_,
            )
        )
        content = b"".join(
            (mean if fit else 0).to_bytes(16, "little", signed=True)
            for mean, fit in zip(means, fits, strict=True)
        )
        found = pa.Array.from_buffers(self.result_type, len(means), [None, pa.py_buffer(content)])
        return _null_where_none(pc.if_else(pa.array(fits), found, None), columns[1])


class DeviationFold(Fold):
    """The sample standard deviation, from the count, the mean and the sum of squared differences from the mean.

    Sums of squares would lose precision if the mean is large (Chan, Golub and LeVeque).
    """

    state = (pa.int64(), pa.float64(), pa.float64())
    result_type = pa.float64()

    def lift(self, values: pa.Array | None, times_us: Ints) -> Columns:
        assert values is not None
        return [_validity(values), values.cast(FLOAT).fill_null(0), _empty(len(values), FLOAT)]

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
        return [column.take(_positions(column, [column], starts, last=self._greatest))]

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

    def empty(self, count: int) -> Columns:
        return [pa.nulls(count, self.result_type), _empty(count, pa.int64())]


class TimedExtremeFold(Fold):
    """The value with the earliest or the latest time, of structs of a time and a value."""

    def __init__(self, values: pa.DataType, *, last: bool) -> None:
        self.result_type = values.field(1).type
        self.state = (values,)
        self._extreme = ExtremeFold(values, greatest=last)

    def lift(self, values: pa.Array | None, times_us: Ints) -> Columns:
        return self._extreme.lift(values, times_us)

    def merge(self, columns: Columns, starts: Ints) -> Columns:
        return self._extreme.merge(columns, starts)

    def result(self, columns: Columns) -> pa.Array:
        return columns[0].flatten()[1]

    def empty(self, count: int) -> Columns:
        return self._extreme.empty(count)


class CountDistinctFold(Fold):
    """The exact number of distinct values. The state has all of them."""

    result_type = pa.int64()

    def __init__(self, values: pa.DataType) -> None:
        self.state = (pa.list_(values),)

    def lift(self, values: pa.Array | None, times_us: Ints) -> Columns:
        assert values is not None
        return [pa.ListArray.from_arrays(offsets(values.is_valid()), values.drop_null())]

    def merge(self, columns: Columns, starts: Ints) -> Columns:
        values = columns[0].flatten()
        groups, _ = groups_of(columns[0], starts)
        ranked = ranks_of(values)
        order = np.lexsort((ranked, groups))
        kept = order[is_first(groups[order], ranked[order])]
        return [lists(groups[kept], values.take(pa.array(kept)), len(starts))]

    def result(self, columns: Columns) -> pa.Array:
        return columns[0].value_lengths().cast(pa.int64())


class CollectFold(Fold):
    """The first `count_max` values, by time and then by value."""

    def __init__(self, values: pa.DataType, *, count_max: int) -> None:
        self.result_type = pa.list_(values)
        self.state = (self.result_type, pa.list_(pa.int64()))
        self._count_max = count_max

    def lift(self, values: pa.Array | None, times_us: Ints) -> Columns:
        assert values is not None
        is_valid = values.is_valid()
        times = pa.array(times_us).filter(is_valid)
        return [pa.ListArray.from_arrays(offsets(is_valid), each) for each in (values.drop_null(), times)]

    def merge(self, columns: Columns, starts: Ints) -> Columns:
        values, times = columns[0].flatten(), columns[1].flatten()
        groups, _ = groups_of(columns[0], starts)
        order = _order(groups, [times, values])
        kept = order[ranks(groups[order], len(starts)) < self._count_max]
        return [lists(groups[kept], each.take(pa.array(kept)), len(starts)) for each in (values, times)]


class OriginalsFold(Fold):
    """All values in any order: the original rows, for the side output of late rows. They are never in the state."""

    def __init__(self) -> None:
        self.result_type = pa.list_(pa.string())
        self.state = (self.result_type,)

    def lift(self, values: pa.Array | None, times_us: Ints) -> Columns:
        assert values is not None
        return [pa.ListArray.from_arrays(pa.array(np.arange(len(values) + 1, dtype=np.int32)), values)]

    def merge(self, columns: Columns, starts: Ints) -> Columns:
        groups, _ = groups_of(columns[0], starts)
        return [lists(groups, columns[0].flatten(), len(starts))]


def offsets(is_valid: pa.Array) -> pa.Array:
    """The offsets of lists of one element or none."""
    return pa.array(np.append(0, np.cumsum(np.asarray(is_valid))).astype(np.int32))


def lists(groups: Ints, elements: pa.Array, count: int) -> pa.Array:
    """One list per group, from elements that are sorted by group."""
    lengths = np.bincount(groups, minlength=count)
    return pa.ListArray.from_arrays(pa.array(np.append(0, np.cumsum(lengths)).astype(np.int32)), elements)


def groups_of(columns: pa.Array, starts: Ints) -> tuple[Ints, Ints]:
    """The numbers of the group and of the list of each element of a column of lists."""
    numbers = np.repeat(np.arange(len(columns)), np.asarray(columns.value_lengths()).astype(np.int64))
    return _groups(starts, len(columns))[numbers], numbers


def ranks(groups: Ints, count: int) -> Ints:
    """The rank of each element within its group. Elements are sorted by group."""
    counts = np.bincount(groups, minlength=count)
    found: Ints = np.arange(len(groups)) - np.repeat(np.cumsum(counts) - counts, counts)
    return found


def _ones(count: int) -> pa.Array:
    return pa.array(np.ones(count, dtype=np.int64))


def _empty(count: int, kind: pa.DataType) -> pa.Array:
    """Zeros, or empty lists."""
    if pa.types.is_list(kind):
        return lists(np.empty(0, np.int64), pa.array([], kind.value_type), count)
    return pa.array(np.zeros(count, dtype=np.int64)).cast(kind)


def _validity(values: pa.Array) -> pa.Array:
    return values.is_valid().cast(pa.int64()) if values.null_count else _ones(len(values))


def _sums(column: pa.Array, starts: Ints) -> pa.Array:
    if len(starts) == 0:
        return column.slice(0, 0)
    if pa.types.is_decimal(column.type):
        table = pa.table([pa.array(_groups(starts, len(column))), column], ["group", "value"])
        summed = table.group_by("group", use_threads=False).aggregate([("value", "sum")])
        return pa.concat_arrays(summed.column("value_sum").chunks)
    numbers = np.asarray(column)
    sums = np.add.reduceat(numbers, starts)
    if numbers.dtype == np.int64:
        watch = np.add.reduceat(numbers.astype(np.float64), starts)
        if (np.abs(watch) >= SUM_MAX * 0.999).any():
            raise HeadraceError(
                "a sum of integers does not fit in 64 bits", hint='sum doubles: "sum(cast(amount as double))"'
            )
    return pa.array(sums)


def _limit(kind: pa.DataType, shown_as: pa.DataType) -> pa.Scalar:
    """The least power of ten that does not fit in the decimal type."""
    return pa.scalar(Decimal(10) ** (kind.precision - kind.scale), shown_as)


def _unscaled(column: pa.Array) -> list[int]:
    """The integers of wide decimals, without their scale."""
    width = column.type.bit_width // 8
    content = column.buffers()[1].to_pybytes()
    first = column.offset * width
    return [
        int.from_bytes(content[at : at + width], "little", signed=True)
        for at in range(first, first + len(column) * width, width)
    ]


def _half_up(number: int, divisor: int) -> int:
    """The quotient, rounded to the nearest integer; a half is rounded away from zero."""
    rounded = (2 * abs(number) + divisor) // (2 * divisor)
    return rounded if number >= 0 else -rounded


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
    columns = [pa.array(groups), *map(sort_key, keys)]
    table = pa.table(columns, [str(number) for number in range(len(columns))])
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
