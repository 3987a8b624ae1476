"""Rows with a second plan are marked with the id by which a job finds it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from headrace.operators import append_plans
from headrace.operators.append_plans import append_plan, with_append_plan

OTHER = cast(Any, "other rows")


class Rows:
    def alias(self, name: str) -> str:
        return name


def test_plan_is_found_by_the_alias_of_the_rows() -> None:
    alias = cast(str, with_append_plan(cast(Any, Rows()), lambda: OTHER))
    assert append_plan(alias) is OTHER
    assert append_plan("a name of the user") is None
    assert append_plan(alias + "0") is None


def test_oldest_plan_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(append_plans, "PLANS_MAX", 1)
    first, second = (cast(str, with_append_plan(cast(Any, Rows()), lambda: OTHER)) for _ in range(2))
    assert append_plan(first) is None
    assert append_plan(second) is OTHER
