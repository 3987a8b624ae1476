"""Plans of views: keys, what needs state, and what is rejected."""

from __future__ import annotations

import pytest

from headrace.views.definition import Definition
from headrace.views.errors import BadView
from headrace.views.sql import parse
from tests.views.sql.tables import TOPICS, plan_of, table


@pytest.mark.parametrize(
    ("sql", "key", "is_stateless", "is_unique"),
    [
        ("SELECT id, name FROM users WHERE city = 'Oslo'", "id", True, True),
        ("SELECT id AS user, upper(name) AS name FROM users", "user", True, True),
        ("SELECT id, city FROM users", "city id", False, True),
        ("SELECT name, city FROM users", "name", False, False),
        ("SELECT line, order_id FROM items", "order_id line", True, True),
        ("SELECT line, order_id FROM items", "order_id", False, False),
        ("SELECT user, url FROM clicks", "user", True, False),
        ("SELECT _partition AS p, _offset AS o, url FROM clicks", "p o", True, True),
        ("SELECT city, count(*) AS n FROM users GROUP BY city", "city", False, True),
        ("SELECT o.id, u.name FROM orders o JOIN users u ON u.id = o.user_id", "id", False, True),
        ("SELECT u.id, u.name FROM orders o JOIN users u ON u.id = o.user_id", "id", False, False),
        ("SELECT u.id, o.id AS o FROM users u LEFT JOIN orders o ON u.id = o.user_id", "id o", False, True),
        ("SELECT DISTINCT city, name FROM users", "name city", False, True),
        ("SELECT id FROM users UNION ALL SELECT id FROM orders", "id", False, False),
        (
            "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY city ORDER BY id) AS n FROM users) t WHERE n < 3",
            "city n",
            False,
            False,
        ),
    ],
)
def test_key_decides_what_needs_state_and_whether_it_distinguishes_the_rows(
    sql: str, key: str, is_stateless: bool, is_unique: bool
) -> None:
    plan = plan_of(sql, *key.split())
    assert (plan.is_stateless, plan.is_unique) == (is_stateless, is_unique)
    assert bool(plan.notes) is not is_unique


def test_texts_that_an_update_may_lack_need_state() -> None:
    from msgspec.structs import replace

    users = table("users", "id", "id BIGINT, body STRING")
    columns = tuple(replace(each, may_be_unchanged=each.name == "body") for each in users.columns)
    topics = {"users": replace(users, columns=columns)}
    assert not plan_of("SELECT id, body FROM users", topics=topics).is_stateless
    assert plan_of("SELECT id FROM users", topics=topics).is_stateless


def test_view_without_sql_has_all_columns_of_its_topic() -> None:
    definition = Definition(name="v", topics=("shop.public.orders",), key=("id",))
    assert list(parse(definition, TOPICS).columns) == ["id", "user_id", "amount"]


@pytest.mark.parametrize(
    ("sql", "key", "message", "hint"),
    [
        ("SELECT id AS op FROM users", "op", "column op", "rename it"),
        ("SELECT id, name AS _name FROM users", "id", "column _name", "rename it"),
        ("SELECT id, name FROM users", "nam", "key nam", "did you mean name?"),
        ("SELECT id, name FROM users", "city", "key city", "the columns are id, name"),
        (
            "SELECT *, ROW_NUMBER() OVER (PARTITION BY city ORDER BY id) AS n FROM users",
            "id",
            "no condition bounds n",
            "WHERE n <= N",
        ),
    ],
)
def test_result_that_is_no_view_is_rejected(sql: str, key: str, message: str, hint: str) -> None:
    with pytest.raises(BadView, match=message) as failed:
        plan_of(sql, key)
    assert hint in failed.value.hint


def test_several_topics_need_sql() -> None:
    with pytest.raises(BadView, match="2 topics without SQL"):
        parse(Definition(name="v", topics=("a", "b"), key=("id",)), {})


def test_changes_without_a_key_are_rejected() -> None:
    with pytest.raises(BadView, match="have no key") as failed:
        plan_of("SELECT a FROM t", "a", topics={"t": table("t", "", "a INT")})
    assert "primary key" in failed.value.hint
