"""ROW_NUMBER() and LIMIT in plans."""

from __future__ import annotations

import pytest

from headrace.views.errors import BadView
from headrace.views.sql.plan import Project, Top
from tests.views.sql.tables import plan_of

RANKED = "(SELECT *, ROW_NUMBER() OVER (PARTITION BY city ORDER BY name DESC, id) AS n FROM users) AS t"


@pytest.mark.parametrize(("condition", "count"), [("n <= 2", 2), ("n < 2", 1), ("n = 1 AND id > 3", 1)])
def test_condition_on_the_row_number_bounds_the_rows_of_a_key(condition: str, count: int) -> None:
    root = plan_of(f"SELECT id, city FROM {RANKED} WHERE {condition}").root
    assert isinstance(root, Project)
    assert isinstance(root.input, Top)
    assert root.input.count == count
    assert list(root.input.order.values()) == ["desc nulls last", "asc nulls first"]


def test_order_with_a_limit_is_the_first_of_all_rows() -> None:
    root = plan_of("SELECT id, name FROM users ORDER BY name LIMIT 3").root
    assert isinstance(root, Top)
    assert (root.count, root.by) == (3, ())


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (f"SELECT id FROM {RANKED}", "no condition bounds n"),
        (f"SELECT id FROM {RANKED} WHERE n >= 2", "no condition bounds n"),
        (f"SELECT t.id FROM {RANKED} JOIN orders o ON o.id = t.id WHERE n = 1", "is joined"),
        ("SELECT id FROM users QUALIFY ROW_NUMBER() OVER (ORDER BY id) = 1", "QUALIFY"),
        ("SELECT id FROM users ORDER BY id LIMIT 0", "LIMIT 0"),
        (
            "SELECT id FROM (SELECT id, RANK() OVER (ORDER BY name) AS n FROM users) AS t WHERE n = 1",
            "cannot be kept up to date",
        ),
        (
            "SELECT id FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY name) AS n FROM users) AS t WHERE n = 1",
            "no order",
        ),
    ],
)
def test_unbounded_or_unordered_rows_are_rejected_with_a_remedy(sql: str, message: str) -> None:
    with pytest.raises(BadView, match=message) as failed:
        plan_of(sql)
    assert failed.value.hint
