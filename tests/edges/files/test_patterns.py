"""Regular expressions of users, on bytes."""

from __future__ import annotations

import pytest

from headrace.edges.errors import BadEdge
from headrace.edges.files.patterns import compiled


def test_expression_matches_bytes_that_are_not_utf8() -> None:
    assert compiled(r"^\d+ é", option="--regex").search(b"12 \xc3\xa9\xff")
    assert compiled(r"b$", option="--regex").search(b"\xff\xfeb")


@pytest.mark.parametrize("expression", ["(", r"(a)\1", "((a{100}){100}){100}"])
def test_wrong_or_too_large_expression_is_an_error_with_the_remedy(expression: str) -> None:
    with pytest.raises(BadEdge, match="--regex") as raised:
        compiled(expression, option="--regex")
    assert "RE2" in (raised.value.hint or "")
