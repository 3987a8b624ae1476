"""Debezium's envelope: what whoever reads Debezium's topics finds in ours."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from headrace.cdc.change import Change, Column, Op, Table
from headrace.cdc.envelope import Envelope, Record

USERS = Table(
    path=("public", "users"),
    columns=(
        Column(name="id", type="int64", optional=False),
        Column(name="born", type="int32", semantic="io.debezium.time.Date"),
        Column(name="tags", type="array", items="string"),
        Column(name="free", type="any"),
    ),
    key=("id",),
)
ROW = {"id": 1, "born": 20_000, "tags": ["a", None], "free": 1.5}


def change(op: Op, **rows: Any) -> Change:
    return Change(
        table=USERS, op=op, committed_ms=1_000, source={"lsn": 7, "txId": 5}, position={"lsn": 7}, **rows
    )


def decoded(record: Record) -> tuple[Any, Any]:
    return json.loads(record.key or b"null"), json.loads(record.value or b"null")


def test_change_has_the_fields_of_debezium() -> None:
    order = {"id": "5", "total_order": 1, "data_collection_order": 1}
    (record,) = Envelope("shop", "postgresql").records(change(Op.CREATE, after=ROW), 2_000, order)
    key, value = decoded(record)
    assert key == {"id": 1}
    source = value.pop("source")
    assert source.pop("version")
    assert source == {
        "connector": "postgresql",
        "name": "shop",
        "ts_ms": 1_000,
        "snapshot": "false",
        "lsn": 7,
        "txId": 5,
    }
    assert value == {"before": None, "after": ROW, "op": "c", "ts_ms": 2_000, "transaction": order}


def test_delete_has_the_old_row_and_a_tombstone_after_it() -> None:
    deleted, tombstone = Envelope("shop", "sqlite").records(change(Op.DELETE, before=ROW), 2_000)
    assert decoded(deleted)[1]["before"] == ROW
    assert (tombstone.key, tombstone.value) == (deleted.key, None)


def test_truncate_has_no_key_and_no_tombstone() -> None:
    (record,) = Envelope("shop", "postgresql").records(change(Op.TRUNCATE), 2_000)
    assert record.key is None
    assert decoded(record)[1]["op"] == "t"


def test_schema_wraps_key_and_value_if_it_is_wanted() -> None:
    (record,) = Envelope("shop", "postgresql", schemas=True).records(change(Op.READ, after=ROW), 2_000)
    key, value = decoded(record)
    assert (key["payload"], value["payload"]["after"]) == ({"id": 1}, ROW)
    assert [each["field"] for each in key["schema"]["fields"]] == ["id"]
    fields = {each["field"]: each for each in value["schema"]["fields"]}
    assert set(fields) == {"before", "after", "source", "op", "ts_ms"}
    columns = {each["field"]: each for each in fields["after"]["fields"]}
    assert columns["id"] == {"field": "id", "type": "int64", "optional": False}
    assert columns["born"]["name"] == "io.debezium.time.Date"
    assert columns["tags"]["items"] == {"type": "string", "optional": True}


def test_end_of_a_transaction_counts_its_events() -> None:
    envelope = Envelope("shop", "postgresql")
    begin = envelope.transaction("BEGIN", "5", 1_000)
    end = envelope.transaction("END", "5", 1_000, {"public.users": 2, "public.tags": 1})
    assert begin.key == end.key == msgspec.json.encode({"id": "5"})
    assert decoded(begin)[1]["event_count"] is None
    assert decoded(end)[1]["event_count"] == 3
    assert decoded(end)[1]["data_collections"][1] == {"data_collection": "public.users", "event_count": 2}
