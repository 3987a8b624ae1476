"""Arguments as people type them: pairs, configs, sizes, and characters that a shell can't type easily."""

from __future__ import annotations

import re
from collections.abc import Iterable

from headrace.durations import parse_duration_ms
from headrace.errors import HeadraceError
from headrace.names import did_you_mean

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)
_POWERS = ("", "k", "m", "g", "t")
_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{2}|.|$)", re.DOTALL)
_CHARACTERS = {"t": b"\t", "n": b"\n", "r": b"\r", "0": b"\0", "\\": b"\\"}


def parse_pairs(pairs: Iterable[str], *, option: str) -> dict[str, str]:
    """`["a=1", "b=2"]` as a dictionary."""
    parsed = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise HeadraceError(f"{option} {pair!r} is not a pair", hint=f"write {option} name=value")
        parsed[name.strip()] = value
    return parsed


def parse_configs(pairs: Iterable[str]) -> dict[str, str]:
    """`["retention.ms=1h"]` -> `{"retention.ms": "3600000"}`; a broker accepts numbers only."""
    return {name: _without_unit(name, text) for name, text in parse_pairs(pairs, option="--config").items()}


def _without_unit(name: str, text: str) -> str:
    if re.fullmatch(r"\s*-?\d+\s*", text):
        return text.strip()
    if name.endswith(".ms"):
        return str(parse_duration_ms(text))
    if name.endswith(".bytes"):
        return str(parse_size_bytes(text))
    return text


def unknown_config(unknown: str, known: Iterable[str]) -> HeadraceError:
    hint = did_you_mean(unknown, known) or "the reference of settings lists the configs"
    return HeadraceError(f"there is no config {unknown}", hint=hint)


def parse_size_bytes(text: str) -> int:
    """`64MB` is 64,000,000 and `64MiB` is 67,108,864."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise HeadraceError(f"{text!r} is not a size", hint="write 1000000, 64MB, 64MiB or 1.5GB")
    number, unit, binary = found.groups()
    return int(float(number) * (1024 if binary else 1000) ** _POWERS.index(unit.lower()))


def unescape(text: str, *, option: str) -> bytes:
    r"""Escapes such as `\t` and `\x1f` as bytes; everything else unchanged."""

    def plain(found: re.Match[bytes]) -> bytes:
        code = found[1].decode(errors="replace")
        if len(code) == 3:
            return bytes([int(code[1:], 16)])
        if code not in _CHARACTERS:
            raise HeadraceError(
                f"{option} {text!r} has an unknown escape \\{code}",
                hint=r"write \t, \n, \r, \0, \x1f, or \\ for a backslash",
            )
        return _CHARACTERS[code]

    return _ESCAPE.sub(plain, text.encode(errors="surrogateescape"))
