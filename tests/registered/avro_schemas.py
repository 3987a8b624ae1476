"""Random Avro schemas, a later version of each, and values of the first."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Callable
from typing import Any

import fastavro
from hypothesis import strategies as st
from msgspec import Struct

from headrace.registered.schema import SchemaText

Draw = Callable[..., Any]

_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
_INTS = st.integers(-(2**31), 2**31 - 1)
_LONGS = st.integers(-(2**63), 2**63 - 1)
_FLOATS = st.floats(allow_nan=False, width=32)
_YEARS_US = st.integers(-62_135_596_800_000_000, 253_402_300_799_000_000)
"""Of Python's years 1 to 9999."""
_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}

PLAIN: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ("boolean", st.booleans()),
    ("int", _INTS),
    ("long", _LONGS),
    ("float", _FLOATS),
    ("double", st.floats(allow_nan=False)),
    ("string", _TEXTS),
    ("bytes", st.binary(max_size=4)),
    ({"type": "int", "logicalType": "date"}, st.integers(-719_162, 2_932_896)),
    ({"type": "long", "logicalType": "timestamp-millis"}, _YEARS_US.map(lambda us: us // 1000)),
    ({"type": "long", "logicalType": "timestamp-micros"}, _YEARS_US),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, _YEARS_US),
    ({"type": "int", "logicalType": "time-millis"}, st.integers(0, 86_399_999)),
    ({"type": "string", "logicalType": "uuid"}, st.uuids().map(str)),
    (_DECIMAL, st.decimals(-9_999_999, 9_999_999, places=2, allow_nan=False)),
]
PROMOTIONS = {
    "int": ["long", "float", "double"],
    "long": ["float", "double"],
    "float": ["double"],
    "string": ["bytes"],
}
_DEFAULTS: dict[str, Any] = {
    "int": 7,
    "string": "é",
    "bytes": "\u00ff",
    "double": 1.5,
    "boolean": True,
    "long": -1,
}


class Case(Struct):
    writer: Any
    reader: Any
    values: list[Any]

    def records(self) -> list[bytes]:
        return [self._record(each) for each in self.values]

    def texts(self) -> tuple[SchemaText, SchemaText]:
        return SchemaText(text=json.dumps(self.writer)), SchemaText(text=json.dumps(self.reader))

    def expected(self) -> list[Any]:
        """As fastavro resolves them."""
        writer, reader = without_logical(self.writer), without_logical(self.reader)
        return [fastavro.schemaless_reader(io.BytesIO(each), writer, reader) for each in self.records()]

    def expected_with_logical(self) -> list[Any]:
        """The same with the values of logical types."""
        return [
            fastavro.schemaless_reader(io.BytesIO(each), self.writer, self.reader) for each in self.records()
        ]

    def _record(self, value: Any) -> bytes:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, fastavro.parse_schema(without_logical(self.writer)), value)
        return stream.getvalue()


def without_logical(schema: Any) -> Any:
    """Decimals stay."""
    if isinstance(schema, list):
        return [without_logical(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    is_kept = schema.get("logicalType") == "decimal"
    return {
        name: without_logical(each) if name in ("type", "items", "values", "fields") else each
        for name, each in schema.items()
        if name != "logicalType" or is_kept
    }


@st.composite
def cases(draw: Draw, *, has_choices: bool = True) -> Case:
    names = itertools.count()
    writer, reader, value = draw(_records(names, depth=2, has_choices=has_choices))
    return Case(writer, reader, draw(st.lists(value, min_size=1, max_size=4)))


@st.composite
def _records(draw: Draw, names: Any, *, depth: int, has_choices: bool) -> Any:
    name = f"R{next(names)}"
    fields = [
        draw(_types(names, depth=depth - 1, has_choices=has_choices)) for _ in range(draw(st.integers(1, 4)))
    ]
    written = [{"name": f"f{number}", "type": each[0]} for number, each in enumerate(fields)]
    read = []
    for number, (_, kind, _) in enumerate(fields):
        match draw(st.sampled_from(["kept", "kept", "kept", "dropped", "renamed"])):
            case "kept":
                read.append({"name": f"f{number}", "type": kind})
            case "renamed":
                read.append({"name": f"g{number}", "type": kind, "aliases": [f"f{number}"]})
    new = draw(st.lists(st.sampled_from(sorted(_DEFAULTS)), max_size=2, unique=True))
    read += [{"name": f"new_{kind}", "type": kind, "default": _DEFAULTS[kind]} for kind in new]
    if draw(st.booleans()) or not read:
        read.append({"name": "new_null", "type": ["null", "string"], "default": None})
    read = draw(st.permutations(read))
    value = st.fixed_dictionaries({f"f{number}": each[2] for number, each in enumerate(fields)})
    return (
        {"type": "record", "name": name, "fields": written},
        {"type": "record", "name": name, "fields": read},
        value,
    )


@st.composite
def _types(draw: Draw, names: Any, *, depth: int, has_choices: bool) -> Any:
    """Of the writer, of the reader, and the values."""
    kinds = ["plain", "plain", "promoted", "enum", "fixed", "null"]
    if depth > 0:
        kinds += ["array", "map", "record", *(["choice"] if has_choices else [])]
    match draw(st.sampled_from(kinds)):
        case "promoted":
            kind = draw(st.sampled_from(sorted(PROMOTIONS)))
            return kind, draw(st.sampled_from(PROMOTIONS[kind])), dict(_NAMED_PLAIN)[kind]
        case "enum":
            name = f"E{next(names)}"
            written = {"type": "enum", "name": name, "symbols": ["A", "B", "C"]}
            read = {"type": "enum", "name": name, "symbols": ["B", "A", "OTHER"], "default": "OTHER"}
            return written, read, st.sampled_from(["A", "B", "C"])
        case "fixed":
            kind = {"type": "fixed", "name": f"F{next(names)}", "size": 3}
            return kind, kind, st.binary(min_size=3, max_size=3)
        case "null":
            written, read, value = draw(_types(names, depth=0, has_choices=False))
            if isinstance(written, list):
                return written, read, value
            return ["null", written], ["null", read], st.none() | value
        case "array":
            written, read, value = draw(_types(names, depth=depth - 1, has_choices=has_choices))
            values = st.lists(value, max_size=3)
            return {"type": "array", "items": written}, {"type": "array", "items": read}, values
        case "map":
            written, read, value = draw(_types(names, depth=depth - 1, has_choices=has_choices))
            pairs = st.dictionaries(_TEXTS, value, max_size=3)
            return {"type": "map", "values": written}, {"type": "map", "values": read}, pairs
        case "record":
            return draw(_records(names, depth=depth, has_choices=has_choices))
        case "choice":
            name = f"E{next(names)}"
            enum = {"type": "enum", "name": name, "symbols": ["A", "B"]}
            union = ["null", "long", "string", enum, {"type": "array", "items": "int"}]
            choices: Any = (
                st.none()
                | _LONGS
                | st.lists(_INTS, max_size=2)
                | st.tuples(st.just(name), st.sampled_from("AB"))
            )
            return union, union, choices | _TEXTS.map(lambda text: f"text {text}")
    written, value = draw(st.sampled_from(PLAIN))
    return written, written, value


_NAMED_PLAIN = [(kind, values) for kind, values in PLAIN if isinstance(kind, str)]
