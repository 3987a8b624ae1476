"""Compatibility levels, with numbers as schemas: a reader can read smaller or equal numbers."""

from __future__ import annotations

import pytest

from headrace.schemas.incompatibility import Incompatibility
from headrace.schemas.levels import Compatibility, first_conflict, versions_to_compare


def compare(reader: int, writer: int) -> list[Incompatibility]:
    return (
        [] if reader >= writer else [Incompatibility(kind="SMALLER", path="/", detail=f"{reader} < {writer}")]
    )


@pytest.mark.parametrize(
    ("level", "allowed"),
    [
        ("NONE", range(10)),
        ("BACKWARD", range(3, 10)),
        ("BACKWARD_TRANSITIVE", range(5, 10)),
        ("FORWARD", range(4)),
        ("FORWARD_TRANSITIVE", range(2)),
        ("FULL", [3]),
        ("FULL_TRANSITIVE", []),
    ],
)
def test_a_level_allows_what_its_directions_and_versions_allow(level: str, allowed: object) -> None:
    versions = [1, 5, 3]
    found = [new for new in range(10) if not first_conflict(Compatibility(level), new, versions, compare)]
    assert found == list(allowed)  # type: ignore[call-overload]


def test_the_newest_version_is_compared_first() -> None:
    assert list(versions_to_compare(Compatibility.FULL_TRANSITIVE, [1, 2, 3])) == [3, 2, 1]
    conflict = first_conflict(Compatibility.BACKWARD_TRANSITIVE, 0, [1, 2, 3], compare)
    assert conflict is not None
    assert (conflict[0], conflict[1][0].detail) == (3, "0 < 3")


def test_a_first_version_is_compatible_at_every_level() -> None:
    assert not any(first_conflict(level, 1, [], compare) for level in Compatibility)
