"""Suggestions for mistyped names."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most similar to this one, if any is similar."""
    import difflib  # imported only after a mistake

    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=0.7)), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint with the most similar known name; empty if none is similar."""
    near = nearest(name, known)
    return f"did you mean {near}?" if near else ""
