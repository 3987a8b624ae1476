"""Silences: for a time, alerts and keys that match send nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct

from headrace.alerts.errors import BadAlert


class Silence(Struct, frozen=True, kw_only=True):
    id: str
    start_ms: int
    end_ms: int
    alert: str = "*"
    """pattern of names"""
    key: Mapping[str, str] = {}
    """patterns of values, by field; empty for all keys"""
    comment: str = ""
    by: str = ""

    def is_active(self, now_ms: int) -> bool:
        return self.start_ms <= now_ms < self.end_ms

    def matches(self, alert: str, key: Mapping[str, Any]) -> bool:
        return fnmatchcase(alert, self.alert) and matches_key(self.key, key)


def matches_key(matchers: Mapping[str, str], key: Mapping[str, Any]) -> bool:
    """Whether the key has all these fields, with values that match the patterns."""
    return all(name in key and fnmatchcase(shown(key[name]), pattern) for name, pattern in matchers.items())


def shown(value: Any) -> str:
    """A value of a key, as people write it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def silenced_until(
    silences: Sequence[Silence], alert: str, key: Mapping[str, Any], now_ms: int
) -> int | None:
    """The end of the longest silence of the key; None if it is not silenced."""
    ends = [each.end_ms for each in silences if each.is_active(now_ms) and each.matches(alert, key)]
    return max(ends, default=None)


def parse_matchers(texts: Sequence[str]) -> dict[str, str]:
    """`service=check*` for each."""
    matchers = {}
    for text in texts:
        name, separator, pattern = text.partition("=")
        if not (name.strip() and separator):
            raise BadAlert(
                f"{text!r} is not FIELD=PATTERN", hint="such as service=checkout, or service=check*"
            )
        matchers[name.strip()] = pattern.strip()
    return matchers
