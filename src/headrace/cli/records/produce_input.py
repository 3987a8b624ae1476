"""The input of `headrace produce`, lines or bytes, as records. No broker is involved."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import BinaryIO, Literal, NoReturn

from msgspec import Struct

# The largest request that a broker accepts by default: no record can be larger.
RECORD_BYTES_MAX = 104_857_600


InputFormat = Literal["text", "json", "binary"]


class InputRecord(Struct, frozen=True, kw_only=True):
    key: bytes | None
    value: bytes | None
    input_bytes: int


class BadLine(Struct, frozen=True, kw_only=True):
    number: int
    reason: str
    input_bytes: int


class LineRules(Struct, frozen=True, kw_only=True):
    """How a line becomes a record."""

    is_json: bool
    key: bytes | None
    """of every record, unless there is a separator"""
    key_separator: bytes | None
    empty_is_tombstone: bool


def read_lines(stream: BinaryIO, rules: LineRules) -> Iterator[InputRecord | BadLine]:
    """One record per line; the line's end is not part of it."""
    number = 0
    while line := stream.readline(RECORD_BYTES_MAX + 1):
        number += 1
        if len(line) > RECORD_BYTES_MAX:
            yield BadLine(
                number=number, reason=f"longer than {RECORD_BYTES_MAX} bytes", input_bytes=len(line)
            )
            return
        text = line.removesuffix(b"\n").removesuffix(b"\r")
        try:
            key, value = _split(text, rules)
        except ValueError as error:
            yield BadLine(number=number, reason=str(error), input_bytes=len(line))
            continue
        yield InputRecord(key=key, value=value, input_bytes=len(line))


def read_chunks(
    stream: BinaryIO, chunk_bytes: int | None, *, key: bytes | None
) -> Iterator[InputRecord | BadLine]:
    """The input as one record, or as records of `chunk_bytes`."""
    if chunk_bytes is None:
        whole = stream.read(RECORD_BYTES_MAX + 1)
        if len(whole) > RECORD_BYTES_MAX:
            reason = f"more than {RECORD_BYTES_MAX} bytes are too large for one record: give --chunk-bytes"
            yield BadLine(number=1, reason=reason, input_bytes=len(whole))
        else:
            yield InputRecord(key=key, value=whole, input_bytes=len(whole))
        return
    while chunk := stream.read(chunk_bytes):
        yield InputRecord(key=key, value=chunk, input_bytes=len(chunk))


def _split(text: bytes, rules: LineRules) -> tuple[bytes | None, bytes | None]:
    key, value = rules.key, text
    if rules.key_separator is not None:
        key, separator, value = text.partition(rules.key_separator)
        if not separator:
            raise ValueError(f"no key separator {rules.key_separator.decode(errors='replace')!r}")
    if rules.empty_is_tombstone and not value:
        return key, None
    if rules.is_json:
        _check_json(value)
    return key, value


def _check_json(value: bytes) -> None:
    try:
        json.loads(value, parse_constant=_reject_constant)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at column {error.colno}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"not JSON: not UTF-8 at byte {error.start + 1}") from error
    except RecursionError as error:
        raise ValueError("not JSON that can be parsed: nested too deeply") from error


def _reject_constant(name: str) -> NoReturn:
    # Python parses them, the standard and most other parsers do not.
    raise ValueError(f"not JSON: {name} is not a number in JSON")
