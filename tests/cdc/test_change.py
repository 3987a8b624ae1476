"""Tables and changes as values."""

from __future__ import annotations

import msgspec

from headrace.cdc.change import Change, Column, Op, Table

USERS = Table(path=("public", "users"), columns=(Column(name="id", type="int64"),), key=("id",))


def test_name_of_a_table_has_its_schemas() -> None:
    assert USERS.name == "public.users"


def test_change_survives_json() -> None:
    change = Change(
        table=USERS, op=Op.CREATE, after={"id": 1}, committed_ms=5, source={}, position={"change": 7}
    )
    assert msgspec.json.decode(msgspec.json.encode(change), type=Change) == change
