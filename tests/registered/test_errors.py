"""The errors of registries."""

from __future__ import annotations

import pytest

from headrace.registered.errors import RequestRejected


@pytest.mark.parametrize(("code", "is_missing"), [(404, True), (40401, True), (409, False), (42201, False)])
def test_missing_objects_differ_from_other_rejections(code: int, is_missing: bool) -> None:
    assert RequestRejected("x", code=code).is_missing is is_missing
