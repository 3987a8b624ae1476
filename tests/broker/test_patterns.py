"""Regular expressions of clients."""

from __future__ import annotations

import pytest

from headrace.broker.patterns import InvalidPattern, compiled, matching


@pytest.mark.parametrize("pattern", ["(", "[a", "(?=a)b", r"(a)\1", "a{1001}", "(((a{9}){99}){99}){99}"])
def test_what_is_no_pattern_or_too_big_a_one_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        compiled(pattern)


def test_a_pattern_matches_whole_names_in_linear_time() -> None:
    assert matching("a|ab", ["a", "ab", "abc"]) == {"a", "ab"}
    # Python's own `re` would not live to see the end of this.
    assert matching("(a*)*b", ["a" * 249]) == frozenset()
