"""Errors of erasures are for users: message and hint."""

from __future__ import annotations

import pytest

from headrace.erasure import BadErasure, ErasureInterrupted
from headrace.errors import HeadraceError


@pytest.mark.parametrize("kind", [BadErasure, ErasureInterrupted])
def test_error_has_a_hint(kind: type[HeadraceError]) -> None:
    assert str(kind("it failed", hint="try this")) == "it failed (try this)"
