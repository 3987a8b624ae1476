"""FROM and JOIN in plans."""

from __future__ import annotations

import pytest

from headrace.views.errors import BadView
from headrace.views.sql.plan import Join, Project, Scan
from tests.views.sql.tables import plan_of


def test_only_columns_that_are_used_are_read() -> None:
    root = plan_of("SELECT name FROM users WHERE city = 'Oslo'", "name").root
    assert isinstance(root, Project)
    assert isinstance(root.input, Scan)
    assert root.input.used == {"id", "name", "city"}


def test_condition_on_the_other_table_filters_it_before_the_join() -> None:
    root = plan_of("SELECT o.id FROM orders o LEFT JOIN users u ON u.id = o.user_id AND u.city = 'Oslo'").root
    assert isinstance(root, Project)
    join = root.input
    assert isinstance(join, Join)
    assert isinstance(join.right, Project)
    assert join.right.where is not None
    assert join.right.where.shown == "city = 'Oslo'"


@pytest.mark.parametrize(
    ("sql", "message", "hint"),
    [
        ("SELECT 1 AS id", "reads no topic", "FROM TOPIC"),
        ("SELECT u.id FROM users u CROSS JOIN orders", "CROSS JOIN", "ON a.x = b.y"),
        ("SELECT u.id FROM users u, orders o WHERE u.id = o.id", "CROSS JOIN", "ON a.x = b.y"),
        ("SELECT u.id FROM users u JOIN orders o ON u.id < o.id", "no equality", "ON a.x = b.y"),
        ("SELECT u.id FROM users u LEFT SEMI JOIN orders o ON u.id = o.id", "SEMI", "LEFT JOIN"),
        (
            "SELECT u.id FROM users u LEFT JOIN orders o ON u.id = o.id AND u.city = 'x'",
            "city = 'x' of a LEFT JOIN",
            "WHERE",
        ),
        ("SELECT id FROM (SELECT id FROM users)", "no name", "AS name"),
        ("SELECT id FROM range(3)", "is not a topic", "topics of the view"),
        ("SELECT id FROM users JOIN users ON users.id = users.id", "two tables are called users", "alias"),
    ],
)
def test_joins_that_cannot_be_kept_up_to_date_are_rejected(sql: str, message: str, hint: str) -> None:
    with pytest.raises(BadView) as failed:
        plan_of(sql)
    assert message in failed.value.message
    assert hint in failed.value.hint
