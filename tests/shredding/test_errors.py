"""Errors of encryption per person are for users: message and hint."""

from __future__ import annotations

import pytest

from headrace.errors import HeadraceError
from headrace.shredding import BadCiphertext, BadKeyStore, SubjectShredded


@pytest.mark.parametrize("kind", [BadCiphertext, BadKeyStore, SubjectShredded])
def test_error_has_a_hint(kind: type[HeadraceError]) -> None:
    assert str(kind("it failed", hint="try this")) == "it failed (try this)"
