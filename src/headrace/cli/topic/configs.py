"""Configs of topics and groups as people type them: `retention.ms=1h`, `segment.bytes=64MB`, mistyped names."""

from __future__ import annotations

import re
from collections.abc import Iterable

from headrace.cli.addresses import BadArgument, parse_pairs
from headrace.durations import parse_duration_ms
from headrace.names import did_you_mean

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)
_POWERS = ("", "k", "m", "g", "t")


def parse_configs(pairs: Iterable[str]) -> dict[str, str]:
    """`["retention.ms=1h"]` -> `{"retention.ms": "3600000"}`; a broker accepts numbers only."""
    return {name: _plain(name, text) for name, text in parse_pairs(pairs, option="--config").items()}


def unknown_config(unknown: str, known: Iterable[str]) -> BadArgument:
    hint = did_you_mean(unknown, known) or "the reference of settings lists the configs"
    return BadArgument(f"there is no config {unknown}", hint=hint)


def parse_size_bytes(text: str) -> int:
    """`64MB` is 64,000,000 and `64MiB` is 67,108,864."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise BadArgument(f"{text!r} is not a size", hint="write 1000000, 64MB, 64MiB or 1.5GB")
    number, unit, binary = found.groups()
    return int(float(number) * (1024 if binary else 1000) ** _POWERS.index(unit.lower()))


def _plain(name: str, text: str) -> str:
    if re.fullmatch(r"\s*-?\d+\s*", text):
        return text.strip()
    if name.endswith(".ms"):
        return str(parse_duration_ms(text))
    if name.endswith(".bytes"):
        return str(parse_size_bytes(text))
    return text
