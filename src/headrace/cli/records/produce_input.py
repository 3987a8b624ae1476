"""The input of `headrace produce`, lines or bytes, as records. No broker is involved.

Lines are read and split in blocks, because the time of `headrace produce` is that of Python for each line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from io import BufferedIOBase
from typing import Literal, NoReturn

import msgspec
from msgspec import Struct

# The largest request that a broker accepts by default: no record can be larger.
RECORD_BYTES_MAX = 104_857_600

# Read at once, at most: more than a pipe holds, and small beside what the client buffers.
BLOCK_BYTES = 256 * 1024


InputFormat = Literal["text", "json", "binary"]

KeyAndValue = tuple[bytes | None, bytes | None]


class Block(Struct, frozen=True, kw_only=True):
    """Records that were read together. `input_bytes` are those that were read since the last block."""

    records: list[KeyAndValue]
    input_bytes: int


class BadLine(Struct, frozen=True, kw_only=True):
    number: int
    reason: str


class LineRules(Struct, frozen=True, kw_only=True):
    """How a line becomes a record."""

    is_json: bool
    key: bytes | None
    """of every record, unless there is a separator"""
    key_separator: bytes | None
    empty_is_tombstone: bool
    encode: Callable[[bytes], bytes] | None = None
    """The value of a line as that of its record. ValueError if it can't be one."""

    @property
    def is_plain(self) -> bool:
        """Whether each line is a value as it is."""
        return not (self.is_json or self.key_separator or self.empty_is_tombstone or self.encode)


def read_lines(stream: BufferedIOBase, rules: LineRules) -> Iterator[Block | BadLine]:
    """One record per line; the line's end is not part of it. What has arrived is read, without waiting for more."""
    number = 0
    for data in _whole_lines(stream):
        lines = data.split(b"\n")
        if data.endswith(b"\n"):
            del lines[-1]
        if b"\r" in data:
            lines = [line.removesuffix(b"\r") for line in lines]
        if too_long := len(data) > RECORD_BYTES_MAX and _first_too_long(lines):
            del lines[too_long - 1 :]
        if rules.is_plain:
            yield Block(records=[(rules.key, line) for line in lines], input_bytes=len(data))
        else:
            yield from _records(lines, rules, number, len(data))
        number += len(lines)
        if too_long:
            yield BadLine(number=number + 1, reason=f"longer than {RECORD_BYTES_MAX} bytes")
            return


def _records(
    lines: list[bytes], rules: LineRules, number: int, input_bytes: int
) -> Iterator[Block | BadLine]:
    """The records, in blocks that end at a bad line. `number` is that of the line in front of them."""
    records: list[KeyAndValue] = []
    for line in lines:
        number += 1
        try:
            records.append(_split(line, rules))
        except ValueError as error:
            yield Block(records=records, input_bytes=0)
            yield BadLine(number=number, reason=str(error))
            records = []
    yield Block(records=records, input_bytes=input_bytes)


def _whole_lines(stream: BufferedIOBase) -> Iterator[bytes]:
    """Pieces of the input that end where a line ends, but for the last one, and for a line that is too long."""
    parts: list[bytes] = []
    size = 0
    while data := stream.read1(BLOCK_BYTES):
        end = data.rfind(b"\n") + 1
        if end:
            yield b"".join((*parts, data[:end]))
            parts, size = [], 0
        parts.append(data[end:])
        size += len(data) - end
        if size > RECORD_BYTES_MAX:
            break
    if size:
        yield b"".join(parts)


def _first_too_long(lines: list[bytes]) -> int:
    """The number of the first line that no record can hold; 0 if there is none."""
    return next((number for number, line in enumerate(lines, 1) if len(line) > RECORD_BYTES_MAX), 0)


def read_chunks(
    stream: BufferedIOBase, chunk_bytes: int | None, *, key: bytes | None
) -> Iterator[Block | BadLine]:
    """The input as one record, or as records of `chunk_bytes`."""
    if chunk_bytes is None:
        whole = stream.read(RECORD_BYTES_MAX + 1)
        if len(whole) > RECORD_BYTES_MAX:
            reason = f"more than {RECORD_BYTES_MAX} bytes are too large for one record: give --chunk-bytes"
            yield BadLine(number=1, reason=reason)
        else:
            yield Block(records=[(key, whole)], input_bytes=len(whole))
        return
    while chunk := stream.read(chunk_bytes):
        yield Block(records=[(key, chunk)], input_bytes=len(chunk))


def _split(text: bytes, rules: LineRules) -> KeyAndValue:
    key, value = rules.key, text
    if rules.key_separator is not None:
        key, separator, value = text.partition(rules.key_separator)
        if not separator:
            raise ValueError(f"no key separator {rules.key_separator.decode(errors='replace')!r}")
    if rules.empty_is_tombstone and not value:
        return key, None
    if rules.is_json:
        _check_json(value)
    return key, value if rules.encode is None else rules.encode(value)


_decode_json = msgspec.json.Decoder().decode


def _check_json(value: bytes) -> None:
    try:
        _decode_json(value)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        _check_json_slowly(value)


def _check_json_slowly(value: bytes) -> None:
    """Find the reason; a few texts that only Python parses are accepted."""
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
