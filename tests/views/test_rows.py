"""The rows of a view that is a function of a script. Those of topics and SQL are in tests/views/sql."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.views.definition import Definition
from headrace.views.errors import BadView
from headrace.views.rows import script_place, view_rows, with_columns
from tests.views.view_house import ViewHouse, user

SCRIPT = """
from headrace.pipeline import read_topic
import beside

def cities(spark):
    rows = read_topic(spark, "{topic}", format="changes", schema="id BIGINT, city STRING")
    return rows.selectExpr("id", f"upper(city) AS {{beside.COLUMN}}", "op", "_offset")

def bounded(spark):
    return spark.range(3)

number = 7
"""


@pytest.fixture
def script(house: ViewHouse, tmp_path: Path) -> Path:
    (tmp_path / "beside.py").write_text("COLUMN = 'city'")
    path = tmp_path / "shop_views.py"
    path.write_text(SCRIPT.format(topic=house.topic))
    return path


def test_any_stream_of_a_script_can_be_a_view(house: ViewHouse, script: Path) -> None:
    house.create(topics=(), schemas={}, script=f"{script}:cities")
    house.change(user(1), user(2, "Rome"))
    house.run_once()
    assert house.rows() == {1: "OSLO", 2: "ROME"}
    script.write_text(script.read_text().replace("upper", "lower"))
    with pytest.raises(BadView, match="city is 'oslo' and was 'OSLO'"):
        house.rebuild()
    house.rebuild(accept_differences=True)
    assert house.rows() == {1: "oslo", 2: "rome"}


def test_function_that_returns_no_stream_is_an_error_with_its_place(house: ViewHouse, script: Path) -> None:
    for function, problem in (
        ("bounded", "returns no stream"),
        ("number", "has no function number"),
        ("missing", "has no function missing"),
    ):
        definition = Definition(name="users", topics=(), key=("id",), script=f"{script}:{function}")
        with pytest.raises(BadView, match=problem):
            view_rows(definition, house.spark, house.cluster)


def test_key_that_is_not_unique_is_noted_before_the_view_is_created(house: ViewHouse) -> None:
    house.change(user(1))
    definition = Definition(
        name="users", topics=(house.topic,), key=("city",), schemas={house.topic: "id BIGINT, city STRING"}
    )
    found, notes = with_columns(definition, house.cluster)
    assert "id" in found.schemas[house.topic]
    assert any("if several rows have the same key" in each for each in notes)


@pytest.mark.parametrize("text", ["views.py", "views.py:", "views.py:a b", "no-such.py:rows"])
def test_script_is_a_file_and_a_function(text: str) -> None:
    with pytest.raises(BadView, match=r"does not name a function|there is no file"):
        script_place(text)
