"""Values of the binary log to what JSON holds: one reader for each column, chosen when the table is described."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable
from typing import Any
from uuid import UUID

from pymysqlreplication.json_binary import parse_json

from headrace.cdc.mysql import tablemap as t
from headrace.cdc.mysql.charsets import Decode
from headrace.cdc.mysql.times import days, micros, micros_of_day, zoned
from headrace.cdc.mysql.types import (
    BYTES,
    GEOMETRIES,
    Spec,
    base64_text,
    bits_text,
    geometry_text,
    no_date,
    single,
)

Reader = Callable[[bytes, int], tuple[Any, int]]
"""From the log and a position in it to the value and the position after it."""

_INTEGER_BYTES = {t.TINY: 1, t.SHORT: 2, t.INT24: 3, t.LONG: 4, t.LONGLONG: 8}
_DIGITS_PER_WORD = 9
_DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""of so many digits of a DECIMAL"""


def reader(spec: Spec, kind: int, metadata: int, decode: Decode) -> Reader | None:
    """None if values of this kind cannot be read. `decode` is that of the column's character set."""
    if kind in _INTEGER_BYTES:
        return _integer(_INTEGER_BYTES[kind], is_signed=not spec.is_unsigned)
    if kind == t.NEWDECIMAL:
        return _decimal(*divmod(metadata, 256))
    if kind in (t.VARCHAR, t.VAR_STRING, t.STRING):
        return _prefixed(2 if metadata > 255 else 1, _convert(spec, decode, metadata))
    if kind in (t.BLOB, t.GEOMETRY, t.VECTOR):
        return _prefixed(metadata, _convert(spec, decode, 0))
    if kind == t.JSON:
        return _prefixed(metadata, _json)
    if kind == t.ENUM:
        return _enum(metadata, spec.values)
    if kind == t.SET:
        return _set(metadata, spec.values)
    if kind == t.BIT:
        return _bit(metadata // 256 * 8 + metadata % 256)
    if kind in (t.TIMESTAMP, t.DATETIME, t.TIME) and spec.scale:
        return None  # MariaDB's own format with a fraction (mysql56_temporal_format=OFF), without its length
    return _temporal_or_number(spec, kind, metadata)


def _temporal_or_number(spec: Spec, kind: int, metadata: int) -> Reader | None:
    match kind:
        case t.FLOAT:
            return lambda data, at: (single(struct.unpack_from("<f", data, at)[0]), at + 4)
        case t.DOUBLE:
            return lambda data, at: (struct.unpack_from("<d", data, at)[0], at + 8)
        case t.YEAR:
            return lambda data, at: (data[at] + 1900 if data[at] else 0, at + 1)
        case t.DATE | t.NEWDATE:
            return _date(no_date(spec))
        case t.DATETIME2:
            return _datetime2(metadata, no_date(spec))
        case t.TIMESTAMP2:
            return _timestamp2(metadata, no_date(spec))
        case t.TIME2:
            return _time2(metadata)
        case t.DATETIME:
            return _old_datetime(no_date(spec))
        case t.TIMESTAMP:
            return _old_timestamp(no_date(spec))
        case t.TIME:
            return _old_time
    return None


def _convert(spec: Spec, decode: Decode, length: int) -> Callable[[bytes], Any]:
    """What is made of the bytes of a value that has its length before it."""
    if spec.type == "binary":
        # The log has no zeros at the end.
        return lambda data: base64_text(data.ljust(spec.length or length, b"\0"))
    if spec.type in BYTES:
        return base64_text
    if spec.type in GEOMETRIES:
        return geometry_text
    if spec.type == "uuid":
        return _uuid
    if spec.type == "inet4":
        return lambda data: socket.inet_ntop(socket.AF_INET, data.ljust(4, b"\0"))
    if spec.type == "inet6":
        return lambda data: socket.inet_ntop(socket.AF_INET6, data.ljust(16, b"\0"))
    return decode


def _uuid(data: bytes) -> str:
    """MariaDB stores the parts of a UUID in reverse order, so that those of the same time are near each other. Of
    versions 6 and later, which sort by themselves, it does not."""
    data = data.ljust(16, b"\0")
    is_swapped = data[6] == 0 or data[8] & 0x80 == 0
    whole = data[12:16] + data[10:12] + data[8:10] + data[6:8] + data[0:6] if is_swapped else data
    return str(UUID(bytes=whole))


def _json(data: bytes) -> str | None:
    """MySQL's binary JSON. An empty value is one that an older server wrote for NULL."""
    if not data:
        return None
    return json.dumps(_text_keys(parse_json(data[0], data[1:])), ensure_ascii=False, default=str)


def _text_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {_text_keys(key): _text_keys(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_text_keys(item) for item in value]
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _integer(size: int, *, is_signed: bool) -> Reader:
    def read(data: bytes, at: int) -> tuple[int, int]:
        return int.from_bytes(data[at : at + size], "little", signed=is_signed), at + size

    return read


def _prefixed(size: int, convert: Callable[[bytes], Any]) -> Reader:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        start = at + size
        end = start + int.from_bytes(data[at:start], "little")
        return convert(data[start:end]), end

    return read


def _enum(size: int, values: tuple[str, ...]) -> Reader:
    def read(data: bytes, at: int) -> tuple[str, int]:
        number = int.from_bytes(data[at : at + size], "little")
        # 0 is the empty text that the server stores for a value that is none of the list.
        return values[number - 1] if 0 < number <= len(values) else "", at + size

    return read


def _set(size: int, values: tuple[str, ...]) -> Reader:
    def read(data: bytes, at: int) -> tuple[str, int]:
        bits = int.from_bytes(data[at : at + size], "little")
        return ",".join(value for each, value in enumerate(values) if bits >> each & 1), at + size

    return read


def _bit(bits: int) -> Reader:
    size = (bits + 7) // 8
    return lambda data, at: (bits_text(data[at : at + size], bits), at + size)


def _decimal(precision: int, scale: int) -> Reader:
    """Nine digits in four bytes, the rest in fewer, big-endian. The first bit is the sign, inverted; a negative number
    has all bits inverted."""
    whole_words, whole_digits = divmod(precision - scale, _DIGITS_PER_WORD)
    words, digits = divmod(scale, _DIGITS_PER_WORD)
    whole = [whole_digits] * bool(whole_digits) + [_DIGITS_PER_WORD] * whole_words
    fraction = [_DIGITS_PER_WORD] * words + [digits] * bool(digits)
    size = sum(_DIGIT_BYTES[each] for each in (*whole, *fraction))

    def read(data: bytes, at: int) -> tuple[str, int]:
        part = bytearray(data[at : at + size])
        is_negative = not part[0] & 0x80
        part[0] ^= 0x80
        if is_negative:
            part = bytearray(byte ^ 0xFF for byte in part)
        texts = []
        start = 0
        for count in (*whole, *fraction):
            end = start + _DIGIT_BYTES[count]
            texts.append(f"{int.from_bytes(part[start:end], 'big'):0{count}d}")
            start = end
        number = "".join(texts[: len(whole)]).lstrip("0") or "0"
        behind = "".join(texts[len(whole) :])
        sign = "-" if is_negative else ""
        return f"{sign}{number}.{behind}" if behind else f"{sign}{number}", at + size

    return read


def _date(none: Any) -> Reader:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        number = int.from_bytes(data[at : at + 3], "little")
        day = days(number >> 9, number >> 5 & 15, number & 31)
        return none if day is None else day, at + 3

    return read


def _fraction_us(data: bytes, at: int, size: int) -> int:
    return int(int.from_bytes(data[at : at + size], "big") * 10 ** (6 - 2 * size))


def _datetime2(digits: int, none: Any) -> Reader:
    size = (digits + 1) // 2

    def read(data: bytes, at: int) -> tuple[Any, int]:
        number = int.from_bytes(data[at : at + 5], "big") - 0x80_0000_0000
        year, month = divmod(number >> 22, 13)
        time_us = micros_of_day(
            number >> 12 & 31, number >> 6 & 63, number & 63, _fraction_us(data, at + 5, size)
        )
        value = micros(days(year, month, number >> 17 & 31), time_us)
        return none if value is None else value, at + 5 + size

    return read


def _timestamp2(digits: int, none: Any) -> Reader:
    size = (digits + 1) // 2

    def read(data: bytes, at: int) -> tuple[Any, int]:
        seconds = int.from_bytes(data[at : at + 4], "big")
        fraction_us = _fraction_us(data, at + 4, size)
        value = zoned(seconds * 1_000_000 + fraction_us) if seconds or fraction_us else none
        return value, at + 4 + size

    return read


def _time2(digits: int) -> Reader:
    """Hours, minutes and seconds in three bytes and the fraction after them are one number, minus the middle of its
    range."""
    size = (digits + 1) // 2

    def read(data: bytes, at: int) -> tuple[int, int]:
        end = at + 3 + size
        number = int.from_bytes(data[at:end], "big") - (0x80_0000 << 8 * size)
        whole, fraction = divmod(abs(number), 1 << 8 * size)
        fraction_us = fraction * 10 ** (6 - 2 * size)
        time_us = micros_of_day(whole >> 12 & 1023, whole >> 6 & 63, whole & 63, fraction_us)
        return -time_us if number < 0 else time_us, end

    return read


def _old_datetime(none: Any) -> Reader:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        day, time = divmod(int.from_bytes(data[at : at + 8], "little"), 1_000_000)
        time_us = micros_of_day(time // 10_000, time // 100 % 100, time % 100, 0)
        value = micros(days(day // 10_000, day // 100 % 100, day % 100), time_us)
        return none if value is None else value, at + 8

    return read


def _old_timestamp(none: Any) -> Reader:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        seconds = int.from_bytes(data[at : at + 4], "little")
        return zoned(seconds * 1_000_000) if seconds else none, at + 4

    return read


def _old_time(data: bytes, at: int) -> tuple[int, int]:
    number = int.from_bytes(data[at : at + 3], "little", signed=True)
    time = abs(number)
    time_us = micros_of_day(time // 10_000, time // 100 % 100, time % 100, 0)
    return -time_us if number < 0 else time_us, at + 3
