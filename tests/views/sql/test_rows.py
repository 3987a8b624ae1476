"""The rows of views, compared with what DuckDB answers over the same topics."""

from __future__ import annotations

import json
import sqlite3
import uuid
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace.pipeline import Job
from headrace.pipeline.sinks import Table
from headrace.pipeline.spark.session import data_dir
from headrace.views.definition import Definition
from headrace.views.errors import BadView
from headrace.views.sql import rows_of
from tests.compatibility.topic_contents import read_to_end
from tests.views.sql.shop import Followed, Shop, Shown, topic_with

QUERIES: dict[str, tuple[str, list[str]]] = {
    "projection": ("SELECT id, upper(name) AS name, age + 1 AS next FROM users", ["id"]),
    "filter": ("SELECT id, city FROM users WHERE city = 'Oslo' AND (age > 20 OR age IS NULL)", ["id"]),
    "case": ("SELECT id, CASE WHEN amount > 25 THEN 'much' ELSE state END AS size FROM orders", ["id"]),
    "composite key": ("SELECT line, order_id, quantity * price AS total FROM items", ["order_id", "line"]),
    "larger key": ("SELECT id, state, amount FROM orders WHERE amount < 40", ["state", "id"]),
    "count": ("SELECT city, count(*) AS n FROM users WHERE city IS NOT NULL GROUP BY city", ["city"]),
    "aggregates": (
        (
            "SELECT state, count(user_id) AS n, sum(amount) AS total, avg(amount) AS mean, min(amount) AS least, "
            "max(amount) AS most FROM orders GROUP BY state"
        ),
        ["state"],
    ),
    "formula": ("SELECT state, sum(amount) / count(*) AS mean FROM orders GROUP BY state", ["state"]),
    "filter of aggregates": (
        (
            "SELECT state, count(*) FILTER (WHERE amount > 20) AS large, sum(amount) FILTER (WHERE user_id < 6) AS own "
            "FROM orders GROUP BY state"
        ),
        ["state"],
    ),
    "distinct count": (
        "SELECT state, count(DISTINCT user_id) AS users FROM orders GROUP BY state",
        ["state"],
    ),
    "having": ("SELECT state, count(*) AS n FROM orders GROUP BY state HAVING count(*) > 3", ["state"]),
    "group by expression": (
        "SELECT coalesce(lower(city), '-') AS place, max(age) AS oldest FROM users GROUP BY coalesce(lower(city), '-')",
        ["place"],
    ),
    "group by alias": (
        "SELECT amount % 3 AS rest, count(*) AS n FROM orders GROUP BY rest HAVING n > 1",
        ["rest"],
    ),
    "all rows": ("SELECT 'all' AS k, count(*) AS n, sum(amount) AS total FROM orders", ["k"]),
    "distinct": ("SELECT DISTINCT state, amount % 2 AS odd FROM orders", ["state", "odd"]),
    "join": (
        "SELECT o.id, u.name, o.amount FROM orders o JOIN users u ON u.id = o.user_id WHERE u.city <> 'Rome'",
        ["id"],
    ),
    "left join": (
        "SELECT o.id, name, coalesce(city, '?') AS city FROM orders AS o LEFT JOIN users ON users.id = o.user_id",
        ["id"],
    ),
    "left join to many": (
        (
            "SELECT u.id, coalesce(o.id, -1) AS order_id, o.state FROM users u LEFT JOIN orders o "
            "ON u.id = o.user_id AND o.state = 'open'"
        ),
        ["id", "order_id"],
    ),
    "right join": ("SELECT u.id, o.id AS o FROM orders o RIGHT JOIN users u ON o.id = u.id", ["id"]),
    "full join": ("SELECT id, age, amount FROM users FULL JOIN orders USING (id)", ["id"]),
    "three tables": (
        (
            "SELECT i.order_id, i.line, u.name, i.quantity * i.price AS total FROM items i "
            "JOIN orders o ON o.id = i.order_id JOIN users u ON u.id = o.user_id"
        ),
        ["order_id", "line"],
    ),
    "join and group": (
        (
            "SELECT u.city, o.state, sum(o.amount) AS total, count(DISTINCT u.id) AS users FROM orders o "
            "JOIN users u ON u.id = o.user_id WHERE u.city IS NOT NULL GROUP BY u.city, o.state"
        ),
        ["city", "state"],
    ),
    "self join": (
        "SELECT a.id, b.id AS other FROM users a JOIN users b ON a.city = b.city AND a.id < b.id",
        ["id", "other"],
    ),
    "join of a subquery": (
        (
            "SELECT u.id, u.name, t.total FROM users u JOIN (SELECT user_id, sum(amount) AS total FROM orders "
            "WHERE user_id IS NOT NULL GROUP BY user_id) AS t ON t.user_id = u.id WHERE t.total > 10"
        ),
        ["id"],
    ),
    "with": (
        (
            "WITH big AS (SELECT id, user_id FROM orders WHERE amount > 20) "
            "SELECT user_id, count(*) AS n FROM big WHERE user_id IS NOT NULL GROUP BY user_id"
        ),
        ["user_id"],
    ),
    "first of each": (
        (
            "SELECT user_id, place, id, amount FROM (SELECT *, row_number() OVER (PARTITION BY user_id "
            "ORDER BY amount DESC, id) AS place FROM orders WHERE user_id IS NOT NULL) AS t WHERE place <= 2"
        ),
        ["user_id", "place"],
    ),
    "first of all": ("SELECT id, amount FROM orders ORDER BY amount DESC, id LIMIT 3", ["id"]),
    "union all": (
        "SELECT 'user' AS kind, id, city AS label FROM users UNION ALL SELECT 'order', id, state FROM orders",
        ["kind", "id"],
    ),
    "union": (
        "SELECT id FROM users UNION SELECT user_id FROM orders WHERE user_id IS NOT NULL",
        ["id"],
    ),
    "events": ('SELECT "user", count(*) AS n, sum(ms) AS ms FROM clicks GROUP BY "user"', ["user"]),
    "events and table": (
        (
            "SELECT u.id, count(*) AS n, max(c.ms) AS slowest FROM clicks c JOIN users u "
            "ON c.ms % 12 = u.id GROUP BY u.id"
        ),
        ["id"],
    ),
}

QUICK = ("filter", "aggregates", "left join to many")


@pytest.fixture(scope="module")
def shop(bootstrap: str) -> Shop:
    shop = Shop(bootstrap, seed=14)
    shop.change(60)
    return shop


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in QUERIES]
)
def test_a_view_shows_what_duckdb_answers_over_the_same_topics(
    spark: SparkSession, shop: Shop, name: str
) -> None:
    sql, key = QUERIES[name]
    shown = shop.bounded(spark, sql, key)
    assert shown.rows == shop.duckdb(sql)
    assert not shown.failed


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "name",
    ["filter", "larger key", "left join to many", "join and group", "first of each", "full join", "union"],
)
def test_a_view_follows_random_changes_across_restarts(
    spark: SparkSession, bootstrap: str, tmp_path: Path, name: str
) -> None:
    sql, key = QUERIES[name]
    shop = Shop(bootstrap, seed=len(name))
    shop.change(15)
    columns, shown = shop.columns(), Shown(key)
    for _ in range(3):
        rows = rows_of(shop.definition(sql, key), spark, shop.cluster, columns=columns)
        followed = Followed(rows, shown, tmp_path)
        assert followed.catch_up().rows == shop.duckdb(sql)
        shop.change(8)


def test_row_on_which_the_sql_fails_is_a_dead_letter_and_all_others_are_shown(
    spark: SparkSession, bootstrap: str
) -> None:
    shop = Shop(bootstrap, seed=7)
    shop.change(40)
    sql = (
        "SELECT o.state, sum(o.amount / (u.id % 2)) AS share FROM orders o JOIN users u ON u.id = o.user_id "
        "GROUP BY o.state"
    )
    shown = shop.bounded(spark, sql, ["state"])
    without = sql.replace("GROUP BY", "WHERE u.id % 2 <> 0 GROUP BY")
    assert _rounded(shown.rows) == _rounded(shop.duckdb(without))
    failing = shop.duckdb("SELECT o.amount FROM orders o JOIN users u ON u.id = o.user_id WHERE u.id % 2 = 0")
    assert sorted(each.row["amount"] for each in shown.failed) == sorted(amount for (amount,) in failing)
    assert failing
    assert all("amount / (id % 2) cannot be computed" in each.reason for each in shown.failed)


def test_job_of_a_view_writes_failed_rows_to_its_dead_letters_and_deletes_their_old_rows(
    spark: SparkSession, bootstrap: str
) -> None:
    cluster, topic = topic_with(
        bootstrap,
        [
            ({"id": id}, {"before": None, "after": {"id": id, "price": 12, "quantity": quantity}, "op": "u"})
            for id, quantity in ((1, 3), (2, 4), (1, 0), (3, 0), (3, 6))
        ],
    )
    definition = Definition(
        name="prices",
        topics=(topic,),
        key=("id",),
        sql=f'SELECT id, price / quantity AS each FROM "{topic}"',
    )
    name = f"prices-{uuid.uuid4().hex[:8]}"
    table = name.replace("-", "_")
    job = Job(name, rows_of(definition, spark, cluster), Table(table, key=["id"]), mode="batch").start()
    job.wait()
    with sqlite3.connect(data_dir() / "views.db") as connection:
        assert sorted(connection.execute(f"SELECT * FROM {table}")) == [(2, 3.0), (3, 2.0)]
    letters = read_to_end(bootstrap, f"dlq.{name}")
    assert [json.loads(each.value()) for each in letters] == [
        {"id": 1, "price": 12, "quantity": 0},
        {"id": 3, "price": 12, "quantity": 0},
    ]
    reasons = {dict(each.headers())["__dlq.errors.message"] for each in letters}
    assert [reason[:44] for reason in map(bytes.decode, reasons)] == [
        "price / quantity cannot be computed: a divis"
    ]


def test_sql_that_spark_rejects_is_an_error_of_the_view(spark: SparkSession, bootstrap: str) -> None:
    shop = Shop(bootstrap, seed=1)
    shop.change(2)
    with pytest.raises(BadView, match="view tested: Spark rejects its SQL") as failed:
        shop.bounded(spark, "SELECT id, nosuchfunction(name) AS x FROM users", ["id"])
    assert failed.value.hint
    with pytest.raises(BadView, match="compares") as failed:
        shop.bounded(spark, "SELECT o.id FROM orders o JOIN users u ON o.user_id = u.name", ["id"])
    assert "cast" in failed.value.hint


def _rounded(rows: list[tuple[Any, ...]]) -> list[tuple[Any, float]]:
    return [(state, round(share, 6)) for state, share in rows]
