"""Suggestions for mistyped names."""

from __future__ import annotations

import pytest

from headrace.names import did_you_mean, nearest

KNOWN = ["clicks", "orders", "order-items"]


@pytest.mark.parametrize(
    ("name", "near"),
    [("click", "clicks"), ("ordrs", "orders"), ("orders", "orders"), ("payments", None), ("", None)],
)
def test_nearest_name_is_similar_or_none(name: str, near: str | None) -> None:
    assert nearest(name, iter(KNOWN)) == near


def test_hint_names_the_nearest_one_and_is_empty_without_one() -> None:
    assert did_you_mean("click", KNOWN) == "did you mean clicks?"
    assert did_you_mean("payments", KNOWN) == ""
    assert did_you_mean("click", []) == ""
