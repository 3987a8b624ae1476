"""Regular expressions of clients."""

from __future__ import annotations

import pytest

from headrace.broker.patterns import compiled, matching
from headrace.errors import HeadraceError


@pytest.mark.parametrize("pattern", ["(", "[a", "(?=a)b", r"(a)\1", "a{1001}", "(((a{9}){99}){99}){99}"])
def test_invalid_or_large_pattern_is_rejected(pattern: str) -> None:
    with pytest.raises(HeadraceError, match="RE2"):
        compiled(pattern)


def test_pattern_matches_whole_names_in_linear_time() -> None:
    assert matching("a|ab", ["a", "ab", "abc"]) == {"a", "ab"}
    # Python's own `re` takes exponential time for this.
    assert matching("(a*)*b", ["a" * 249]) == frozenset()
