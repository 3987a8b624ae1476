"""GROUP BY in plans."""

from __future__ import annotations

import pytest

from headrace.views.errors import BadView
from headrace.views.sql.plan import Group, Project
from tests.views.sql.tables import plan_of


def grouped(sql: str) -> Group:
    root = plan_of(sql, "city").root
    assert isinstance(root, Project)
    assert isinstance(root.input, Group)
    return root.input


def test_equal_aggregates_are_computed_once() -> None:
    group = grouped(
        "SELECT city, sum(id) AS a, sum(id) / count(*) AS b FROM users GROUP BY city HAVING count(*) > 1"
    )
    assert len(group.aggregates) == 2


def test_expressions_of_aggregates_are_computed_before_the_groups() -> None:
    group = grouped("SELECT city, max(length(name)) FILTER (WHERE id > 3) AS a FROM users GROUP BY city")
    assert isinstance(group.input, Project)
    assert [each.shown for each in group.input.outputs] == [
        "city",
        "CASE WHEN id > 3 THEN LENGTH(name) END",
    ]


@pytest.mark.parametrize(
    "call",
    [
        "collect_list(name)",
        "percentile(id, 0.5)",
        "sum(DISTINCT id)",
        "first(name)",
        "bool_or(id > 3)",
        "avg(DISTINCT id)",
    ],
)
def test_aggregate_that_cannot_subtract_a_row_is_rejected_with_its_place(call: str) -> None:
    with pytest.raises(BadView, match="line 1, column") as failed:
        plan_of(f"SELECT city, {call} AS x FROM users GROUP BY city", "city")
    assert "count(DISTINCT" in failed.value.hint
