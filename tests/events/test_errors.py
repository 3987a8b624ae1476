from __future__ import annotations

import pytest

from headrace.errors import HeadraceError
from headrace.events import errors


@pytest.mark.parametrize(
    "kind",
    [each for each in vars(errors).values() if isinstance(each, type) and each.__module__ == errors.__name__],
)
def test_every_error_is_one_of_event_sourcing_and_of_headrace(kind: type) -> None:
    assert issubclass(kind, errors.EventsError)
    assert issubclass(kind, HeadraceError)


def test_conflict_has_the_current_version() -> None:
    conflict = errors.VersionConflict("ada is at version 3", hint="load it", version=3)
    assert (conflict.version, str(conflict)) == (3, "ada is at version 3 (load it)")
