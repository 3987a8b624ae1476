"""`name=value` pairs as people type them."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.errors import HeadraceError


class BadArgument(HeadraceError):
    """An argument that is there but cannot be read."""


def parse_pairs(pairs: Iterable[str], *, option: str) -> dict[str, str]:
    """`["a=1", "b=2"]` as a dictionary."""
    parsed = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise BadArgument(f"{option} {pair!r} is not a pair", hint=f"write {option} name=value")
        parsed[name.strip()] = value
    return parsed
