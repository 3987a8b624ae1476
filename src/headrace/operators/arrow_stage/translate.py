"""From Catalyst's expressions to those of Arrow. What has no translation with exactly Spark's results raises
`NotTranslated`.

Integers in ANSI mode fail on overflow, and so does the translation (`Doubtful`); without ANSI mode they wrap. `try_…`
is not translated. Texts have the default collation, UTF8_BINARY, which compares bytes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import _parse_datatype_json_value

from headrace.operators.arrow_stage import expressions as to
from headrace.operators.arrow_stage.catalyst import ExprId, Node
from headrace.operators.arrow_stage.expressions import Constant, Expression
from headrace.operators.xxhash import can_hash

UTC = ("UTC", "Etc/UTC")

DAY_US = 86_400_000_000
_BOOL, _INT, _LONG, _DOUBLE, _TEXT = pa.bool_(), pa.int32(), pa.int64(), pa.float64(), pa.string()
_TIME, _LOCAL_TIME = pa.timestamp("us", tz="UTC"), pa.timestamp("us")

_COMPARABLE = (
    kinds.is_boolean,
    kinds.is_integer,
    kinds.is_floating,
    kinds.is_decimal128,
    kinds.is_date32,
    kinds.is_timestamp,
    kinds.is_string,
    kinds.is_binary,
)

_ESCAPE = "\\"
"""The escape character of LIKE, if none is given."""

_DAY_TIME = ("interval day", "interval hour", "interval minute", "interval second")
"""How the names of intervals begin that are a number of microseconds."""


class NotTranslated(Exception):
    """Spark must evaluate the expression."""


class Typed(NamedTuple):
    """An expression and the type of its values."""

    expression: Expression
    kind: pa.DataType


class Translation:
    """The translation of expressions on columns. `resolved` returns the column with an id."""

    def __init__(self, resolved: Callable[[ExprId], Typed]) -> None:
        self._resolved = resolved
        self._common: list[tuple[Node, Typed]] = []
        """The common expressions of BETWEEN and NULLIF around the node."""

    def expression(self, node: Node) -> Expression:
        return self.typed(node).expression

    def typed(self, node: Node) -> Typed:
        own = _OWN.get(node.name)
        if own is None:
            raise NotTranslated(node.name)
        return own(self, node)

    def all_of(self, node: Node) -> list[Typed]:
        return [self.typed(each) for each in node.children]

    def pair(self, node: Node) -> tuple[Typed, Typed]:
        """The two operands, which have one type."""
        left, right = self.all_of(node)
        _require(left.kind == right.kind, node)
        return left, right

    def attribute(self, node: Node) -> Typed:
        found = self._resolved(node.expr_id)
        _require(found.kind == arrow_type(node.fields["dataType"]), node)
        return found

    def with_common(self, node: Node) -> Typed:
        child, *definitions = node.children
        _require(all(each.name == "CommonExpressionDef" for each in definitions), node)
        before = self._common
        self._common = [*before, *((each, self.typed(each.children[0])) for each in definitions)]
        try:
            return self.typed(child)
        finally:
            self._common = before

    def common(self, node: Node) -> Typed:
        if len(self._common) == 1:
            return self._common[0][1]
        wanted = node.setting("id", "id")
        _require(wanted is not None, node)
        for definition, found in self._common:
            if definition.setting("id", "id") == wanted:
                return found
        raise NotTranslated(node.name)


def arrow_type(written: dict[str, Any] | str) -> pa.DataType:
    """The type of a column of Arrow, from Catalyst's type as JSON. Texts with collations have none."""
    try:
        kind = _parse_datatype_json_value(written)
        if "collate" in kind.simpleString():
            raise NotTranslated(kind.simpleString())
        return to_arrow_type(kind, timezone="UTC")
    except (PySparkException, ValueError, TypeError, KeyError) as error:
        raise NotTranslated(str(written)) from error


def _require(condition: bool, node: Node) -> None:
    if not condition:
        raise NotTranslated(node.name)


def _only_child(translation: Translation, node: Node) -> Typed:
    (child,) = node.children
    return translation.typed(child)


def _literal(_: Translation, node: Node) -> Typed:
    written, kind = node.fields["value"], arrow_type(node.fields["dataType"])
    value: bool | int | float | str | Decimal | None
    if written is None:
        value = None
    elif kinds.is_boolean(kind):
        value = written == "true"
    elif kinds.is_integer(kind) or kind == _LOCAL_TIME:
        value = int(written)
    elif kinds.is_floating(kind):
        value = float(written)
        # Equal expressions are evaluated once, and both zeros are equal.
        _require(str(value) != "-0.0", node)
        # A rounded double is perhaps not the float that Java read.
        _require(kind == _DOUBLE or not value - float(np.float32(value)), node)
    elif kinds.is_decimal128(kind):
        value = Decimal(written)
    elif kinds.is_string(kind):
        value = written
        _require("\ufffd" not in written, node)
    elif kind == _TIME or kinds.is_date32(kind):
        value = int(node.setting("value") or "")
    else:
        raise NotTranslated(node.name)
    return Typed(Constant(value, kind), kind)


def _is_null(translation: Translation, node: Node) -> Typed:
    return Typed(to.IsNull(_only_child(translation, node).expression), _BOOL)


def _is_not_null(translation: Translation, node: Node) -> Typed:
    return Typed(to.Not(to.IsNull(_only_child(translation, node).expression)), _BOOL)


def _is_nan(translation: Translation, node: Node) -> Typed:
    child = _only_child(translation, node)
    _require(kinds.is_floating(child.kind), node)
    return Typed(to.IsNaN(child.expression), _BOOL)


def _not(translation: Translation, node: Node) -> Typed:
    return Typed(to.Not(_only_child(translation, node).expression), _BOOL)


def _logical(kind: type[to.And | to.Or]) -> Callable[[Translation, Node], Typed]:
    def own(translation: Translation, node: Node) -> Typed:
        left, right = translation.pair(node)
        _require(left.kind == _BOOL, node)
        return Typed(kind(left.expression, right.expression), _BOOL)

    return own


def _is_comparable(kind: pa.DataType) -> bool:
    return any(each(kind) for each in _COMPARABLE)


def _compared(operator: to.CompareOperator) -> Callable[[Translation, Node], Typed]:
    def own(translation: Translation, node: Node) -> Typed:
        left, right = translation.pair(node)
        _require(_is_comparable(left.kind), node)
        is_float = kinds.is_floating(left.kind)
        return Typed(to.Compare(left.expression, right.expression, operator, is_float), _BOOL)

    return own


def _equal_null_safe(translation: Translation, node: Node) -> Typed:
    left, right = translation.pair(node)
    _require(_is_comparable(left.kind), node)
    is_float = kinds.is_floating(left.kind)
    return Typed(to.EqualNullSafe(left.expression, right.expression, is_float), _BOOL)


def _in(translation: Translation, node: Node) -> Typed:
    value, *listed = translation.all_of(node)
    constants = [each.expression for each in listed]
    _require(bool(constants) and all(each.kind == value.kind for each in listed), node)
    _require(_is_comparable(value.kind), node)
    if kinds.is_floating(value.kind) or not all(isinstance(each, Constant) for each in constants):
        found, *others = [
            to.Compare(value.expression, each, "equal", kinds.is_floating(value.kind)) for each in constants
        ]
        any_of: Expression = found
        for other in others:
            any_of = to.Or(any_of, other)
        return Typed(any_of, _BOOL)
    values = [each.value for each in constants if isinstance(each, Constant)]
    known = tuple(each for each in values if each is not None and not isinstance(each, float))
    return Typed(to.In(value.expression, known, value.kind, None in values), _BOOL)


def _like(translation: Translation, node: Node) -> Typed:
    """Texts with % at the start or at the end, or once between."""
    value, pattern = translation.pair(node)
    text = pattern.expression.value if isinstance(pattern.expression, Constant) else None
    if not isinstance(text, str) or "_" in text or _ESCAPE in text or node.setting("escapeChar") != _ESCAPE:
        raise NotTranslated(node.name)
    start, *between, end = text.split("%") if "%" in text else (text, "")
    if "%" not in text:
        return Typed(to.Compare(value.expression, Constant(text, _TEXT), "equal"), _BOOL)
    if len(between) == 1 and not start and not end:
        return Typed(to.TestText(value.expression, "contains", between[0]), _BOOL)
    _require(not between, node)
    starts = to.TestText(value.expression, "starts", start)
    if not end:
        return Typed(starts, _BOOL)
    ends = to.TestText(value.expression, "ends", end)
    if not start:
        return Typed(ends, _BOOL)
    # Both parts have to be in the text one after the other.
    length = to.Compare(to.Length(value.expression), Constant(len(start) + len(end), _INT), "greater_equal")
    return Typed(to.And(length, to.And(starts, ends)), _BOOL)


def _text_test(test: to.TextTest) -> Callable[[Translation, Node], Typed]:
    def own(translation: Translation, node: Node) -> Typed:
        value, pattern = translation.pair(node)
        text = pattern.expression.value if isinstance(pattern.expression, Constant) else None
        if value.kind != _TEXT or not isinstance(text, str):
            raise NotTranslated(node.name)
        return Typed(to.TestText(value.expression, test, text), _BOOL)

    return own


def _length(translation: Translation, node: Node) -> Typed:
    child = _only_child(translation, node)
    in_bytes = kinds.is_binary(child.kind)
    _require(in_bytes or child.kind == _TEXT, node)
    return Typed(to.Length(child.expression, in_bytes), _INT)


def _concat(translation: Translation, node: Node) -> Typed:
    children = translation.all_of(node)
    _require(bool(children) and all(each.kind == _TEXT for each in children), node)
    return Typed(to.Concat(tuple(each.expression for each in children)), _TEXT)


def _coalesce(translation: Translation, node: Node) -> Typed:
    children = translation.all_of(node)
    kind = _common_kind(children, node)
    return Typed(to.Coalesce(tuple(each.expression for each in children), kind), kind)


def _common_kind(values: list[Typed], node: Node) -> pa.DataType:
    """The type of alternatives."""
    kind = values[0].kind
    _require(all(each.kind == kind for each in values) and not kinds.is_nested(kind), node)
    return kind


def _if(translation: Translation, node: Node) -> Typed:
    condition, then, otherwise = translation.all_of(node)
    kind = _common_kind([then, otherwise], node)
    _require(condition.kind == _BOOL, node)
    return Typed(to.If(condition.expression, then.expression, otherwise.expression, kind), kind)


def _case_when(translation: Translation, node: Node) -> Typed:
    parts = translation.all_of(node)
    branches = list(zip(parts[::2], parts[1::2], strict=False))
    values = [then for _, then in branches]
    others = parts[len(branches) * 2 :]
    kind = _common_kind([*values, *others], node)
    _require(all(condition.kind == _BOOL for condition, _ in branches), node)
    found: Expression = others[0].expression if others else Constant(None, kind)
    for condition, then in reversed(branches):
        found = to.If(condition.expression, then.expression, found, kind)
    return Typed(found, kind)


def _typed_null(translation: Translation, node: Node) -> Typed:
    kind = _only_child(translation, node).kind
    return Typed(Constant(None, kind), kind)


def _cast(translation: Translation, node: Node) -> Typed:
    (written,) = node.children
    kind = arrow_type(node.fields["dataType"])
    if written.name == "Literal" and written.fields["value"] is None:
        return Typed(Constant(None, kind), kind)
    child = translation.typed(written)
    return _converted(child, kind, node)


def _converted(child: Typed, kind: pa.DataType, node: Node) -> Typed:
    value, before = child
    if before == kind:
        return child
    if isinstance(value, Constant) and isinstance(value.value, Decimal) and _holds(kind, before):
        # Both Java and Python round to the nearest double.
        number = float(value.value) if kind == _DOUBLE else value.value
        return Typed(Constant(number, kind), kind)
    if _never_fails(before, kind):
        if isinstance(value, Constant):
            return Typed(_folded(to.Cast(value, kind)), kind)
        return Typed(to.Cast(value, kind), kind)
    if kinds.is_integer(kind) and (kinds.is_integer(before) or kinds.is_floating(before)):
        if isinstance(value, Constant):
            return Typed(_folded(to.Narrow(value, kind)), kind)
        _require(node.setting("evalMode") == "ANSI", node)
        return Typed(to.Narrow(value, kind), kind)
    _require(node.fields["timeZoneId"] in UTC, node)
    if {before, kind} == {_TIME, _LOCAL_TIME}:
        return Typed(to.View(value, kind), kind)
    if kinds.is_timestamp(before) and kinds.is_date32(kind):
        days = to.Cast(to.DivideBy(to.View(value, _LONG), DAY_US, "floor"), _INT)
        return Typed(to.View(days, kind), kind)
    if kinds.is_date32(before) and kinds.is_timestamp(kind):
        days = to.Cast(to.View(value, _INT), _LONG)
        return Typed(
            to.View(to.Arithmetic(days, Constant(DAY_US, _LONG), "multiply", is_checked=True), kind), kind
        )
    raise NotTranslated(node.name)


def _holds(kind: pa.DataType, before: pa.DataType) -> bool:
    """Whether the type has all decimals of another type."""
    if not kinds.is_decimal128(kind):
        return bool(kind == _DOUBLE)
    is_longer = kind.precision - kind.scale >= before.precision - before.scale
    return bool(is_longer and kind.scale >= before.scale)


def _never_fails(before: pa.DataType, kind: pa.DataType) -> bool:
    if kinds.is_boolean(before):
        return bool(kinds.is_integer(kind) or kind == _TEXT)
    if kinds.is_integer(before):
        is_larger = kinds.is_integer(kind) and kind.bit_width > before.bit_width
        return bool(is_larger or kinds.is_floating(kind) or kind == _TEXT)
    return bool(kinds.is_floating(before) and kinds.is_floating(kind))


def _folded(constant: to.Cast | to.Narrow) -> Constant:
    try:
        return Constant(to.Rows(pa.table({})).value(constant).as_py(), constant.kind)
    except to.Doubtful as error:
        raise NotTranslated(str(error)) from error


def _viewed(before: pa.DataType, kind: pa.DataType) -> Callable[[Translation, Node], Typed]:
    def own(translation: Translation, node: Node) -> Typed:
        child = _only_child(translation, node)
        _require(child.kind == before, node)
        return Typed(to.View(child.expression, kind), kind)

    return own


def _time_in(unit_us: int) -> Callable[[Translation, Node], Typed]:
    def own(translation: Translation, node: Node) -> Typed:
        child = _only_child(translation, node)
        _require(child.kind == _TIME, node)
        return Typed(to.DivideBy(to.View(child.expression, _LONG), unit_us, "floor"), _LONG)

    return own


def _part_of_day(unit_us: int, count: int) -> Callable[[Translation, Node], Typed]:
    """The number of a unit in the next larger one, which has `count` of them."""

    def own(translation: Translation, node: Node) -> Typed:
        child = _only_child(translation, node)
        _require(kinds.is_timestamp(child.kind) and node.fields["timeZoneId"] in UTC, node)
        units = to.DivideBy(to.View(child.expression, _LONG), unit_us, "floor")
        return Typed(to.Cast(to.DivideBy(units, count, "modulus"), _INT), _INT)

    return own


def _truncated_time(translation: Translation, node: Node) -> Typed:
    unit, time = translation.all_of(node)
    written = unit.expression.value if isinstance(unit.expression, Constant) else None
    unit_us = _UNITS_US.get(written.upper()) if isinstance(written, str) else None
    if unit_us is None or time.kind != _TIME or node.fields["timeZoneId"] not in UTC:
        raise NotTranslated(node.name)
    number = to.DivideBy(to.View(time.expression, _LONG), unit_us, "floor")
    start_us = to.Arithmetic(number, Constant(unit_us, _LONG), "multiply", is_checked=True)
    return Typed(to.View(start_us, _TIME), _TIME)


def _to_date(translation: Translation, node: Node) -> Typed:
    """Without a format, which would be another child, it is a cast."""
    child = _only_child(translation, node)
    _require(kinds.is_timestamp(child.kind) or kinds.is_date32(child.kind), node)
    return _converted(child, pa.date32(), node)


def _time_plus_interval(_translation: Translation, node: Node) -> Typed:
    time, interval = node.children
    moved = _translation.typed(time)
    _require(moved.kind in (_TIME, _LOCAL_TIME) and node.fields["timeZoneId"] in UTC, node)
    by_us = Constant(_interval_us(interval), _LONG)
    at_us = to.Arithmetic(to.View(moved.expression, _LONG), by_us, "add", is_checked=True)
    return Typed(to.View(at_us, moved.kind), moved.kind)


def _interval_us(node: Node) -> int:
    if node.name == "UnaryMinus":
        return -_interval_us(node.children[0])
    _require(node.name == "Literal" and node.fields["value"] is not None, node)
    _require(str(node.fields["dataType"]).startswith(_DAY_TIME), node)
    return int(node.fields["value"])


def _arithmetic(operator: to.ArithmeticOperator) -> Callable[[Translation, Node], Typed]:
    def own(translation: Translation, node: Node) -> Typed:
        left, right = translation.pair(node)
        is_checked = _is_checked(left.kind, node)
        return Typed(to.Arithmetic(left.expression, right.expression, operator, is_checked), left.kind)

    return own


def _is_checked(kind: pa.DataType, node: Node) -> bool:
    """Whether an overflow fails."""
    if kinds.is_floating(kind):
        return False
    mode = node.setting("evalContext", "evalMode")
    _require(kinds.is_integer(kind) and mode in ("ANSI", "LEGACY"), node)
    return mode == "ANSI"


def _divide(translation: Translation, node: Node) -> Typed:
    left, right = translation.pair(node)
    _require(left.kind == _DOUBLE and node.setting("evalContext", "evalMode") == "ANSI", node)
    return Typed(to.Divide(left.expression, right.expression), _DOUBLE)


def _remainder(part: to.DivisionPart) -> Callable[[Translation, Node], Typed]:
    def own(translation: Translation, node: Node) -> Typed:
        value, divisor = translation.pair(node)
        number = divisor.expression.value if isinstance(divisor.expression, Constant) else None
        if not kinds.is_integer(value.kind) or not isinstance(number, int) or number <= 0:
            raise NotTranslated(node.name)
        return Typed(to.DivideBy(value.expression, number, part), value.kind)

    return own


def _negate(translation: Translation, node: Node) -> Typed:
    child = _only_child(translation, node)
    _require(kinds.is_integer(child.kind) or kinds.is_floating(child.kind), node)
    is_checked = kinds.is_integer(child.kind) and bool(node.fields["failOnError"])
    return Typed(to.Negate(child.expression, is_checked), child.kind)


def _absolute(translation: Translation, node: Node) -> Typed:
    child = _only_child(translation, node)
    _require(kinds.is_integer(child.kind) or kinds.is_floating(child.kind), node)
    is_checked = kinds.is_integer(child.kind) and bool(node.fields["failOnError"])
    return Typed(to.Absolute(child.expression, is_checked), child.kind)


def _extreme(*, is_greatest: bool) -> Callable[[Translation, Node], Typed]:
    def own(translation: Translation, node: Node) -> Typed:
        children = translation.all_of(node)
        kind = _common_kind(children, node)
        given = tuple(each.expression for each in children)
        if kinds.is_integer(kind):
            return Typed(to.Extreme(given, is_greatest), kind)
        _require(kinds.is_timestamp(kind), node)
        numbers = tuple(to.View(each, _LONG) for each in given)
        return Typed(to.View(to.Extreme(numbers, is_greatest), kind), kind)

    return own


def _has_all_values(translation: Translation, node: Node) -> Typed:
    """Neither null nor NaN, as `dropna` has it; with a smaller number it is not translated."""
    children = translation.all_of(node)
    _require(bool(children) and int(node.fields["n"]) == len(children), node)
    conditions: list[Expression] = []
    for each in children:
        conditions.append(to.Not(to.IsNull(each.expression)))
        if kinds.is_floating(each.kind):
            conditions.append(to.Not(to.IsNaN(each.expression)))
    return Typed(functools.reduce(to.And, conditions), _BOOL)


def _nan_as(translation: Translation, node: Node) -> Typed:
    value, instead = translation.pair(node)
    _require(kinds.is_floating(value.kind), node)
    chosen = to.If(to.IsNaN(value.expression), instead.expression, value.expression, value.kind)
    return Typed(chosen, value.kind)


def _bitwise(operator: to.BitwiseOperator) -> Callable[[Translation, Node], Typed]:
    def own(translation: Translation, node: Node) -> Typed:
        left, right = translation.pair(node)
        _require(kinds.is_integer(left.kind), node)
        return Typed(to.Bitwise(left.expression, right.expression, operator), left.kind)

    return own


def _shift_right_unsigned(translation: Translation, node: Node) -> Typed:
    value, bits = translation.all_of(node)
    number = bits.expression.value if isinstance(bits.expression, Constant) else None
    if value.kind != _LONG or not isinstance(number, int) or not 0 <= number < 64:
        raise NotTranslated(node.name)
    return Typed(to.ShiftRightUnsigned(value.expression, number), _LONG)


def _field(translation: Translation, node: Node) -> Typed:
    child = _only_child(translation, node)
    _require(kinds.is_struct(child.kind), node)
    number = int(node.fields["ordinal"])
    return Typed(to.Field(child.expression, number), child.kind.field(number).type)


def _xxhash64(translation: Translation, node: Node) -> Typed:
    # A null of no type leaves the hash as it is.
    children = [each for each in translation.all_of(node) if not kinds.is_null(each.kind)]
    _require(all(can_hash(each.kind) for each in children), node)
    return Typed(to.XxHash64(tuple(each.expression for each in children), int(node.fields["seed"])), _LONG)


_UNITS_US = {
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": DAY_US,
}
"""The units of `date_trunc` with a fixed length."""

_OWN: Mapping[str, Callable[[Translation, Node], Typed]] = {
    "Abs": _absolute,
    "Add": _arithmetic("add"),
    "Alias": _only_child,
    "And": _logical(to.And),
    "AtLeastNNonNulls": _has_all_values,
    "AttributeReference": Translation.attribute,
    "Between": _only_child,
    "BitwiseAnd": _bitwise("and"),
    "BitwiseOr": _bitwise("or"),
    "BitwiseXor": _bitwise("xor"),
    "CaseWhen": _case_when,
    "Cast": _cast,
    "Coalesce": _coalesce,
    "CommonExpressionRef": Translation.common,
    "Concat": _concat,
    "Contains": _text_test("contains"),
    "DatetimeSub": _only_child,
    "Divide": _divide,
    "EndsWith": _text_test("ends"),
    "EqualNullSafe": _equal_null_safe,
    "EqualTo": _compared("equal"),
    "GetStructField": _field,
    "GreaterThan": _compared("greater"),
    "GreaterThanOrEqual": _compared("greater_equal"),
    "Greatest": _extreme(is_greatest=True),
    "Hour": _part_of_day(3_600_000_000, 24),
    "If": _if,
    "In": _in,
    "IsNaN": _is_nan,
    "IsNotNull": _is_not_null,
    "IsNull": _is_null,
    "Least": _extreme(is_greatest=False),
    "Length": _length,
    "LessThan": _compared("less"),
    "LessThanOrEqual": _compared("less_equal"),
    "Like": _like,
    "Literal": _literal,
    "MicrosToTimestamp": _viewed(_LONG, _TIME),
    "Minute": _part_of_day(60_000_000, 60),
    "Multiply": _arithmetic("multiply"),
    "NaNvl": _nan_as,
    "Not": _not,
    "NullIf": _only_child,
    "Nvl": _only_child,
    "Or": _logical(to.Or),
    "ParseToDate": _to_date,
    "Pmod": _remainder("modulus"),
    "Remainder": _remainder("remainder"),
    "Second": _part_of_day(1_000_000, 60),
    "ShiftRightUnsigned": _shift_right_unsigned,
    "StartsWith": _text_test("starts"),
    "Subtract": _arithmetic("subtract"),
    "TimestampAddInterval": _time_plus_interval,
    "TruncTimestamp": _truncated_time,
    "TypedNullLiteral": _typed_null,
    "UnaryMinus": _negate,
    "UnixMicros": _viewed(_TIME, _LONG),
    "UnixMillis": _time_in(1_000),
    "UnixSeconds": _time_in(1_000_000),
    "With": Translation.with_common,
    "XxHash64": _xxhash64,
}
"""The translation of each class of Catalyst. `Nvl`, `NullIf`, `Between` and `DatetimeSub` have one child: what Spark
replaces them with."""
