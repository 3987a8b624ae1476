"""Expressions with SQL's null and three-valued logic: over whole columns (Arrow), and over single values (Python).

Each function has both forms, with the same meaning. Columns are used wherever an expression does not depend on the path
of a match; single values where it does. What a leaf (a column, a navigation, an aggregate) is, the caller decides.
"""

from __future__ import annotations

import functools
import math
import operator
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation, localcontext
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from headrace.errors import HeadraceError
from headrace.operators.patterns import syntax as of

Datum: TypeAlias = Any
"""A column, or a single value for all rows: an array or a scalar of Arrow."""

Scalar = Callable[[Any], Any]
"""A compiled expression: from the leaves at one row to a value."""

EXACT = Context(prec=80)
"""For decimals, which have up to 38 digits. Python rounds to 28 digits by default."""

UTC_TIME = pa.timestamp("us", tz="UTC")
DURATION = pa.duration("us")


class BadExpression(HeadraceError):
    """An expression that can't be evaluated, with its place in the text."""

    def __init__(self, at: int, problem: str, *, hint: str = "") -> None:
        super().__init__(problem, hint=hint)
        self.at = at


class Leaves(Protocol):
    """The values of leaves, as columns of equal length."""

    def leaf(self, node: of.Expression) -> pa.Array: ...


class Function(Struct, frozen=True, kw_only=True):
    columns: Callable[..., Datum]
    scalar: Callable[..., Any]
    least: int
    most: int | None
    is_strict: bool = True
    """Null if any operand is null."""


def evaluate(node: of.Expression, leaves: Leaves) -> Datum:
    """The values of an expression. An expression of constants is a single value."""
    if isinstance(node, of.Constant):
        return _constant(node.value)
    if not isinstance(node, of.Operation | of.Cast):
        return leaves.leaf(node)
    operands = [evaluate(each, leaves) for each in of.children(node)]
    try:
        if isinstance(node, of.Cast):
            return _cast_columns(operands[0], cast_type(node))
        function = FUNCTIONS[node.function]
        if function.is_strict and any(pa.types.is_null(each.type) for each in operands):
            return pa.scalar(None)
        return function.columns(*operands)
    except (pa.ArrowException, TypeError, ValueError, NotImplementedError) as error:
        kinds = " and ".join(str(each.type) for each in operands)
        reason = str(error).splitlines()[0][:200]
        if isinstance(error, ValueError) and not isinstance(error, pa.ArrowNotImplementedError):
            problem = f"{shown(node)} failed on values of type {kinds}: {reason}"
        else:
            problem = f"{shown(node)} is not possible with {kinds}"
        raise BadExpression(node.at, problem, hint="CAST(… AS type) converts a value") from error


def shown(node: of.Operation | of.Cast) -> str:
    return "CAST" if isinstance(node, of.Cast) else node.function.upper()


def as_array(datum: Datum, count: int) -> pa.Array:
    if isinstance(datum, pa.ChunkedArray):
        return datum.combine_chunks()
    return pa.repeat(datum, count) if isinstance(datum, pa.Scalar) else datum


def as_mask(datum: Datum, count: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Where a condition is true; neither false nor unknown."""
    array = as_array(datum, count)
    if pa.types.is_null(array.type):
        return np.zeros(count, dtype=np.bool_)
    return np.asarray(pc.fill_null(array, False))


def compile_scalar(node: of.Expression, leaf: Callable[[of.Expression], Scalar]) -> Scalar:
    """The expression as a function of one argument, which the leaves get."""
    if isinstance(node, of.Constant):
        constant = node.value
        return lambda _: constant
    if not isinstance(node, of.Operation | of.Cast):
        return leaf(node)
    parts = [compile_scalar(each, leaf) for each in of.children(node)]
    if isinstance(node, of.Cast):
        function: Callable[..., Any] = functools.partial(_cast_scalar, cast_type(node))
        is_strict = True
    else:
        function, is_strict = FUNCTIONS[node.function].scalar, FUNCTIONS[node.function].is_strict
    if node_is(node, "and"):
        return lambda at: _and(parts[0](at), parts[1], at)
    if node_is(node, "or"):
        return lambda at: _or(parts[0](at), parts[1], at)
    if not is_strict:
        return lambda at: function(*(each(at) for each in parts))
    if len(parts) == 2:
        first, second = parts

        def both(at: Any) -> Any:
            left = first(at)
            if left is None:
                return None
            right = second(at)
            return None if right is None else function(left, right)

        return both

    def strict(at: Any) -> Any:
        operands = [each(at) for each in parts]
        return None if None in operands else function(*operands)

    return strict


def node_is(node: of.Expression, function: str) -> bool:
    return isinstance(node, of.Operation) and node.function == function


def _and(left: Any, right: Scalar, at: Any) -> Any:
    if left is False:
        return False
    other = right(at)
    if other is False:
        return False
    return None if left is None or other is None else True


def _or(left: Any, right: Scalar, at: Any) -> Any:
    if left is True:
        return True
    other = right(at)
    if other is True:
        return True
    return None if left is None or other is None else False


def _constant(value: Any) -> pa.Scalar:
    if isinstance(value, timedelta):
        return pa.scalar(value, DURATION)
    if isinstance(value, datetime):
        return pa.scalar(value, UTC_TIME)
    return pa.scalar(value)


# Columns


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _as_time(datum: Datum) -> Datum:
    if datum.type == UTC_TIME:
        return datum
    if pa.types.is_timestamp(datum.type) and datum.type.tz is None:
        return pc.assume_timezone(datum.cast(pa.timestamp("us")), "UTC")
    if pa.types.is_date(datum.type):
        return pc.assume_timezone(datum.cast(pa.timestamp("us")), "UTC")
    if pa.types.is_string(datum.type) and isinstance(datum, pa.Scalar):
        return pa.scalar(_parse_time(datum.as_py()), UTC_TIME)
    return datum.cast(UTC_TIME)


def _aligned(left: Datum, right: Datum) -> tuple[Datum, Datum]:
    """Both with types that Arrow combines."""
    if pa.types.is_null(left.type) and not pa.types.is_null(right.type):
        return left.cast(right.type), right
    if pa.types.is_null(right.type):
        return left, right.cast(left.type)
    if _is_time(left.type) and (_is_time(right.type) or _is_time_text(right)):
        return (left, right) if left.type == right.type else (_as_time(left), _as_time(right))
    if _is_time(right.type) and _is_time_text(left):
        return _as_time(left), _as_time(right)
    if pa.types.is_floating(left.type) != pa.types.is_floating(right.type) and all(
        map(_is_number, (left.type, right.type))
    ):
        return _floating(left), _floating(right)
    return left, right


def _is_time_text(datum: Datum) -> bool:
    return pa.types.is_string(datum.type) and isinstance(datum, pa.Scalar)


def _compared(name: str) -> Callable[..., Datum]:
    function = getattr(pc, name)

    def compared(left: Datum, right: Datum) -> Datum:
        left, right = _aligned(left, right)
        if pa.types.is_string(left.type) != pa.types.is_string(right.type):
            raise TypeError("a text is compared with another type")
        return function(left, right)

    return compared


def _wide(datum: Datum) -> Datum:
    return datum.cast(pa.int64()) if pa.types.is_integer(datum.type) else datum


def _arithmetic(name: str) -> Callable[..., Datum]:
    function = getattr(pc, name)

    def computed(left: Datum, right: Datum) -> Datum:
        left, right = _aligned(left, right)
        if pa.types.is_date(left.type) and not _is_time(right.type):
            left = _as_time(left)
        if pa.types.is_date(right.type) and not _is_time(left.type):
            right = _as_time(right)
        return function(_wide(left), _wide(right))

    return computed


def _subtracted(left: Datum, right: Datum) -> Datum:
    if _is_time(left.type) and _is_time(right.type):
        return pc.subtract(_as_time(left), _as_time(right))
    return _arithmetic("subtract_checked")(left, right)


def _floating(datum: Datum) -> Datum:
    return _as_number(datum).cast(pa.float64(), safe=False)  # an integer beyond 2**53 is rounded


def _as_number(datum: Datum) -> Datum:
    if not _is_number(datum.type):
        raise TypeError(
            "it is not a number"
        )  # Arrow casts texts, and fails when it gets one that is no number
    return datum


def _without_zero(datum: Datum) -> Datum:
    is_zero = pc.equal(datum, pa.scalar(0, datum.type))
    return pc.if_else(is_zero, pa.scalar(None, datum.type), datum)


def _divided(left: Datum, right: Datum) -> Datum:
    return pc.divide(_floating(left), _without_zero(_floating(right)))


def _remainder(left: Datum, right: Datum) -> Datum:
    if pa.types.is_integer(left.type) and pa.types.is_integer(right.type):
        left, right = _wide(left), _without_zero(_wide(right))
        return pc.subtract(left, pc.multiply(right, pc.divide(left, right)))
    if any(pa.types.is_floating(each.type) for each in (left, right)):
        return _float_remainder(_floating(left), _without_zero(_floating(right)))
    return _decimal_remainder(*map(_as_number, (left, right)))


def _float_remainder(left: Datum, right: Datum) -> Datum:
    def computed(left: pa.Array, right: pa.Array) -> pa.Array:
        is_null = np.asarray(pc.or_(left.is_null(), right.is_null()))
        with np.errstate(invalid="ignore"):  # of an infinite number: NaN
            found = np.fmod(np.asarray(left.fill_null(1)), np.asarray(right.fill_null(1)))
        return pa.array(found, mask=is_null)

    return _row_by_row(computed, left, right)


def _decimal_remainder(left: Datum, right: Datum) -> Datum:
    def computed(left: pa.Array, right: pa.Array) -> pa.Array:
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        return pa.array([None if None in pair else _modulo(*pair) for pair in pairs], pa.float64())

    return _row_by_row(computed, left, right)


def _row_by_row(function: Callable[[pa.Array, pa.Array], pa.Array], left: Datum, right: Datum) -> Datum:
    """A function of arrays, for single values too."""
    arrays = [each for each in (left, right) if not isinstance(each, pa.Scalar)]
    count = len(arrays[0]) if arrays else 1
    found = function(as_array(left, count), as_array(right, count))
    return found if arrays else found[0]


def _not_distinct(left: Datum, right: Datum) -> Datum:
    left, right = _aligned(left, right)
    if pa.types.is_null(left.type):
        return pc.and_(pc.is_null(left), pc.is_null(right))
    both = pc.and_(pc.is_null(left), pc.is_null(right))
    return pc.or_(both, pc.fill_null(pc.equal(left, right), False))


def _in(operand: Datum, *choices: Datum) -> Datum:
    equal = _compared("equal")
    if pa.types.is_null(operand.type):
        return pa.scalar(None)
    return functools.reduce(pc.or_kleene, (equal(operand, each) for each in choices))


def _texts(*operands: Datum) -> list[Datum]:
    return [each if pa.types.is_string(each.type) else each.cast(pa.string()) for each in operands]


def _concatenated(*operands: Datum) -> Datum:
    return pc.binary_join_element_wise(*_texts(*operands), "")


def _like_columns(operand: Datum, pattern: Datum, escape: Datum) -> Datum:
    regex = like_regex(pattern.as_py(), escape.as_py())
    return pc.match_substring_regex(operand, f"(?s)^(?:{regex})$")


@functools.lru_cache(maxsize=1_000)
def like_regex(pattern: str, escape: str) -> str:
    """The pattern of LIKE as a regular expression."""
    parts: list[str] = []
    characters = iter(pattern)
    for each in characters:
        if each == escape:
            parts.append(re.escape(next(characters, escape)))
        else:
            parts.append({"%": ".*", "_": "."}.get(each, re.escape(each)))
    return "".join(parts)


def _like(operand: str, pattern: str, escape: str) -> bool:
    return re.fullmatch(like_regex(pattern, escape), operand, re.DOTALL) is not None


def _common(*operands: Datum) -> list[Datum]:
    """All of one type, as the branches of a CASE."""
    kinds = {each.type for each in operands if not pa.types.is_null(each.type)}
    if len(kinds) <= 1:
        kind = next(iter(kinds), pa.null())
    elif all(pa.types.is_integer(each) for each in kinds):
        kind = pa.int64()
    elif all(_is_time(each) for each in kinds):
        return [_as_time(each) for each in operands]
    elif all(map(_is_number, kinds)):
        kind = pa.float64()
    else:
        raise TypeError("the types differ")
    return [each if each.type == kind else each.cast(kind, safe=kind != pa.float64()) for each in operands]


def _case_columns(*operands: Datum) -> Datum:
    conditions = operands[:-1:2]
    *found, otherwise = _common(*operands[1:-1:2], operands[-1])
    for condition, each in zip(reversed(conditions), reversed(found), strict=True):
        known = pa.scalar(False) if pa.types.is_null(condition.type) else pc.fill_null(condition, False)
        otherwise = pc.if_else(known, each, otherwise)
    return otherwise


def _case(*operands: Any) -> Any:
    for place in range(0, len(operands) - 1, 2):
        if operands[place] is True:
            return operands[place + 1]
    return operands[-1]


def _substring_columns(text: Datum, start: Datum, length: Datum | None = None) -> Datum:
    if not isinstance(start, pa.Scalar) or not isinstance(length, pa.Scalar | None):
        raise TypeError("the bounds of SUBSTRING must be constants")
    text = _texts(text)[0]
    first, count = start.as_py(), None if length is None else length.as_py()
    if count is not None and count <= 0:
        return pc.if_else(pc.is_null(text), pa.scalar(None, pa.string()), pa.scalar(""))
    begin = first - 1 if first > 0 else first
    if first < 0 and count is not None and first + count < 0:
        return pc.utf8_slice_codeunits(text, begin, begin + count)
    stop = None if count is None or first < 0 else begin + count
    sliced = pc.utf8_slice_codeunits(text, begin, stop)
    return sliced if count is None or first >= 0 else pc.utf8_slice_codeunits(sliced, 0, count)


def _substring(value: Any, start: int, length: int | None = None) -> str:
    text = str(value)
    begin = start + len(text) if start < 0 else max(start - 1, 0)
    end = len(text) if length is None else begin + max(length, 0)
    return text[max(begin, 0) : max(end, 0)]


def _rounded(value: Datum, digits: Datum | None = None) -> Datum:
    count = 0 if digits is None else digits.as_py()
    return pc.round(value, ndigits=count, round_mode="half_towards_infinity")


def _rounded_scalar(value: Any, digits: int = 0) -> Any:
    if isinstance(value, int) and digits >= 0:
        return value
    if isinstance(value, Decimal):
        rounded = value.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP, EXACT)
        return rounded.quantize(value, context=EXACT)
    return pc.round(pa.scalar(value), ndigits=digits, round_mode="half_towards_infinity").as_py()


def _extreme(name: str) -> Callable[..., Datum]:
    function = getattr(pc, name)
    return lambda *operands: function(*_common(*operands), skip_nulls=True)


# Single values


def _numbers(left: Any, right: Any) -> tuple[Any, Any]:
    if isinstance(left, Decimal | int) and isinstance(right, float):
        return float(left), right
    if isinstance(right, Decimal | int) and isinstance(left, float):
        return left, float(right)
    return _times(left, right)


def _times(left: Any, right: Any) -> tuple[Any, Any]:
    if isinstance(left, date) or isinstance(right, date):
        if type(left) is type(right) and getattr(left, "tzinfo", None) == getattr(right, "tzinfo", None):
            return left, right
        return _with_zone(left), _with_zone(right)
    return left, right


def _with_zone(value: Any) -> Any:
    if isinstance(value, str):
        return _parse_time(value)
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    return value


def _on_numbers(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def computed(left: Any, right: Any) -> Any:
        kind = type(left)
        if kind is type(right) and (kind is int or kind is float or kind is str):
            return function(left, right)
        left, right = _numbers(left, right)
        if isinstance(left, Decimal) or isinstance(right, Decimal):
            with localcontext(EXACT):
                return function(left, right)
        return function(left, right)

    return computed


def _checked(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    computed = _on_numbers(function)
    return lambda left, right: _fitting(computed(left, right))


def _fitting(found: Any) -> Any:
    if type(found) is int and not -(2**63) <= found < 2**63:
        raise HeadraceError(f"the result {found} does not fit in 64 bits", hint="CAST(… AS DOUBLE)")
    return found


def _negative(value: Any) -> Any:
    return value.copy_negate() if isinstance(value, Decimal) else _fitting(-value)


def _absolute(value: Any) -> Any:
    return value.copy_abs() if isinstance(value, Decimal) else _fitting(abs(value))


def _divide(left: Any, right: Any) -> Any:
    return None if right == 0 else float(left) / float(right)


def _modulo(left: Any, right: Any) -> Any:
    if right == 0:
        return None
    if isinstance(left, int) and isinstance(right, int):
        return (
            int(math.copysign(abs(left) % abs(right), left))
            if abs(left) < 2**53
            else left - right * _quotient(left, right)
        )
    if isinstance(left, float) or isinstance(right, float):
        return math.fmod(float(left), float(right)) if math.isfinite(left) else math.nan
    return float(EXACT.remainder(Decimal(left), Decimal(right)))


def _quotient(left: int, right: int) -> int:
    found = abs(left) // abs(right)
    return found if (left < 0) == (right < 0) else -found


def _equals(left: Any, right: Any) -> bool | None:
    if left is None or right is None:
        return None
    left, right = _numbers(left, right)
    return bool(left == right)


def _is_in(operand: Any, *choices: Any) -> bool | None:
    found = [_equals(operand, each) for each in choices]
    return True if True in found else None if None in found else False


def _is_not_distinct(left: Any, right: Any) -> bool:
    return (left is None and right is None) or _equals(left, right) is True


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(pa.scalar(value).cast(pa.string()).as_py()) if not isinstance(value, str) else value


def _greatest(*operands: Any) -> Any:
    known = _known(operands)
    return max(known) if known else None


def _least(*operands: Any) -> Any:
    known = _known(operands)
    return min(known) if known else None


def _known(operands: Sequence[Any]) -> list[Any]:
    """Those that are not null, without NaN if there are others."""
    values = [each for each in operands if each is not None]
    return [each for each in values if each == each] or values


def _coalesce(*operands: Any) -> Any:
    return next((each for each in operands if each is not None), None)


def _nullif_columns(left: Datum, right: Datum) -> Datum:
    is_same = pc.fill_null(_compared("equal")(left, right), False)
    return pc.if_else(is_same, pa.scalar(None, left.type), left)


def _root_columns(operand: Datum) -> Datum:
    floats = _floating(operand)
    is_negative = pc.less(floats, pa.scalar(0.0))
    return pc.sqrt(pc.if_else(is_negative, pa.scalar(None, pa.float64()), floats))


def _function(
    columns: Callable[..., Datum],
    scalar: Callable[..., Any],
    least: int,
    most: int | None = -1,
    *,
    is_strict: bool = True,
) -> Function:
    return Function(
        columns=columns,
        scalar=scalar,
        least=least,
        most=least if most == -1 else most,
        is_strict=is_strict,
    )


def _of_truths(name: str) -> Callable[..., Datum]:
    function = getattr(pc, name)
    return lambda left, right: function(
        *(each.cast(pa.bool_()) if pa.types.is_null(each.type) else each for each in (left, right))
    )


def _compiled_apart(left: Any, right: Any) -> Any:
    raise AssertionError("the right side may not be needed")


def _named(name: str) -> Callable[..., Datum]:
    return lambda operand: getattr(pc, name)(_texts(operand)[0])


def _named_scalar(name: str) -> Callable[..., Any]:
    return lambda operand: getattr(pc, name)(pa.scalar(_text(operand))).as_py()


FUNCTIONS: dict[str, Function] = {
    "=": _function(_compared("equal"), _on_numbers(operator.eq), 2),
    "<>": _function(_compared("not_equal"), _on_numbers(operator.ne), 2),
    "<": _function(_compared("less"), _on_numbers(operator.lt), 2),
    "<=": _function(_compared("less_equal"), _on_numbers(operator.le), 2),
    ">": _function(_compared("greater"), _on_numbers(operator.gt), 2),
    ">=": _function(_compared("greater_equal"), _on_numbers(operator.ge), 2),
    "+": _function(_arithmetic("add_checked"), _checked(operator.add), 2),
    "-": _function(_subtracted, _checked(operator.sub), 2),
    "*": _function(_arithmetic("multiply_checked"), _checked(operator.mul), 2),
    "/": _function(_divided, _divide, 2),
    "%": _function(_remainder, _modulo, 2),
    "mod": _function(_remainder, _modulo, 2),
    "negative": _function(lambda operand: pc.negate_checked(_wide(operand)), _negative, 1),
    "positive": _function(lambda operand: operand, lambda operand: operand, 1),
    "abs": _function(lambda operand: pc.abs_checked(_wide(operand)), _absolute, 1),
    "and": _function(_of_truths("and_kleene"), _compiled_apart, 2, is_strict=False),
    "or": _function(_of_truths("or_kleene"), _compiled_apart, 2, is_strict=False),
    "not": _function(pc.invert, operator.not_, 1),
    "is null": _function(pc.is_null, lambda operand: operand is None, 1, is_strict=False),
    "is not distinct": _function(_not_distinct, _is_not_distinct, 2, is_strict=False),
    "in": _function(_in, _is_in, 2, None, is_strict=False),
    "like": _function(_like_columns, _like, 3),
    "||": _function(_concatenated, lambda *operands: "".join(map(_text, operands)), 2),
    "concat": _function(_concatenated, lambda *operands: "".join(map(_text, operands)), 1, None),
    "case": _function(_case_columns, _case, 3, None, is_strict=False),
    "coalesce": _function(
        lambda *operands: pc.coalesce(*_common(*operands)), _coalesce, 1, None, is_strict=False
    ),
    "nullif": _function(
        _nullif_columns,
        lambda left, right: None if _equals(left, right) else left,
        2,
        is_strict=False,
    ),
    "greatest": _function(_extreme("max_element_wise"), _greatest, 1, None, is_strict=False),
    "least": _function(_extreme("min_element_wise"), _least, 1, None, is_strict=False),
    **{
        name: _function(_named(function), _named_scalar(function), 1)
        for name, function in (
            ("lower", "utf8_lower"),
            ("upper", "utf8_upper"),
            ("trim", "utf8_trim_whitespace"),
        )
    },
    "length": _function(
        lambda operand: pc.utf8_length(_texts(operand)[0]).cast(pa.int64()), lambda text: len(_text(text)), 1
    ),
    "substring": _function(_substring_columns, _substring, 2, 3),
    "round": _function(_rounded, _rounded_scalar, 1, 2),
    "floor": _function(
        lambda operand: _cast_columns(pc.floor(_floating(operand)), pa.int64()),
        lambda value: _cast_scalar(pa.int64(), np.floor(float(value))),
        1,
    ),
    "ceil": _function(
        lambda operand: _cast_columns(pc.ceil(_floating(operand)), pa.int64()),
        lambda value: _cast_scalar(pa.int64(), np.ceil(float(value))),
        1,
    ),
    "sqrt": _function(_root_columns, lambda value: None if value < 0 else math.sqrt(value), 1),
}
SAME = {
    "substr": "substring",
    "char_length": "length",
    "ceiling": "ceil",
    "if": "case",
    "lcase": "lower",
    "ucase": "upper",
    "every": "bool_and",
    "arbitrary": "any_value",
}
"""Other names of the same functions."""

_WORDS = ("and", "or", "not", "in", "like", "negative", "positive")
"""Functions that only an operator calls."""

NAMED_FUNCTIONS = sorted(
    name
    for name in (*FUNCTIONS, *SAME)
    if name.isidentifier() and name not in _WORDS and SAME.get(name, name) in FUNCTIONS
)

# Casts

_TYPES = {
    "boolean": pa.bool_(),
    "tinyint": pa.int64(),
    "smallint": pa.int64(),
    "int": pa.int64(),
    "integer": pa.int64(),
    "bigint": pa.int64(),
    "float": pa.float64(),
    "real": pa.float64(),
    "double": pa.float64(),
    "string": pa.string(),
    "varchar": pa.string(),
    "text": pa.string(),
    "timestamp": UTC_TIME,
    "date": pa.date32(),
}
_DECIMAL = re.compile(r"(?:decimal|numeric)\((\d+)(?:,(\d+))?\)")


def cast_type(node: of.Cast) -> pa.DataType:
    if node.type_name in _TYPES:
        return _TYPES[node.type_name]
    if node.type_name.startswith("varchar("):
        return pa.string()
    decimal = _DECIMAL.fullmatch(node.type_name)
    if decimal and 1 <= int(decimal[1]) <= 38 and int(decimal[2] or 0) <= int(decimal[1]):
        return pa.decimal128(int(decimal[1]), int(decimal[2] or 0))
    raise BadExpression(
        node.at, f"type {node.type_name!r} is unknown", hint=f"use one of {', '.join(_TYPES)}, decimal(p, s)"
    )


def _cast_columns(operand: Datum, kind: pa.DataType) -> Datum:
    if operand.type == kind:
        return operand
    try:
        if pa.types.is_floating(operand.type) and pa.types.is_integer(kind):
            return pc.trunc(operand).cast(kind)
        if _is_time(operand.type) and kind == UTC_TIME:
            return _as_time(operand)
        is_rounded = pa.types.is_floating(operand.type) and pa.types.is_decimal(kind)
        if not pa.types.is_string(operand.type) and not is_rounded:
            return operand.cast(kind)  # of floats to decimals, Arrow rounds halves to even
    except pa.ArrowInvalid:
        pass
    if isinstance(operand, pa.Scalar):
        return pa.scalar(_cast_scalar(kind, operand.as_py()), kind)
    return pa.array([_cast_scalar(kind, each) for each in operand.to_pylist()], kind)


def _cast_scalar(kind: pa.DataType, value: Any) -> Any:
    """The value in another type, null if that is not possible."""
    if value is None:
        return None
    try:
        if pa.types.is_boolean(kind):
            return _truth(value)
        if pa.types.is_integer(kind):
            found = int(Decimal(value.strip())) if isinstance(value, str) else int(value)
            return found if -(2**63) <= found < 2**63 else None
        if pa.types.is_floating(kind):
            return float(value)
        if pa.types.is_string(kind):
            return _text(value)
        if pa.types.is_timestamp(kind):
            return _with_zone(value)
        if pa.types.is_date(kind):
            return (
                value.date()
                if isinstance(value, datetime)
                else value
                if isinstance(value, date)
                else date.fromisoformat(value.strip())
            )
        exact = Decimal(str(value).strip())
        rounded = exact.quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP, EXACT)
        return rounded if rounded.is_finite() and len(rounded.as_tuple().digits) <= kind.precision else None
    except (ValueError, ArithmeticError, InvalidOperation, TypeError, AttributeError):
        return None


def _truth(value: Any) -> bool | None:
    if isinstance(value, str):
        return {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}.get(
            value.strip().lower()
        )
    return bool(value)


def _parse_time(text: str) -> datetime:
    found = datetime.fromisoformat(text.strip())
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def conjuncts(node: of.Expression) -> Sequence[of.Expression]:
    """The conditions that AND combines."""
    if isinstance(node, of.Operation) and node.function == "and":
        return [each for part in node.operands for each in conjuncts(part)]
    return [node]
