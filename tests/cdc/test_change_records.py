"""Records of a block of changes. `postgres/test_changed_columns.py` compares more of them with those of single ones."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest

from headrace.cdc.change import BlockTransaction, Change, ChangedRows, Column, Op, RowGroup, Table
from headrace.cdc.change_records import TableRecords, records_by_table
from headrace.cdc.envelope import Envelope
from headrace.cdc.row_batches import binary_array

USERS = Table(
    path=("public", "users"),
    columns=(Column(name="name", type="string"), Column(name="id", type="int64")),
    key=("id",),
)


def group(op: Op, places: list[int], rows: Sequence[tuple[str, int]]) -> RowGroup:
    names, ids = zip(*rows, strict=True)
    row = {
        "name": binary_array([json.dumps(name).encode() for name in names]),
        "id": binary_array([b"%d" % id for id in ids]),
    }
    is_delete = op is Op.DELETE
    return RowGroup(
        table=USERS,
        op=op,
        places=np.array(places),
        before=row if is_delete else None,
        after=None if is_delete else row,
        source={"db": "shop"},
    )


BLOCK = ChangedRows(
    groups=[
        group(Op.CREATE, [0, 3], [("ada", 1), ("eve", 1)]),
        group(Op.DELETE, [1, 2], [("ada", 1), ("bob", 2)]),
    ],
    transactions=[
        BlockTransaction(id="5", committed_ms=10, is_ended=True),
        BlockTransaction(id="6", committed_ms=20, is_ended=True),
    ],
    transaction_of=np.array([0, 0, 1, 1]),
    source={"txId": np.array([5, 5, 6, 6]), "lsn": np.array([70, 71, 72, 73])},
    committed_ms=20,
    position={},
)
ORDERS = np.array([1, 2, 1, 2]), np.array([1, 2, 1, 2])


@pytest.mark.parametrize("schemas", [False, True])
def test_records_are_those_of_single_changes_in_their_order(schemas: bool) -> None:
    envelope = Envelope("shop", "postgresql", schemas=schemas)
    (found,) = records_by_table(BLOCK, ORDERS, envelope, 99)
    expected = []
    for lsn, (op, id, row) in enumerate(
        [
            (Op.CREATE, "5", {"name": "ada", "id": 1}),
            (Op.DELETE, "5", {"name": "ada", "id": 1}),
            (Op.DELETE, "6", {"name": "bob", "id": 2}),
            (Op.CREATE, "6", {"name": "eve", "id": 1}),
        ],
        start=70,
    ):
        single = Change(
            table=USERS,
            op=op,
            before=row if op is Op.DELETE else None,
            after=row if op is Op.CREATE else None,
            committed_ms={"5": 10, "6": 20}[id],
            source={"db": "shop", "txId": int(id), "lsn": lsn},
            position=None,
        )
        place = {"id": id, "total_order": (lsn - 70) % 2 + 1, "data_collection_order": (lsn - 70) % 2 + 1}
        expected.append(envelope.records(single, 99, place)[0])
    assert list(zip(found.keys, found.values, strict=True)) == [(each.key, each.value) for each in expected]
    assert found.deletes == [1, 2]


def test_tombstone_follows_each_delete() -> None:
    found = TableRecords(
        table=USERS, source={}, keys=[b"1", b"1", b"2", b"1"], values=[b"a", b"b", b"c", b"d"], deletes=[1, 2]
    )
    keys, values = found.with_tombstones()
    assert list(zip(keys, values, strict=True)) == [
        (b"1", b"a"),
        (b"1", b"b"),
        (b"1", None),
        (b"2", b"c"),
        (b"2", None),
        (b"1", b"d"),
    ]
