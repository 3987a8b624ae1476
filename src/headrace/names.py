"""Names that a person mistyped, and the name that was meant."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that looks most like this one, if one does."""
    import difflib  # only a mistake pays for it

    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=0.7)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint with the nearest known name; empty if none is near."""
    near = nearest(name, known)
    return f"did you mean {near}?" if near else ""
