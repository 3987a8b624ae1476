"""Errors that reach a person: each says what went wrong and what to do next.

Only the root and the few kinds that callers tell apart live here; a module with an error of its own subclasses
`HeadraceError` beside the code that raises it.
"""

from __future__ import annotations


class HeadraceError(Exception):
    """Something that the user or the world did, as opposed to a bug of ours (those are assertions).

    `hint` is the next thing to try, in words a person can follow.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message
