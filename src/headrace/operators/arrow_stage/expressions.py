"""Expressions on Arrow columns with the results of Spark in ANSI mode and UTC.

A value is an array, or a scalar for all rows. Texts are valid UTF-8. An expression is evaluated on all rows at once.
Where Spark evaluates it on some rows only (`and`, `or`, `if`, `coalesce`), and it can fail, so does this module.

`Doubtful` is raised for rows with which Spark fails, such as a sum that overflows. Spark may evaluate less of an
expression than this module (it skips the second operand of `+` if the first is null), or another part first, so
Spark itself must evaluate these rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds
from msgspec import Struct

from headrace.errors import HeadraceError
from headrace.operators.state.ids import Hashes
from headrace.operators.xxhash import HashedColumn, seed_array

Value: TypeAlias = "pa.Array | pa.Scalar"
"""An array, or a scalar for all rows."""

CompareOperator = Literal["equal", "less", "less_equal", "greater", "greater_equal"]
TextTest = Literal["starts", "ends", "contains"]
ArithmeticOperator = Literal["add", "subtract", "multiply"]
DivisionPart = Literal["floor", "remainder", "modulus"]
BitwiseOperator = Literal["and", "or", "xor"]

_BOOL = pa.bool_()
_LONG = pa.int64()


class Doubtful(HeadraceError):
    """Spark may fail with these rows, or have another result."""


class Expression(Struct, frozen=True, tag=True):
    """A node of a tree, which can be pickled and compared."""

    @property
    def inputs(self) -> tuple[Expression, ...]:
        """The expressions that this one is computed from."""
        return ()

    @property
    def can_fail(self) -> bool:
        return any(each.can_fail for each in self.inputs)

    def of(self, rows: Rows) -> Value:
        raise NotImplementedError


class Column(Expression, frozen=True):
    """A column of the table."""

    name: str

    def of(self, rows: Rows) -> Value:
        return rows.column(self.name)


class Defined(Expression, frozen=True):
    """An expression that is used in several places."""

    number: int
    fails: bool = False

    @property
    def can_fail(self) -> bool:
        return self.fails

    def of(self, rows: Rows) -> Value:
        return rows.value(rows.definitions[self.number])


class Constant(Expression, frozen=True):
    """The same value for all rows; times are given as numbers."""

    value: bool | int | float | str | Decimal | None
    kind: pa.DataType

    def of(self, rows: Rows) -> Value:
        return pa.scalar(self.value, self.kind)


class _Unary(Expression, frozen=True):
    child: Expression

    @property
    def inputs(self) -> tuple[Expression, ...]:
        return (self.child,)


class _Binary(Expression, frozen=True):
    left: Expression
    right: Expression

    @property
    def inputs(self) -> tuple[Expression, ...]:
        return (self.left, self.right)


class IsNull(_Unary, frozen=True):
    def of(self, rows: Rows) -> Value:
        value = rows.value(self.child)
        if value_has_nulls(value):
            return pc.is_null(value)
        return pa.scalar(False)


class IsNaN(_Unary, frozen=True):
    """Null is not NaN."""

    def of(self, rows: Rows) -> Value:
        return pc.fill_null(pc.is_nan(rows.value(self.child)), False)


class Not(_Unary, frozen=True):
    def of(self, rows: Rows) -> Value:
        return pc.invert(rows.value(self.child))


class And(_Binary, frozen=True):
    def of(self, rows: Rows) -> Value:
        left = rows.value(self.left)
        return pc.and_kleene(left, rows.value_where(pc.fill_null(left, True), self.right, _BOOL))


class Or(_Binary, frozen=True):
    def of(self, rows: Rows) -> Value:
        left = rows.value(self.left)
        wanted = pc.invert(pc.fill_null(left, False))
        return pc.or_kleene(left, rows.value_where(wanted, self.right, _BOOL))


class Compare(_Binary, frozen=True):
    """Two values of one type. NaN equals NaN and is greater than all other numbers; -0.0 equals 0.0."""

    operator: CompareOperator
    is_float: bool = False

    def of(self, rows: Rows) -> Value:
        left, right = rows.value(self.left), rows.value(self.right)
        found = getattr(pc, self.operator)(left, right)
        if not self.is_float:
            return found
        if self.operator == "equal":
            return pc.or_(found, pc.and_(pc.is_nan(left), pc.is_nan(right)))
        # Of the sides, the one that may be NaN; if both are, they are equal.
        greater, other = (left, right) if self.operator.startswith("greater") else (right, left)
        is_greatest = pc.is_nan(greater)
        if not self.operator.endswith("equal"):
            is_greatest = pc.and_(is_greatest, pc.invert(pc.is_nan(other)))
        return pc.or_(found, is_greatest)


class EqualNullSafe(_Binary, frozen=True):
    """Null equals null only."""

    is_float: bool = False

    def of(self, rows: Rows) -> Value:
        equal = rows.value(Compare(self.left, self.right, "equal", self.is_float))
        both_null = pc.and_(pc.is_null(rows.value(self.left)), pc.is_null(rows.value(self.right)))
        return pc.or_(pc.fill_null(equal, False), both_null)


class In(_Unary, frozen=True):
    """Whether the value is one of constants, which are neither null nor NaN."""

    constants: tuple[bool | int | str | Decimal, ...]
    kind: pa.DataType
    has_null: bool = False
    """Whether null is among the constants, so that the result is true or null."""

    def of(self, rows: Rows) -> Value:
        value = rows.value(self.child)
        found = pc.is_in(value, value_set=pa.array(self.constants, self.kind))
        is_known = pc.is_valid(value)
        if self.has_null:
            is_known = pc.and_(is_known, found)
        return pc.if_else(is_known, found, pa.scalar(None, _BOOL))


class TestText(_Unary, frozen=True):
    """Whether a text starts with, ends with or contains another one."""

    __test__ = False

    test: TextTest
    pattern: str

    def of(self, rows: Rows) -> Value:
        value = rows.value(self.child)
        if self.test == "starts":
            return pc.starts_with(value, self.pattern)
        return (pc.ends_with if self.test == "ends" else pc.match_substring)(value, self.pattern)


class Length(_Unary, frozen=True):
    """Of a text in code points, of a binary in bytes."""

    in_bytes: bool = False

    def of(self, rows: Rows) -> Value:
        value = rows.value(self.child)
        return (pc.binary_length if self.in_bytes else pc.utf8_length)(value).cast(pa.int32())


class Concat(Expression, frozen=True):
    """The texts one after the other; null if one of them is."""

    children: tuple[Expression, ...]

    @property
    def inputs(self) -> tuple[Expression, ...]:
        return self.children

    def of(self, rows: Rows) -> Value:
        return pc.binary_join_element_wise(*map(rows.value, self.children), "", null_handling="emit_null")


class Coalesce(Expression, frozen=True):
    """The first value that is not null."""

    children: tuple[Expression, ...]
    kind: pa.DataType

    @property
    def inputs(self) -> tuple[Expression, ...]:
        return self.children

    def of(self, rows: Rows) -> Value:
        found = rows.value(self.children[0])
        for each in self.children[1:]:
            if not value_has_nulls(found):
                break
            is_null = pc.is_null(found)
            found = pc.if_else(is_null, rows.value_where(is_null, each, self.kind), found)
        return found


class If(Expression, frozen=True):
    """The first expression if the condition is true, the second one if it is false or null."""

    condition: Expression
    then: Expression
    otherwise: Expression
    kind: pa.DataType

    @property
    def inputs(self) -> tuple[Expression, ...]:
        return (self.condition, self.then, self.otherwise)

    def of(self, rows: Rows) -> Value:
        is_true = pc.fill_null(rows.value(self.condition), False)
        if isinstance(is_true, pa.Scalar):
            return rows.value(self.then if is_true.as_py() else self.otherwise)
        then = rows.value_where(is_true, self.then, self.kind)
        return pc.if_else(is_true, then, rows.value_where(pc.invert(is_true), self.otherwise, self.kind))


class Cast(_Unary, frozen=True):
    """A cast that never fails: to a larger type, or to the nearest float; of an integer or a boolean to a text."""

    kind: pa.DataType

    def of(self, rows: Rows) -> Value:
        return rows.value(self.child).cast(self.kind, safe=False)


class Narrow(_Unary, frozen=True):
    """A cast of numbers to an integer type that may not have the value. Fractions are truncated."""

    kind: pa.DataType

    @property
    def can_fail(self) -> bool:
        return True

    def of(self, rows: Rows) -> Value:
        value = rows.value(self.child)
        if kinds.is_floating(value.type):
            value = pc.trunc(value.cast(pa.float64()))
            bits = self.kind.bit_width - 1
            least, end = pa.scalar(-(2.0**bits)), pa.scalar(2.0**bits)
            _require(pc.and_(pc.greater_equal(value, least), pc.less(value, end)), "a number does not fit")
            return value.cast(self.kind, safe=False)
        with _doubtful():
            return value.cast(self.kind)


class View(_Unary, frozen=True):
    """The same bits as another type: a time as a number, or a number as a time."""

    kind: pa.DataType

    def of(self, rows: Rows) -> Value:
        value = rows.value(self.child)
        return value.cast(self.kind) if isinstance(value, pa.Scalar) else value.view(self.kind)


class Arithmetic(_Binary, frozen=True):
    """On two numbers of one type. Integers that overflow are doubtful if checked; else they wrap."""

    operator: ArithmeticOperator
    is_checked: bool

    @property
    def can_fail(self) -> bool:
        return self.is_checked or self.left.can_fail or self.right.can_fail

    def of(self, rows: Rows) -> Value:
        left, right = rows.value(self.left), rows.value(self.right)
        if not self.is_checked:
            return getattr(pc, self.operator)(left, right)
        with _doubtful():
            return getattr(pc, f"{self.operator}_checked")(left, right)


class Divide(_Binary, frozen=True):
    """The quotient of doubles. Spark fails if the divisor is 0, unless the dividend is null."""

    @property
    def can_fail(self) -> bool:
        return True

    def of(self, rows: Rows) -> Value:
        left, right = rows.value(self.left), rows.value(self.right)
        is_zero = pc.and_(pc.equal(right, pa.scalar(0.0)), pc.is_valid(left))
        _require(pc.invert(is_zero), "a number is divided by 0")
        return pc.divide(left, right)


class DivideBy(_Unary, frozen=True):
    """An integer divided by a positive constant: rounded down, or the remainder.

    The remainder has the sign of the integer, or is not negative if it is a `modulus`.
    """

    divisor: int
    part: DivisionPart

    def of(self, rows: Rows) -> Value:
        value = rows.value(self.child)
        if isinstance(value, pa.Scalar):
            return self._of(pa.array([value]))[0]
        return self._of(value)

    def _of(self, values: pa.Array) -> pa.Array:
        numbers = np.asarray(values.fill_null(0))
        divisor = numbers.dtype.type(self.divisor)
        divide: Callable[..., Any] = {"floor": np.floor_divide, "remainder": np.fmod, "modulus": np.mod}[
            self.part
        ]
        is_null = np.asarray(values.is_null()) if values.null_count else None
        return pa.array(divide(numbers, divisor), values.type, mask=is_null)


class Negate(_Unary, frozen=True):
    is_checked: bool

    @property
    def can_fail(self) -> bool:
        return self.is_checked or self.child.can_fail

    def of(self, rows: Rows) -> Value:
        value = rows.value(self.child)
        if not self.is_checked:
            return pc.negate(value)
        with _doubtful():
            return pc.negate_checked(value)


class Absolute(_Unary, frozen=True):
    is_checked: bool

    @property
    def can_fail(self) -> bool:
        return self.is_checked or self.child.can_fail

    def of(self, rows: Rows) -> Value:
        value = rows.value(self.child)
        if not self.is_checked:
            return pc.abs(value)
        with _doubtful():
            return pc.abs_checked(value)


class Extreme(Expression, frozen=True):
    """The least or the greatest of several integers. Nulls do not count."""

    children: tuple[Expression, ...]
    is_greatest: bool

    @property
    def inputs(self) -> tuple[Expression, ...]:
        return self.children

    def of(self, rows: Rows) -> Value:
        function = pc.max_element_wise if self.is_greatest else pc.min_element_wise
        return function(*map(rows.value, self.children))


class Bitwise(_Binary, frozen=True):
    operator: BitwiseOperator

    def of(self, rows: Rows) -> Value:
        function = getattr(pc, f"bit_wise_{self.operator}")
        return function(rows.value(self.left), rows.value(self.right))


class ShiftRightUnsigned(_Unary, frozen=True):
    """Of a 64-bit integer, by a constant number of bits from 0 to 63."""

    bits: int

    def of(self, rows: Rows) -> Value:
        unsigned = rows.value(self.child).cast(pa.uint64(), safe=False)
        return pc.shift_right(unsigned, pa.scalar(self.bits, pa.uint64())).cast(_LONG, safe=False)


class Field(_Unary, frozen=True):
    """A field of a struct; null if the struct is."""

    number: int

    def of(self, rows: Rows) -> Value:
        return pc.struct_field(rows.value(self.child), [self.number])


class XxHash64(Expression, frozen=True):
    """Spark's hash of several columns, which is never null."""

    children: tuple[Expression, ...]
    seed: int

    @property
    def inputs(self) -> tuple[Expression, ...]:
        return self.children

    def of(self, rows: Rows) -> Value:
        hashes: Hashes = seed_array(self.seed)
        is_constant = True
        for each in self.children:
            value = rows.value(each)
            if isinstance(value, pa.Scalar):
                hashes = rows.hashed_constant(value, hashes)
            else:
                is_constant = False
                hashes = rows.hashed(each, value).hashes(hashes)
        numbers = hashes.view(np.int64)
        if is_constant:
            return pa.scalar(int(numbers[0]), _LONG)
        return pa.array(np.broadcast_to(numbers, (rows.count,)))


class Rows:
    """The rows of a table, and what was computed of them."""

    def __init__(
        self,
        table: pa.Table,
        *,
        kinds_of: Mapping[str, pa.DataType] | None = None,
        definitions: Sequence[Expression] = (),
    ) -> None:
        self.table = table
        self.count = table.num_rows
        self.definitions = definitions
        self._kinds = kinds_of or {}
        self._known: dict[Expression, Value] = {}
        self._hashed: dict[Expression, HashedColumn] = {}

    def value(self, expression: Expression) -> Value:
        found = self._known.get(expression)
        if found is None:
            found = self._known[expression] = expression.of(self)
        return found

    def array(self, expression: Expression) -> pa.Array:
        found = self.value(expression)
        if not isinstance(found, pa.Scalar):
            return found
        return pa.repeat(found, self.count) if found.is_valid else pa.nulls(self.count, found.type)

    def column(self, name: str) -> pa.Array:
        column = self.table.column(name)
        wanted = self._kinds.get(name, column.type)
        if column.type != wanted:
            column = column.cast(wanted)
        combined = column.combine_chunks()
        assert not isinstance(combined, pa.ChunkedArray), f"column {name!r} is too large for one array"
        return combined

    def value_where(self, wanted: Value, expression: Expression, kind: pa.DataType) -> Value:
        """The values on the rows of a mask without nulls; on the other rows, any values."""
        if not expression.can_fail:
            return self.value(expression)
        if isinstance(wanted, pa.Scalar):
            return self.value(expression) if wanted.as_py() else pa.scalar(None, kind)
        columns = columns_of([expression], self.definitions) or self.table.column_names[:1]
        found = self.where(wanted, columns).array(expression)
        return pc.replace_with_mask(pa.nulls(self.count, kind), wanted, found)

    def where(self, mask: pa.Array, columns: Sequence[str]) -> Rows:
        """The rows of a mask, with these columns. Null is false."""
        chosen = self.table.select(list(columns)).filter(mask)
        return Rows(chosen, kinds_of=self._kinds, definitions=self.definitions)

    def hashed(self, expression: Expression, values: pa.Array) -> HashedColumn:
        found = self._hashed.get(expression)
        if found is None:
            found = self._hashed[expression] = HashedColumn(values)
        return found

    def hashed_constant(self, constant: pa.Scalar, seeds: Hashes) -> Hashes:
        if not constant.is_valid:
            return seeds
        return HashedColumn(pa.repeat(constant, len(seeds))).hashes(seeds)


def evaluate(expression: Expression, table: pa.Table) -> pa.Array:
    """The value of an expression on each row."""
    return Rows(table).array(expression)


def value_has_nulls(value: Value) -> bool:
    return not value.is_valid if isinstance(value, pa.Scalar) else bool(value.null_count)


def columns_of(expressions: Iterable[Expression], definitions: Sequence[Expression]) -> list[str]:
    """The names of the columns from which expressions are computed, each once."""
    names: dict[str, None] = {}
    seen: set[int] = set()
    waiting = list(expressions)
    while waiting:
        each = waiting.pop()
        waiting += each.inputs
        if isinstance(each, Column):
            names[each.name] = None
        elif isinstance(each, Defined) and each.number not in seen:
            seen.add(each.number)
            waiting.append(definitions[each.number])
    return list(names)


class _doubtful:
    """An error of a kernel is doubtful."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, pa.ArrowInvalid):
            raise Doubtful(str(error).splitlines()[0]) from error


def _require(condition: Value, problem: str) -> None:
    """Raise if the condition is false on a row."""
    fits = condition if isinstance(condition, pa.Scalar) else pc.all(condition)
    if fits.as_py() is False:
        raise Doubtful(problem)
