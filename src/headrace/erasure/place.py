"""What holds copies of a topic's rows: a table, a cache, an index, a lake table, a key store, a view."""

from __future__ import annotations

from typing import Protocol

from headrace.erasure.subject import Subject


class Place(Protocol):
    """A copy that an erasure reaches. A place is named in the ledger, so its name has no password."""

    name: str

    def remaining(self, subject: Subject) -> int:
        """How many rows of the person are there, deleted ones included whose bytes a file still has."""
        ...

    def erase(self, subject: Subject) -> None:
        """Delete the person's rows, and rewrite the files that have them. Repeating it is harmless."""
        ...
