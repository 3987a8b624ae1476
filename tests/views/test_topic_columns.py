"""Columns, key and kind of a topic."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.views.definition import Definition
from headrace.views.errors import BadView
from headrace.views.topic_columns import (
    TopicColumns,
    ddl_columns,
    from_records,
    recorded,
    unrecorded,
    with_given,
)
from headrace.views.topic_sample import Sampled


def sampled(key: Any, value: Any) -> Sampled:
    encoded = key.encode() if isinstance(key, str) else json.dumps(key).encode()
    return Sampled(
        key=None if key is None else encoded, value=None if value is None else json.dumps(value).encode()
    )


def change(after: dict[str, Any], connector: str = "sqlite") -> dict[str, Any]:
    return {"before": None, "after": after, "op": "c", "source": {"connector": connector}}


def types(found: TopicColumns | None) -> dict[str, str]:
    assert found is not None
    return {each.name: each.form.type for each in found.columns}


def test_change_events_without_a_schema_have_the_columns_of_a_sample() -> None:
    found = from_records(
        "users",
        [
            sampled({"id": 1}, change({"id": 1, "score": 1})),
            sampled({"id": 1}, change({"id": 2, "score": 0.5})),
        ],
    )
    assert found is not None
    assert (found.kind, found.key) == ("changes", ("id",))
    assert types(found) == {"id": "BIGINT", "score": "DOUBLE"}
    assert "id BIGINT, score DOUBLE" in found.notes[0]


def test_schema_in_the_records_decides_before_the_sample() -> None:
    fields = [
        {"field": "id", "type": "int32", "optional": False},
        {"field": "born", "type": "int32", "name": "io.debezium.time.Date", "optional": True},
        {
            "field": "price",
            "type": "bytes",
            "name": "org.apache.kafka.connect.data.Decimal",
            "parameters": {"scale": "2", "connect.decimal.precision": "10"},
        },
        {"field": "days", "type": "array", "items": {"type": "int32", "name": "io.debezium.time.Date"}},
    ]
    row = {"id": 1, "born": 5, "price": "MDk=", "days": [1]}
    value = {
        "schema": {"type": "struct", "fields": [{"field": "after", "fields": fields}]},
        "payload": change(row),
    }
    found = from_records("users", [sampled({"schema": {}, "payload": {"id": 1}}, value)])
    assert found is not None
    assert found.key == ("id",)
    assert types(found) == {"id": "INT", "born": "DATE", "price": "DECIMAL(10,2)", "days": "ARRAY<DATE>"}
    assert not found.notes


def test_texts_of_postgresql_may_be_unchanged() -> None:
    row = {"id": "a", "body": "text", "n": 1}
    for connector, expected in (("postgresql", {"body"}), ("sqlite", set())):
        found = from_records("t", [sampled({"id": "a"}, change(row, connector))])
        assert found is not None
        assert {each.name for each in found.columns if each.may_be_unchanged} == expected


@pytest.mark.parametrize(
    ("key", "is_compacted", "kind", "columns"),
    [
        ("ada", False, "events", ()),
        ("ada", True, "table", ("user",)),
        ({"user": "ada"}, True, "table", ("user",)),
        ("7", True, "table", ("_key",)),
    ],
)
def test_plain_json_is_a_table_if_its_topic_is_compacted(
    key: Any, is_compacted: bool, kind: str, columns: tuple[str, ...]
) -> None:
    found = from_records("visits", [sampled(key, {"user": "ada", "visits": 3})], is_compacted=is_compacted)
    assert found is not None
    assert (found.kind, found.key) == (kind, columns)


def test_topic_without_records_has_no_columns() -> None:
    assert from_records("empty", []) is None
    assert from_records("empty", [sampled("a", None)]) is None


def test_values_that_are_not_json_are_an_error_with_a_remedy() -> None:
    with pytest.raises(BadView, match="not JSON objects") as failed:
        from_records("binary", [Sampled(key=None, value=b"\x00\x01")])
    assert failed.value.hint


def test_given_types_apply_to_the_form_in_which_values_are_written() -> None:
    found = from_records("users", [sampled({"id": 1}, change({"id": 1, "total": "12.50", "other": 1}))])
    given = with_given("users", "id INT, total DECIMAL(10,2)", found)
    assert types(given) == {"id": "INT", "total": "DECIMAL(10, 2)"}
    assert given.column("total").form.read == "STRING"
    assert given.key == ("id",)


def test_empty_topic_with_given_columns_is_read_as_changes_with_the_required_ones_as_key() -> None:
    given = with_given("users", "id BIGINT NOT NULL, name STRING", None)
    assert (given.kind, given.key) == ("changes", ("id",))


def test_types_of_given_columns_may_be_nested() -> None:
    assert ddl_columns("a STRUCT<b: INT, c: ARRAY<STRING>>, `d e` MAP<STRING, INT> NOT NULL", "t") == {
        "a": ("STRUCT<b: INT, c: ARRAY<STRING>>", False),
        "d e": ("MAP<STRING, INT>", True),
    }


@pytest.mark.parametrize("text", ["", "id", "id BIGINT,, x", "1 + 1"])
def test_text_that_is_no_list_of_columns_is_rejected(text: str) -> None:
    with pytest.raises(BadView, match="no columns of topic t"):
        ddl_columns(text, "t")


def test_recorded_columns_are_those_of_the_version_and_the_users_text_is_kept() -> None:
    definition = Definition(name="v", topics=("a", "b"), key=("id",), schemas={"a": "id INT"})
    found = {
        "a": with_given("a", "id INT", from_records("a", [sampled({"id": 1}, change({"id": 1}))])),
        "b": from_records("b", [sampled({"id": 1}, change({"id": 1}))]),
    }
    kept = recorded(definition, {topic: each for topic, each in found.items() if each is not None})
    assert unrecorded(kept) == definition
    assert unrecorded(definition) == definition

    from headrace.kafka.cluster import Cluster
    from headrace.views.topic_columns import columns_of

    nowhere = Cluster("127.0.0.1:1", timeout_s=1)
    assert columns_of(kept, nowhere) == found
