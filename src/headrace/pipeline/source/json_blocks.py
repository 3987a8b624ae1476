"""JSON values of records, parsed by whole columns with pyarrow.json: the fast way beside `from_json` of `formats`.

Both ways give the same fields, so a value that this one is not certain of is *doubtful*: Spark has to read it. That is
always right, and slow. A value that Spark calls bad is always doubtful. Differences between the two parsers, RapidJSON
here and Jackson there, are all on the side of doubt; each check names the one it is for.

One document is one row. A block of values is parsed as their concatenation, with a newline after each. If that gives as
many rows as there are values, each value is exactly one document:

- Each value begins with `{` and ends with `}`, but for white space at the end.
- A newline within a string is an error to RapidJSON. So the `}` at the end of a value closes an object.
- If that object is within another one or an array, a comma or a bracket has to follow it. But a `{` or nothing does,
  which is an error. So each value ends outside of all objects, where the next one begins.
- So each value is one document or several. As many documents as values are one of each.

Some versions of Arrow take a NUL for the end of the text, and this reasoning ends there too. So no value with a NUL is
parsed.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json
from msgspec import Meta, Struct
from numpy.typing import NDArray

ROWS_MAX = 4_096
"""Rows that are parsed at once. More are not faster, and one odd value costs its block twice the time."""

BLOCK_BYTES = 4 * 1024 * 1024
"""Bytes that are parsed at once, about."""

VALUE_BYTES_MAX = 50_000
"""Longer values are doubtful: Jackson rejects longer names, and strings from 20 MB on."""

JACKSON_LIMIT = 1_000
"""Jackson rejects longer numbers and deeper nesting, also in a field that nobody reads."""

NAMES_MAX = 300
"""Distinct names in one value. Jackson rejects more than 302 names that were chosen to have the same hash.

It counts the names of all values that a task of Spark has read, so it may also reject one of several values with fewer
such names. Which one depends on what the task has read before. Here, all of them are read.
"""

ROWS_MIN = 128
"""Rows that are doubtful together, if no value of them alone looks odd: a call of the parser costs as much as these."""

FAILURES_MAX = 16
"""Parts of a block that are halved. Of a block with many values that only look good, parts stay doubtful."""

UTC_NAMES = frozenset({"UTC", "Etc/UTC", "GMT", "Etc/GMT", "Z", "UTC+0", "+00:00"})

_Mask = NDArray[np.bool_]
_Bytes = NDArray[np.uint8]
_Numbers = NDArray[np.int64]

_TIME = pa.timestamp("us", tz="UTC")
_LOCAL_TIME = pa.timestamp("us")

_ARROW_TYPES = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "timestamp": _TIME,
    "date": pa.date32(),
}
_PARSED_AS_TEXT = frozenset({"timestamp", "date"})

_INTEGER_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}

_NEWLINE = b"\n"
_OPENING, _CLOSING = b"{}"
_Z, _HYPHEN, _PLUS, _ZERO = b"Z-+0"
_WHITESPACE = np.isin(np.arange(256), list(b" \t\r\n"))
_BEFORE_A_NUMBER = np.isin(np.arange(256), list(b":,[- \t\r\n"))
_TRAILING_WHITESPACE_MAX = 2

# Of every 128th byte of a number of more than 1,000 characters, seven in a row are of a number.
_NUMBER_SAMPLES_STEP = 128
_NUMBER_SAMPLES = re.compile(rb"[-+.0-9eE]{7}")
_LONG_NUMBER = re.compile(rb"[-+.0-9eE]{%d}" % (JACKSON_LIMIT + 1))

_ISO_SECONDS = len("2026-01-01T00:00:00")
_ISO_MICROSECONDS = len("2026-01-01T00:00:00.123456")
_ISO_OFFSET = len("+01:00")
_ISO_DATE = len("2026-01-01")
_OFFSET_HOURS_MAX = 17
"""Java's offsets end at 18 hours, Arrow's at 24."""


class JsonBlocks(Struct, frozen=True, kw_only=True):
    """Reads values of one schema. It can be pickled."""

    fields: tuple[tuple[str, str], ...]
    """Names, and types as Spark names them in a schema's JSON."""
    is_utc: bool
    """The session's time zone is UTC. In another one, a time without an offset is doubtful."""

    @classmethod
    def of(cls, schema_json: str, time_zone: str) -> JsonBlocks | None:
        """For a schema as `formats.schema_text` gives it. None, if some type of it can only be read by Spark."""
        fields = json.loads(schema_json)["fields"]
        names = [field["name"] for field in fields]
        if not fields or len({name.lower() for name in names}) < len(names):
            return None
        if not all(_is_supported(field) for field in fields):
            return None
        return cls(
            fields=tuple((each["name"], each["type"]) for each in fields), is_utc=time_zone in UTC_NAMES
        )

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, _ARROW_TYPES[type]) for name, type in self.fields])

    def read(self, values: pa.Array | pa.ChunkedArray) -> tuple[pa.Table, _Mask]:
        """The fields of each value that is not doubtful, in order; and which values are doubtful.

        A field that is missing or null is null, also one that is NOT NULL.
        """
        tables: list[pa.Table] = [self.schema.empty_table()]
        masks = [np.zeros(0, np.bool_)]
        for block in _blocks(values):
            is_doubtful = np.ones(len(block), np.bool_)
            for numbers, table in self._read(block):
                is_doubtful[numbers] = False
                tables.append(table)
            masks.append(is_doubtful)
        return pa.concat_tables(tables), np.concatenate(masks)

    def _read(self, block: pa.Array) -> Iterator[tuple[_Numbers, pa.Table]]:
        """The tables of a block, with the numbers of their rows in it."""
        framed = _Rows(block, np.arange(len(block))).where(_is_framed(block))
        for rows, parsed in self._parsed(framed.where(_is_plain(framed))):
            table, is_exact = self._converted(parsed)
            yield rows.numbers[is_exact], table

    def _parsed(self, rows: _Rows) -> Iterator[tuple[_Rows, pa.Table]]:
        """The parts that can be parsed. Of a block that cannot, each value is tried alone in a simpler way, which finds
        most odd ones, and the rest is halved until only small parts cannot be parsed."""
        table = self._table(rows)
        if table is not None:
            yield rows, table
            return
        parts = [rows.where(_fits(self.fields, rows.values))]
        failures = 0
        while parts:
            part = parts.pop()
            table = self._table(part)
            if table is not None:
                yield part, table
            elif len(part.numbers) > ROWS_MIN and failures < FAILURES_MAX:
                failures += 1
                parts.extend(reversed(part.halves()))

    def _table(self, rows: _Rows) -> pa.Table | None:
        """All rows; None if the text of any of them cannot be parsed."""
        if not len(rows.values):
            return None
        try:
            table = pa_json.read_json(
                pa.BufferReader(rows.text),
                read_options=_read_options(len(rows.text)),
                parse_options=_parse_options(self.fields),
            )
        except pa.ArrowInvalid:
            return None
        return table if table.num_rows == len(rows.values) else None

    def _converted(self, parsed: pa.Table) -> tuple[pa.Table, _Mask]:
        """The columns in their types, without the rows that are not certain; and which rows are."""
        is_exact = np.ones(parsed.num_rows, np.bool_)
        columns = []
        for (_, type), chunks in zip(self.fields, parsed.columns, strict=True):
            column, is_column_exact = self._column(pa.concat_arrays(chunks.chunks), type)
            is_exact &= is_column_exact
            columns.append(column)
        table = pa.Table.from_arrays(columns, schema=self.schema)
        return (table if is_exact.all() else table.filter(pa.array(is_exact))), is_exact

    def _column(self, parsed: pa.Array, type: str) -> tuple[pa.Array, _Mask | bool]:
        if type == "double":
            return parsed, _is_plain_double(parsed)
        if type not in _PARSED_AS_TEXT:
            return parsed, True
        column = _times(parsed, is_utc=self.is_utc) if type == "timestamp" else _dates(parsed)
        return column, _mask(column.is_valid()) | _mask(parsed.is_null())


class _Rows:
    """Some values of a block, and their numbers in it."""

    def __init__(self, values: pa.Array, numbers: _Numbers) -> None:
        self.values = values
        self.numbers = numbers

    @functools.cached_property
    def text(self) -> bytes:
        """All values, each with a newline after it."""
        bounds = pa.array([0, len(self.values)], pa.int32())
        without_last = pc.binary_join(pa.ListArray.from_arrays(bounds, self.values), _NEWLINE)[0]
        return b"".join((without_last.as_buffer(), _NEWLINE))

    def where(self, mask: _Mask) -> _Rows:
        return self if mask.all() else _Rows(self.values.filter(pa.array(mask)), self.numbers[mask])

    def halves(self) -> list[_Rows]:
        middle = len(self.numbers) // 2
        return [
            _Rows(self.values[:middle], self.numbers[:middle]),
            _Rows(self.values[middle:], self.numbers[middle:]),
        ]


def _is_supported(field: dict[str, Any]) -> bool:
    """Metadata may have a default value, a collation or a length: they change what Spark reads."""
    is_plain_name = not re.search(r'["\\\x00-\x1f]', field["name"])
    has_meaning = set(field.get("metadata") or {}) - {"comment"}
    return (
        isinstance(field["type"], str) and field["type"] in _ARROW_TYPES and is_plain_name and not has_meaning
    )


def _blocks(values: pa.Array | pa.ChunkedArray) -> Iterator[pa.Array]:
    for chunk in values.chunks if isinstance(values, pa.ChunkedArray) else [values]:
        rows = min(ROWS_MAX, max(1, BLOCK_BYTES * len(chunk) // max(1, chunk.nbytes)))
        for start in range(0, len(chunk), rows):
            yield chunk[start : start + rows].cast(pa.binary())


@functools.lru_cache(maxsize=64)
def _parse_options(fields: tuple[tuple[str, str], ...]) -> pa_json.ParseOptions:
    types = [(name, pa.string() if type in _PARSED_AS_TEXT else _ARROW_TYPES[type]) for name, type in fields]
    return pa_json.ParseOptions(
        explicit_schema=pa.schema(types), newlines_in_values=False, unexpected_field_behavior="ignore"
    )


def _read_options(size: int) -> pa_json.ReadOptions:
    """One block: then no newline within a value is taken for the end of one."""
    return pa_json.ReadOptions(use_threads=False, block_size=size + 1)


class _Parts(NamedTuple):
    """Where the bytes of each text are. Those of a null are nowhere."""

    bytes: _Bytes
    starts: _Numbers
    ends: _Numbers

    @property
    def lengths(self) -> _Numbers:
        return self.ends - self.starts

    def where(self, mask: _Mask) -> _Parts:
        return (
            self if mask.all() else _Parts(bytes=self.bytes, starts=self.starts[mask], ends=self.ends[mask])
        )


def _parts(texts: pa.Array) -> _Parts:
    _, offsets, content = texts.buffers()
    bounds = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    parts = _Parts(
        bytes=np.frombuffer(content or b"", np.uint8),
        starts=bounds[:-1],
        ends=bounds[1:],
    )
    if not texts.null_count:
        return parts
    return parts._replace(ends=np.where(_mask(texts.is_valid()), parts.ends, parts.starts))


def _mask(values: pa.Array) -> _Mask:
    mask: _Mask = values.to_numpy(zero_copy_only=False)
    return mask


def _is_framed(values: pa.Array) -> _Mask:
    """From `{` to `}`, and within Jackson's limits."""
    parts = _parts(values)
    mask = (parts.lengths >= len("{}")) & (parts.lengths <= VALUE_BYTES_MAX)
    inner = parts.where(mask)
    last = inner.ends - 1
    for _ in range(_TRAILING_WHITESPACE_MAX):
        last -= _WHITESPACE[inner.bytes[last]]
    mask[mask] = (inner.bytes[inner.starts] == _OPENING) & (inner.bytes[last] == _CLOSING)
    for number in np.flatnonzero(mask & (parts.lengths > JACKSON_LIMIT)):
        mask[number] = _is_within_limits(values[int(number)].as_py())
    return mask


def _is_within_limits(value: bytes) -> bool:
    if value.count(b"{") + value.count(b"[") > JACKSON_LIMIT:
        return False
    if _NUMBER_SAMPLES.search(value[::_NUMBER_SAMPLES_STEP]) and _LONG_NUMBER.search(value):
        return False
    return value.count(b":") <= NAMES_MAX or len(_names(value)) <= NAMES_MAX


def _names(value: bytes) -> set[bytes]:
    """The names in an object and in those within it, as they are written but for quotes and backslashes in them."""
    strings = value.replace(rb"\\", b"\1").replace(rb"\"", b"\2").split(b'"')
    return {
        text
        for text, following in zip(strings[1::2], strings[2::2], strict=False)
        if following.lstrip(b" \t\r\n").startswith(b":")
    }


def _is_plain(rows: _Rows) -> _Mask:
    """UTF-8 without a NUL, and without a number that only RapidJSON reads."""
    mask = np.ones(len(rows.values), np.bool_)
    if not _is_utf8(rows.text):
        mask &= [_is_utf8(value) for value in rows.values.to_pylist()]
    positions = _unusual_positions(rows.text)
    if len(positions):
        ends = np.cumsum(_parts(rows.values).lengths + len(_NEWLINE))
        for number in np.unique(np.searchsorted(ends, positions, side="right")):
            mask[number] &= _is_strict(rows.values[int(number)].as_py())
    return mask


def _is_strict(value: bytes) -> bool:
    """JSON without extensions. RapidJSON reads NaN, -NaN, Inf and -Inf; Jackson reads other words than these."""
    try:
        msgspec.json.decode(value)
    except (ValueError, RecursionError):
        return False
    return b"\0" not in value


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _unusual_positions(text: bytes) -> _Numbers:
    """Of NULs, and of letters that may begin the name of a number."""
    data = np.frombuffer(text, np.uint8)
    letters = np.flatnonzero((data == ord("N")) | (data == ord("I")))
    letters = letters[_BEFORE_A_NUMBER[data[letters - 1]]]
    return np.concatenate([np.flatnonzero(data == 0), letters])


def _fits(fields: tuple[tuple[str, str], ...], values: pa.Array) -> _Mask:
    """Values that msgspec reads. This only chooses what to parse again, so it may be wrong in both directions."""
    decode = _decoder(fields).decode
    mask = np.ones(len(values), np.bool_)
    for number, value in enumerate(values.to_pylist()):
        try:
            decode(value)
        except (ValueError, RecursionError):
            mask[number] = False
    return mask


@functools.lru_cache(maxsize=64)
def _decoder(fields: tuple[tuple[str, str], ...]) -> msgspec.json.Decoder[Any]:
    names = {f"field_{number}": name for number, (name, _) in enumerate(fields)}
    types = [
        (attribute, _python_type(type) | None, None)
        for attribute, (_, type) in zip(names, fields, strict=True)
    ]
    return msgspec.json.Decoder(msgspec.defstruct("Value", types, rename=names))


def _python_type(type: str) -> Any:
    if bits := _INTEGER_BITS.get(type):
        return Annotated[int, Meta(ge=-(1 << bits - 1), le=(1 << bits - 1) - 1)]
    return {"boolean": bool, "double": float}.get(type, str)


def _is_plain_double(numbers: pa.Array) -> _Mask:
    """Neither infinite nor NaN, which Spark writes in other ways; nor -0, which it reads as 0 if it has no point."""
    found = numbers.fill_null(1.0).to_numpy()
    is_plain: _Mask = np.isfinite(found) & ~((found == 0) & np.signbit(found))
    return is_plain


def _times(texts: pa.StringArray, *, is_utc: bool) -> pa.Array:
    """Null where the text is not in one of the forms that Arrow and Spark read alike."""
    is_zoned, is_local = _time_shapes(_parts(texts))
    found = _cast(texts, is_zoned, _TIME)
    if is_utc and is_local.any():
        return pc.coalesce(found, _cast(texts, is_local, _LOCAL_TIME).view(_TIME))
    return found


def _time_shapes(parts: _Parts) -> tuple[_Mask, _Mask]:
    """Texts like `2026-01-01T00:00:00.123Z`, with up to six digits of a second: with `Z` or an offset, and without.

    This looks at lengths and offsets only. Of such a length, Arrow reads no other form.
    """
    is_zoned, is_local = np.zeros((2, len(parts.starts)), np.bool_)
    is_long = parts.lengths >= _ISO_SECONDS
    data, starts, ends = parts.where(is_long)
    has_z = data[ends - 1] == _Z
    sign = data[ends - _ISO_OFFSET]
    offset_hours = (data[ends - 5] - _ZERO) * 10 + data[ends - 4] - _ZERO
    has_offset = (sign == _PLUS) | (sign == _HYPHEN)
    lengths = ends - starts - has_z - _ISO_OFFSET * has_offset
    is_time = (lengths == _ISO_SECONDS) | (lengths > _ISO_SECONDS + 1) & (lengths <= _ISO_MICROSECONDS)
    is_zoned[is_long] = is_time & (has_z | has_offset & (offset_hours <= _OFFSET_HOURS_MAX))
    is_local[is_long] = is_time & ~has_z & ~has_offset
    return is_zoned, is_local


def _dates(texts: pa.StringArray) -> pa.Array:
    return _cast(texts, _parts(texts).lengths == _ISO_DATE, pa.date32())


def _cast(texts: pa.StringArray, mask: _Mask, type: pa.DataType) -> pa.Array:
    """Null where the mask is false, or the text is not of the type."""
    is_all = bool((mask | _mask(texts.is_null())).all())
    chosen = texts if is_all else pc.if_else(pa.array(mask), texts, None)
    for is_valid in (_is_in_calendar, _is_valid):
        try:
            return chosen.cast(type)
        except pa.ArrowInvalid:
            valid = [text is not None and is_valid(text, type) for text in chosen.to_pylist()]
            chosen = pc.if_else(pa.array(valid, pa.bool_()), chosen, None)
    return chosen.cast(type)


def _is_in_calendar(text: str, _type: pa.DataType) -> bool:
    """A quick answer, right for nearly all texts."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_valid(text: str, type: pa.DataType) -> bool:
    try:
        pa.scalar(text).cast(type)
    except pa.ArrowInvalid:
        return False
    return True
