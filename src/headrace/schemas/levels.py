"""Compatibility levels: which earlier versions a new schema is compared with, and in which direction.

BACKWARD: readers with the new schema can read data of the last version. FORWARD: readers with the last version can
read data of the new one. FULL: both. TRANSITIVE: with all earlier versions instead of the last one.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import TypeVar

from headrace.schemas.incompatibility import Incompatibility

S = TypeVar("S")

Compare = Callable[[S, S], Sequence[Incompatibility]]
"""`compare(reader, writer)`."""


class Compatibility(enum.StrEnum):
    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def is_transitive(self) -> bool:
        return self.value.endswith("_TRANSITIVE")

    @property
    def is_backward(self) -> bool:
        return self.value.startswith(("BACKWARD", "FULL"))

    @property
    def is_forward(self) -> bool:
        return self.value.startswith(("FORWARD", "FULL"))


def versions_to_compare(level: Compatibility, versions: Sequence[S]) -> Sequence[S]:
    """Of the versions in ascending order; the newest first."""
    if level is Compatibility.NONE:
        return []
    return versions[::-1] if level.is_transitive else versions[-1:]


def first_conflict(
    level: Compatibility, new: S, versions: Sequence[S], compare: Compare[S]
) -> tuple[S, list[Incompatibility]] | None:
    """The newest version with which the new schema violates the level, and the reasons."""
    for old in versions_to_compare(level, versions):
        found = [*compare(new, old)] if level.is_backward else []
        found += compare(old, new) if level.is_forward else []
        if found:
            return old, found
    return None
