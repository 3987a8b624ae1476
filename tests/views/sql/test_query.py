"""What SELECT can be, and what is rejected with its place in the text."""

from __future__ import annotations

import pytest

from headrace.views.errors import BadView
from tests.views.sql.tables import plan_of


@pytest.mark.parametrize(
    ("sql", "place", "message", "hint"),
    [
        ("SELECT id, nam FROM users", "line 1, column 12", "no column nam", "did you mean name?"),
        ("SELECT id,\n  u.cty\nFROM users u", "line 2, column 3", "no column u.cty", "did you mean city?"),
        ("SELECT x.id FROM users u", "line 1, column 8", "no table x", "the tables are u"),
        ("SELECT id FROM users JOIN orders ON users.id = user_id", "column 8", "ambiguous", "users.id"),
        ("SELECT id FROM user", "column 16", "no table user", "did you mean users?"),
        ("SELECT id, now() AS at FROM users", "column 12", "another value each time", "column of the topic"),
        ("SELECT id, rand() AS r FROM users", "column 12", "another value each time", ""),
        ("SELECT id FROM users WHERE id IN (SELECT user_id FROM orders)", "column 28", "subquery", "JOIN"),
        ("SELECT id, (SELECT max(amount) FROM orders) AS m FROM users", "column 20", "subquery", "JOIN"),
        ("SELECT id FROM users WHERE EXISTS (SELECT 1 FROM orders)", "line 1", "subquery", "JOIN"),
        ("SELECT id FROM users EXCEPT SELECT id FROM orders", "column 8", "EXCEPT", "UNION ALL"),
        ("SELECT id FROM users ORDER BY id", "column 31", "no order", "leave ORDER BY out"),
        ("SELECT id FROM users LIMIT 3", "", "LIMIT without ORDER BY", "add ORDER BY"),
        ("SELECT id, name AS id FROM users", "", "two columns id", "AS other_id"),
        ("SELECT DISTINCT ON (city) id FROM users", "", "DISTINCT", ""),
        ("SELECT id, city FROM users GROUP BY id", "column 12", "neither in GROUP BY", "min(city)"),
        ("SELECT city, count(*) AS n FROM users GROUP BY 7", "", "GROUP BY 7", "there are 2"),
        ("SELECT city, count(*) AS n FROM users GROUP BY ROLLUP (city)", "", "ROLLUP", ""),
        (
            "SELECT id, sum(id) OVER (PARTITION BY city) AS s FROM users",
            "column 12",
            "up to date",
            "ROW_NUMBER",
        ),
        ("SELECT id FROM users UNION ALL SELECT id, name FROM users", "", "1 and 2 columns", "same columns"),
    ],
)
def test_what_cannot_be_kept_up_to_date_is_rejected_with_its_place_and_the_remedy(
    sql: str, place: str, message: str, hint: str
) -> None:
    with pytest.raises(BadView) as failed:
        plan_of(sql)
    assert place in failed.value.message
    assert message in failed.value.message
    assert hint in failed.value.hint


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("SELECT * FROM orders", ["id", "user_id", "amount"]),
        (
            "SELECT o.*, u.name FROM orders o JOIN users u ON u.id = o.user_id",
            ["id", "user_id", "amount", "name"],
        ),
        ('SELECT key AS id, "a.b", `Größe` FROM "crm.Ünïcode"', ["id", "a.b", "Größe"]),
        ("SELECT KEY AS id, u.größe AS size FROM ünïcode AS u", ["id", "size"]),
        ("SELECT id, name || '!' FROM shop.public.users", ["id", "column2"]),
        ("SELECT id, address.city FROM users", ["id", "city"]),
        ("WITH a AS (SELECT id FROM users), b AS (SELECT id FROM a) SELECT id FROM b", ["id"]),
        ("SELECT city AS id, count(*) n FROM users GROUP BY ALL", ["id", "n"]),
    ],
)
def test_columns_of_the_result_have_the_names_of_the_text(sql: str, columns: list[str]) -> None:
    assert list(plan_of(sql).columns) == columns
