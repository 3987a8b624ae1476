"""Names in the plan, and which column a name means."""

from __future__ import annotations

import pytest
from sqlglot import parse_one

from headrace.views.errors import BadView
from headrace.views.sql.dialect import SqlText, ViewSql, sql_of
from headrace.views.sql.plan import Union
from headrace.views.sql.scope import Field, Names, Relation, Scope


def scope(*tables: tuple[str, list[str]]) -> Scope:
    found = Scope(text=SqlText("v", ""))
    for alias, columns in tables:
        fields = tuple(Field(shown=name, name=f"{alias}_{name}") for name in columns)
        found.add(alias, Relation(node=Union(inputs=(), columns=()), fields=fields), parse_one("x"))
    return found


@pytest.mark.parametrize(
    ("text", "resolved"),
    [
        ("name", "`u_name`"),
        ("u.ID + o.id", "`u_id` + `o_id`"),
        ("NAME = 'name'", "`u_name` = 'name'"),
        ("u.name.first", "`u_name`.`first`"),
        ("name.first.x", "`u_name`.`first`.`x`"),
        ("transform(name, x -> x + 1)", "TRANSFORM(`u_name`, x -> x + 1)"),
    ],
)
def test_names_become_columns_of_the_plan(text: str, resolved: str) -> None:
    both = scope(("u", ["id", "name"]), ("o", ["id", "amount"]))
    assert sql_of(both.resolved(parse_one(text, dialect=ViewSql))) == resolved


def test_exact_name_wins_over_one_with_another_case() -> None:
    found = scope(("u", ["ID", "id"]))
    assert sql_of(found.resolved(parse_one("id", dialect=ViewSql))) == "`u_id`"


def test_two_tables_need_two_names() -> None:
    with pytest.raises(BadView, match="two tables are called U"):
        scope(("u", []), ("U", []))


def test_names_in_the_plan_are_distinct_whatever_their_case_and_safe() -> None:
    names = Names()
    made = [names.new(shown) for shown in ("City", "city", "op", "_x", "Größe", "7", "count(*)", "a" * 100)]
    assert len({name.lower() for name in made}) == len(made)
    assert all(name.isascii() and name.isidentifier() and name[0] != "_" and name != "op" for name in made)
    assert names.shown[made[1]] == "city"
    assert names.text(parse_one(f"{made[0]} + 1")) == "City + 1"
