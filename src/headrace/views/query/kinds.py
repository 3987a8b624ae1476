"""What a column holds, from the type that a database declares. Values of a few kinds are compared in their own way."""

from __future__ import annotations

import re
from enum import Enum


class Kind(Enum):
    BOOLEAN = "boolean"
    INTEGER = "integer"
    REAL = "real"
    """Of single precision: a literal must be rounded before it can be equal."""
    DOUBLE = "double"
    DECIMAL = "decimal"
    TEXT = "text"
    BINARY = "binary"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMP_NTZ = "timestamp_ntz"
    JSON = "json"
    OTHER = "other"


_PATTERNS: tuple[tuple[str, Kind], ...] = (
    ("boolean|bool", Kind.BOOLEAN),
    ("json text|jsonb?", Kind.JSON),
    (r"(decimal|numeric)\b.*", Kind.DECIMAL),
    (r"text|varchar.*|character varying.*|char.*|character\(.*|bpchar|string", Kind.TEXT),
    ("timestamp with time zone|timestamptz|timestamp_tz", Kind.TIMESTAMP),
    ("timestamp_ntz|timestamp without time zone", Kind.TIMESTAMP_NTZ),
    ("date", Kind.DATE),
    ("blob|bytea|binary", Kind.BINARY),
    ("float|real|float4", Kind.REAL),
    ("double|double precision|float8", Kind.DOUBLE),
    ("u?(tiny|small|big|huge)?int(eger)?[248]?", Kind.INTEGER),
)


def kind_of(declared: str, *, timestamp: Kind = Kind.TIMESTAMP_NTZ, real: Kind = Kind.REAL) -> Kind:
    """`timestamp` is what TIMESTAMP alone means in this database, and `real` what REAL means."""
    name = declared.strip().lower()
    if name == "timestamp":
        return timestamp
    found = next((kind for pattern, kind in _PATTERNS if re.fullmatch(pattern, name)), Kind.OTHER)
    return real if found is Kind.REAL else found
