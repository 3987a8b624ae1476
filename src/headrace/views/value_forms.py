"""The values of a topic as columns of Spark: what JSON holds of each type, and the expression that makes it a value.

Debezium writes a date as a number of days, a decimal as text or bytes, and so on; the name of the semantic type tells.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from headrace.cdc.change import UNAVAILABLE

DECIMAL = "DECIMAL(38,18)"
"""Of a decimal whose scale is unknown."""

SCALE = "scale"
PRECISION = "connect.decimal.precision"


class Form(Struct, frozen=True, kw_only=True):
    """How a value is written. `read` is Spark's type of it in JSON; `{}` in `expression` is what was read."""

    type: str
    """Spark's type of the column, as in CREATE TABLE"""
    read: str
    expression: str = "{}"

    def of(self, column: str) -> str:
        return self.expression.replace("{}", column)


def plain(kind: str) -> Form:
    return Form(type=kind, read=kind)


_PLAIN: Mapping[str, str] = {
    "boolean": "BOOLEAN",
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INT",
    "int64": "BIGINT",
    "float": "FLOAT",
    "float32": "FLOAT",
    "double": "DOUBLE",
    "float64": "DOUBLE",
    "string": "STRING",
    "any": "STRING",
}

_DAYS = Form(type="DATE", read="INT", expression="date_from_unix_date({})")
_MILLIS = Form(type="TIMESTAMP_NTZ", read="BIGINT", expression="cast(timestamp_millis({}) as timestamp_ntz)")
_MICROS = Form(type="TIMESTAMP_NTZ", read="BIGINT", expression="cast(timestamp_micros({}) as timestamp_ntz)")
_NANOS = Form(
    type="TIMESTAMP_NTZ", read="BIGINT", expression="cast(timestamp_micros({} div 1000) as timestamp_ntz)"
)
_ZONED = Form(type="TIMESTAMP", read="STRING", expression="cast({} as timestamp)")
_BYTES = Form(type="BINARY", read="STRING", expression="unbase64({})")


def _time(micros: str) -> Form:
    return Form(
        type="STRING", read="BIGINT", expression=f"date_format(timestamp_micros({micros}), 'HH:mm:ss.SSSSSS')"
    )


def _unscaled(scale: int, precision: int) -> Form:
    """A decimal as the bytes of its integer, greatest first, in base64: digit by digit to the base of 256."""
    digit = "cast(conv(hex(substring(unbase64({}), {i}, 1)), 16, 10) as decimal(38,0))"
    first = digit.replace("{i}", "1")
    rest = digit.replace("{i}", "i")
    whole = (
        f"aggregate(sequence(1, length(unbase64({{}}))), cast(0 as decimal(38,0)), (sum, i) -> "
        f"if(i = 1, if({first} >= 128, cast({first} - 256 as decimal(38,0)), {first}), "
        f"cast(sum * 256 + {rest} as decimal(38,0))))"
    )
    kind = f"DECIMAL({precision},{scale})"
    return Form(type=kind, read="STRING", expression=f"cast(concat({whole}, 'E-{scale}') as {kind})")


_SEMANTIC: Mapping[str, Form] = {
    "io.debezium.time.Date": _DAYS,
    "org.apache.kafka.connect.data.Date": _DAYS,
    "io.debezium.time.Timestamp": _MILLIS,
    "org.apache.kafka.connect.data.Timestamp": _MILLIS,
    "io.debezium.time.MicroTimestamp": _MICROS,
    "io.debezium.time.NanoTimestamp": _NANOS,
    "io.debezium.time.ZonedTimestamp": _ZONED,
    "io.debezium.time.Time": _time("{} * 1000"),
    "org.apache.kafka.connect.data.Time": _time("{} * 1000"),
    "io.debezium.time.MicroTime": _time("{}"),
    "io.debezium.time.NanoTime": _time("{} div 1000"),
}


def connect_form(
    kind: str, semantic: str | None = None, *, parameters: Mapping[str, str] | None = None, items: Any = None
) -> Form:
    """The form of a field of Kafka Connect; `items` is the form of an array's items."""
    if kind == "array":
        return _array(items or plain("STRING"))
    if semantic is not None and semantic in _SEMANTIC:
        return _SEMANTIC[semantic]
    if semantic == "org.apache.kafka.connect.data.Decimal" and kind == "bytes":
        found = parameters or {}
        return _unscaled(int(found.get(SCALE, 0)), int(found.get(PRECISION) or 38))
    if kind == "bytes":
        return _BYTES
    if kind in _PLAIN:
        return plain(_PLAIN[kind])
    return plain("STRING")  # a struct or a map: its JSON


def _array(items: Form) -> Form:
    """As text first, because the mark of an unchanged value is a text."""
    parsed = f"from_json({{}}, 'ARRAY<{items.read}>')"
    if items.expression == "{}":
        return Form(type=f"ARRAY<{items.type}>", read="STRING", expression=parsed)
    each = items.of("item")
    return Form(type=f"ARRAY<{items.type}>", read="STRING", expression=f"transform({parsed}, item -> {each})")


_TEXT_TO: tuple[tuple[re.Pattern[str], Callable[[str], Form]], ...] = (
    (re.compile("DECIMAL|NUMERIC|DEC"), lambda kind: _cast(kind)),
    (re.compile("DATE$"), lambda kind: _cast(kind)),
    (re.compile("TIMESTAMP"), lambda kind: _cast(kind)),
    (re.compile("BINARY$"), lambda kind: _BYTES),
    (re.compile("ARRAY|MAP|STRUCT"), lambda kind: _nested(kind)),
)


def wanted_form(kind: str, found: Form | None) -> Form:
    """The form for a type that the user wants, where values are written as `found`."""
    upper = kind.upper()
    if found is None or upper == found.type.upper():
        return found or plain(kind)
    if found.expression != "{}":
        return Form(type=kind, read=found.read, expression=f"cast({found.expression} as {kind})")
    if found.read == "STRING":
        for pattern, form in _TEXT_TO:
            if pattern.match(upper):
                return form(kind)
    if found.read in ("INT", "BIGINT") and upper == "DATE":
        return _DAYS
    if found.read == "BIGINT" and upper.startswith("TIMESTAMP"):
        return Form(type=kind, read="BIGINT", expression=f"cast({_MICROS.expression} as {kind})")
    return plain(kind)


def _cast(kind: str) -> Form:
    return Form(type=kind, read="STRING", expression=f"cast({{}} as {kind})")


def _nested(kind: str) -> Form:
    return Form(type=kind, read="STRING", expression=f"from_json({{}}, '{kind}')")


def is_unavailable(column: str) -> str:
    """Whether a text that was read is the mark of a value that an update did not change: as text, or as Debezium
    writes it for bytes and arrays."""
    import base64

    in_base64 = base64.b64encode(UNAVAILABLE.encode()).decode()
    return f"coalesce({column} in ('{UNAVAILABLE}', '{in_base64}', '[\"{UNAVAILABLE}\"]'), false)"
