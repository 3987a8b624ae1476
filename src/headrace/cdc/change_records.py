"""The records of a block of changes, by whole columns: the same that `Envelope` gives for single changes. No I/O."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from headrace.cdc.change import ChangedRows, Op, RowGroup, Table
from headrace.cdc.envelope import Envelope
from headrace.cdc.row_batches import Columns, binary_array, integers, number_column, records


class TableRecords(Struct, frozen=True, kw_only=True):
    """The changes of one table, in their order."""

    table: Table
    source: Any
    keys: Sequence[bytes]
    values: Sequence[bytes]
    deletes: Sequence[int]
    """the indexes of those that are deletes"""

    def with_tombstones(self) -> tuple[Sequence[bytes], Sequence[bytes | None]]:
        keys: list[bytes] = []
        values: list[bytes | None] = []
        start = 0
        for delete in self.deletes:
            keys += (*self.keys[start : delete + 1], self.keys[delete])
            values += (*self.values[start : delete + 1], None)
            start = delete + 1
        return [*keys, *self.keys[start:]], [*values, *self.values[start:]]


def records_by_table(
    rows: ChangedRows, orders: tuple[Any, Any], envelope: Envelope, now_ms: int
) -> Iterator[TableRecords]:
    """`orders` are the numbers of all changes in their transaction, and among those of their table in it."""
    times = np.fromiter((each.committed_ms for each in rows.transactions), np.int64, len(rows.transactions))
    ids = binary_array([each.id.encode() for each in rows.transactions])
    common = [
        number_column(times[rows.transaction_of]),
        *map(number_column, rows.source.values()),
        ids.take(integers(rows.transaction_of)),
        *map(number_column, orders),
    ]
    for table, of_table in itertools.groupby(rows.groups, lambda group: group.table):
        groups = list(of_table)
        found = [_records(group, list(rows.source), common, envelope, now_ms) for group in groups]
        keys = list(itertools.chain.from_iterable(keys for keys, _ in found))
        values = list(itertools.chain.from_iterable(values for _, values in found))
        deletes = np.repeat(
            [group.op is Op.DELETE for group in groups], [len(each.places) for each in groups]
        )
        if len(groups) > 1:
            order = np.argsort(np.concatenate([group.places for group in groups]))
            keys = [keys[at] for at in order.tolist()]
            values = [values[at] for at in order.tolist()]
            deletes = deletes[order]
        yield TableRecords(
            table=table,
            source=groups[0].source,
            keys=keys,
            values=values,
            deletes=np.flatnonzero(deletes).tolist(),
        )


def _records(
    group: RowGroup, numbers: Sequence[str], common: Columns, envelope: Envelope, now_ms: int
) -> tuple[list[bytes], list[bytes]]:
    layout = envelope.layout_of_changes(group, numbers, now_ms)
    places = integers(group.places)
    row = [*(group.before or {}).values(), *(group.after or {}).values()]
    return records(layout, [*row, *(column.take(places) for column in common)])
