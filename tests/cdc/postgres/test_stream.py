from __future__ import annotations

from headrace.cdc.change import UNAVAILABLE, Change, Op, Position
from headrace.cdc.postgres.pgoutput import (
    UNCHANGED,
    Begin,
    Commit,
    Delete,
    Insert,
    Message,
    Relation,
    RelationColumn,
    Truncate,
    Update,
)
from headrace.cdc.postgres.relation import describe_relation
from headrace.cdc.postgres.stream import Incomplete, Stream
from headrace.cdc.postgres.types import TypeInfo

TYPES = {23: TypeInfo(oid=23, name="int4")}
RELATION = Relation(
    oid=7,
    schema="public",
    name="t",
    replica_identity="d",
    columns=(
        RelationColumn(name="id", type_oid=23, type_modifier=-1, is_key=True),
        RelationColumn(name="n", type_oid=23, type_modifier=-1, is_key=False),
    ),
)
BEGIN = Begin(commit_lsn=150, committed_us=0, xid=9)
COMMIT = Commit(commit_lsn=150, end_lsn=160, committed_us=0)
MESSAGES: list[Message] = [
    BEGIN,
    RELATION,
    Insert(relation=7, new=["1", "1"]),
    Update(relation=7, old=None, is_old_whole=False, new=["1", "2"]),
    Update(relation=7, old=["1", None], is_old_whole=False, new=["2", "2"]),
    Delete(relation=7, old=["2", None], is_old_whole=False),
    Truncate(relations=(7,)),
]


def stream(position: Position | None) -> Stream:
    assert position is not None
    return Stream(
        position,
        lambda relation, previous: describe_relation("shop", relation, TYPES, known=None, previous=previous),
    )


def changes(found: Stream, messages: list[Message]) -> list[Change]:
    applied = [each for message in messages for each in found.apply(120, message)]
    return [each.change if isinstance(each, Incomplete) else each for each in applied]


def test_messages_become_changes_in_their_order() -> None:
    found = changes(stream({"lsn": 100}), MESSAGES)
    assert [(change.op, change.before, change.after) for change in found] == [
        (Op.CREATE, None, {"id": 1, "n": 1}),
        (Op.UPDATE, None, {"id": 1, "n": 2}),
        (Op.DELETE, {"id": 1}, None),
        (Op.CREATE, None, {"id": 2, "n": 2}),
        (Op.DELETE, {"id": 2}, None),
        (Op.TRUNCATE, None, None),
    ]
    assert {change.transaction for change in found} == {"9"}
    assert found[0].committed_ms == 946_684_800_000
    assert found[0].source == {"db": "shop", "schema": "public", "table": "t", "txId": 9, "lsn": 120}


def test_stream_continues_after_any_change_of_a_transaction() -> None:
    whole = changes(stream({"lsn": 100}), MESSAGES)
    for done, change in enumerate(whole, start=1):
        assert changes(stream(change.position), MESSAGES) == whole[done:]


def test_only_the_transaction_that_was_in_progress_is_skipped() -> None:
    position = {"lsn": 100, "commit": 149, "done": 3}
    assert len(changes(stream(position), MESSAGES)) == 6


def test_commit_moves_the_position_behind_the_transaction() -> None:
    found = stream({"lsn": 100})
    changes(found, MESSAGES)
    assert not found.is_between_transactions
    committed = found.commit(COMMIT)
    assert (committed.transaction, committed.position) == ("9", {"lsn": 160})
    assert found.is_between_transactions


def test_positions_carry_the_snapshot() -> None:
    state = {"tables": [["public", "t"]], "key": ["5"], "rows": 5}
    found = stream({"lsn": 100, "snapshot": state})
    assert changes(found, MESSAGES)[0].position == {"lsn": 100, "commit": 150, "done": 1, "snapshot": state}
    assert found.commit(COMMIT).position == {"lsn": 160, "snapshot": state}


def test_table_that_is_not_captured_has_no_changes() -> None:
    assert changes(Stream({"lsn": 100}, lambda relation, previous: None), MESSAGES) == []


def test_update_without_an_unchanged_value_is_incomplete_and_has_its_texts() -> None:
    found = stream({"lsn": 100})
    update = Update(relation=7, old=None, is_old_whole=False, new=["1", UNCHANGED])
    moved = Update(relation=7, old=["1", None], is_old_whole=False, new=["2", UNCHANGED])
    (incomplete,) = [each for message in (BEGIN, RELATION, update) for each in found.apply(120, message)]
    assert isinstance(incomplete, Incomplete)
    assert incomplete.change.after == {"id": 1, "n": UNAVAILABLE}
    assert (incomplete.relation, incomplete.xid, incomplete.values) == (7, 9, ["1", UNCHANGED])
    deleted, created = found.apply(120, moved)
    assert isinstance(deleted, Change)
    assert isinstance(created, Incomplete)
    assert created.change.position == {"lsn": 100, "commit": 150, "done": 3}


def test_incomplete_update_that_was_yielded_before_is_skipped() -> None:
    found = stream({"lsn": 100, "commit": 150, "done": 2})
    moved = Update(relation=7, old=["1", None], is_old_whole=False, new=["2", UNCHANGED])
    assert [each for message in (BEGIN, RELATION, moved) for each in found.apply(120, message)] == []
