"""The base class of errors for users. Each error names the object, the problem and the remedy.

A module defines its own subclasses of `HeadraceError` next to the code that raises them.
"""

from __future__ import annotations


class HeadraceError(Exception):
    """A problem of the input or of the environment. Bugs of Headrace are assertions instead.

    `hint` is the remedy: what the user can do next.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message
