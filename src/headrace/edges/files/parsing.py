"""Lines as JSON: web-server logs, logfmt, and what a regular expression finds. JSON is checked, and stays as it is.

A line that does not parse raises NotParsed with the reason. Bytes that are not UTF-8 become `\\xNN`: JSON has none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from headrace.edges.errors import BadEdge
from headrace.edges.files.patterns import compiled

Format = Literal["combined", "json", "logfmt", "regex"]
Parse = Callable[[bytes], bytes]

# A quoted field may have escaped quotes.
_QUOTED = r'"((?:[^"\\]|\\.)*)"'
_COMBINED = re.compile(
    rf"(\S+) (\S+) (\S+) \[([^\]]+)\] {_QUOTED} (\d{{3}}) (\d+|-)(?: {_QUOTED} {_QUOTED})?(?: .*)?"
)
_LOGFMT = re.compile(r'([^\s="]+)(?:=(?:"((?:[^"\\]|\\.)*)"(?=\s|$)|([^\s"]*)(?=\s|$)))?\s*')
_ESCAPED = re.compile(r"\\(.)")
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r"}
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_TIME = re.compile(r"(\d\d)/(\w{3})/(\d{4}):(\d\d):(\d\d):(\d\d) ([+-]\d\d)(\d\d)")

_encode = msgspec.json.Encoder().encode


class NotParsed(Exception):
    """The line is not of the format."""


def parser_of(format: Format, expression: str | None = None) -> Parse:
    """`expression` is that of `regex`: its named groups are the fields."""
    if (format == "regex") != (expression is not None):
        raise BadEdge(
            "--parse regex needs --regex" if expression is None else "--regex is for --parse regex",
            hint=r"--parse regex --regex '^(?P<time>\S+) (?P<level>\w+) (?P<text>.*)$'",
        )
    if expression is not None:
        return _by_expression(expression)
    return {"combined": combined, "json": json_object, "logfmt": logfmt}[format]


def combined(line: bytes) -> bytes:
    """The combined or the common log format of Apache and nginx. Fields that are `-` are missing."""
    found = _COMBINED.fullmatch(_text(line))
    if found is None:
        raise NotParsed("not of the combined log format")
    host, _, user, time, request, status, size, referer, agent = found.groups()
    method, _, target = request.partition(" ")
    path, _, protocol = target.rpartition(" ")
    fields: dict[str, Any] = {
        "time": _time_text(time),
        "host": host,
        "user": user,
        "method": method if path else None,
        "path": path or request,
        "protocol": protocol if path else None,
        "status": int(status),
        "bytes": 0 if size == "-" else int(size),
        "referer": referer,
        "agent": agent,
    }
    return _encode({name: value for name, value in fields.items() if value not in (None, "-")})


def _time_text(time: str) -> str:
    """18/Nov/2026:08:46:04 +0100 -> 2026-11-18T07:46:04Z"""
    found = _TIME.fullmatch(time)
    if found is None or found[2] not in _MONTHS:
        raise NotParsed(f"{time!r} is no time of the combined log format")
    month = _MONTHS.index(found[2]) + 1
    day, year, hour, minute, second = (int(found[group]) for group in (1, 3, 4, 5, 6))
    zone = f"{found[7]}:{found[8]}"
    try:
        moment = datetime.fromisoformat(
            f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{zone}"
        )
        return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError) as error:
        raise NotParsed(f"{time!r} is no time: {error}") from error


def json_object(line: bytes) -> bytes:
    try:
        msgspec.json.decode(line, type=dict[str, msgspec.Raw])
        msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise NotParsed(f"not a JSON object: {error}") from error
    except RecursionError as error:
        raise NotParsed("not JSON that can be parsed: nested too deeply") from error
    return line


def logfmt(line: bytes) -> bytes:
    """`level=info msg="it works" done`: a name alone is true."""
    text, position = _text(line).strip(), 0
    fields: dict[str, str | bool] = {}
    while position < len(text):
        found = _LOGFMT.match(text, position)
        if found is None:
            raise NotParsed(f"not logfmt at character {position + 1}")
        name, quoted, plain = found.groups()
        fields[name] = _unescaped(quoted) if quoted is not None else True if plain is None else plain
        position = found.end()
    if not any(value is not True for value in fields.values()):
        raise NotParsed("no field of logfmt")
    return _encode(fields)


def _unescaped(quoted: str) -> str:
    return _ESCAPED.sub(lambda found: _CONTROLS.get(found[1], found[1]), quoted)


def _by_expression(expression: str) -> Parse:
    pattern = compiled(expression, option="--regex")
    fields = [
        (name.decode() if isinstance(name, bytes) else name, group)
        for name, group in pattern.groupindex.items()
    ]
    if not fields:
        raise BadEdge(f"--regex {expression!r} has no named group", hint=r"such as (?P<level>\w+)")

    def parse(line: bytes) -> bytes:
        found = pattern.search(line)
        if found is None:
            raise NotParsed("the regular expression does not match")
        return _encode({name: _text(found[group]) for name, group in fields if found[group] is not None})

    return parse


def _text(line: bytes) -> str:
    return line.decode(errors="backslashreplace")
