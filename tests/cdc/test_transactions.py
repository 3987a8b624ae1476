from __future__ import annotations

import json

import numpy as np

from headrace.cdc.change import BlockTransaction, Change, ChangedRows, Committed, Op, RowGroup, Table
from headrace.cdc.envelope import Envelope, Record
from headrace.cdc.publisher import OpenTransaction
from headrace.cdc.transactions import Transactions

A, B = (Table(path=("public", name), columns=(), key=()) for name in "ab")


class Marks:
    def __init__(self, kept: OpenTransaction | None = None) -> None:
        self.found: list[tuple[str, str, int | None]] = []
        self.transactions = Transactions(Envelope("shop", "postgresql"), kept, self._mark)

    def _mark(self, record: Record) -> None:
        value = json.loads(record.value or b"")
        self.found.append((value["status"], value["id"], value["event_count"]))


def change(table: Table, transaction: str | None, op: Op = Op.UPDATE) -> Change:
    return Change(table=table, op=op, transaction=transaction, committed_ms=1, source={}, position=None)


def group(table: Table, *places: int) -> RowGroup:
    return RowGroup(table=table, op=Op.UPDATE, places=np.array(places), before=None, after=None, source={})


def block(*groups: RowGroup, of: list[int], ended: dict[str, bool]) -> ChangedRows:
    return ChangedRows(
        groups=groups,
        transactions=[
            BlockTransaction(id=id, committed_ms=1, is_ended=is_ended) for id, is_ended in ended.items()
        ],
        transaction_of=np.array(of, np.int64),
        source={},
        committed_ms=1,
        position={},
    )


def numbers(marks: Marks, rows: ChangedRows) -> list[list[int]]:
    return [found.tolist() for found in marks.transactions.places(rows)]


def test_changes_are_numbered_in_their_transaction_and_by_table() -> None:
    marks = Marks()
    places = [marks.transactions.place(change(table, "7")) for table in (A, B, A)]
    assert [tuple(place.values()) for place in places if place] == [("7", 1, 1), ("7", 2, 1), ("7", 3, 2)]
    assert marks.transactions.open == OpenTransaction(id="7", counts={"public.a": 2, "public.b": 1})
    marks.transactions.end(Committed(transaction="7", committed_ms=1, position={}))
    assert marks.found == [("BEGIN", "7", None), ("END", "7", 3)]
    assert marks.transactions.open is None


def test_rows_of_a_snapshot_have_no_place() -> None:
    marks = Marks()
    assert marks.transactions.place(change(A, None)) is None
    assert marks.transactions.place(change(A, "7", Op.READ)) is None
    marks.transactions.end(Committed(committed_ms=1, position={}))
    assert marks.found == []


def test_transaction_is_continued_after_a_restart() -> None:
    marks = Marks(OpenTransaction(id="7", counts={"public.a": 2}))
    place = marks.transactions.place(change(A, "7"))
    assert place == {"id": "7", "total_order": 3, "data_collection_order": 3}
    assert marks.found == []


def test_block_is_numbered_as_single_changes_are() -> None:
    marks = Marks(OpenTransaction(id="6", counts={"public.a": 2}))
    rows = block(
        group(A, 0, 2, 4), group(B, 1, 3), of=[0, 0, 2, 2, 2], ended={"6": True, "7": True, "8": False}
    )
    assert numbers(marks, rows) == [[3, 4, 1, 2, 3], [3, 1, 1, 1, 2]]
    # The second one has no captured change, so it has no marks.
    assert marks.found == [("END", "6", 4), ("BEGIN", "8", None)]
    assert numbers(marks, block(group(B, 0), of=[0], ended={"8": True})) == [[4], [2]]
    assert marks.found[2:] == [("END", "8", 4)]


def test_block_without_changes_ends_the_transaction_before_it() -> None:
    marks = Marks(OpenTransaction(id="6", counts={"public.a": 2}))
    assert numbers(marks, block(of=[], ended={"6": True, "7": True})) == [[], []]
    assert marks.found == [("END", "6", 2)]
