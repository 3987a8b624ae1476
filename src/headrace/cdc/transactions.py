"""Transactions of the database: the place of each change in its transaction, and the topic of their begins and ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headrace.cdc.change import Change, ChangedRows, Committed, Op
from headrace.cdc.envelope import Envelope, Record
from headrace.cdc.publisher import OpenTransaction


class Transactions:
    """`kept` is a transaction of which a part is in the log. `mark` writes the begin or the end of one."""

    def __init__(
        self, envelope: Envelope, kept: OpenTransaction | None, mark: Callable[[Record], None]
    ) -> None:
        self.open = kept
        """the transaction of which more changes may follow"""
        self._total_order = sum(kept.counts.values()) if kept is not None else 0
        self._envelope = envelope
        self._mark = mark

    def place(self, change: Change) -> dict[str, object] | None:
        """The place of a change in its transaction; the first one begins it."""
        if change.transaction is None or change.op is Op.READ:
            return None
        transaction = self._open(change.transaction, change.committed_ms)
        counts, name = transaction.counts, change.table.name
        self._total_order += 1
        counts[name] = counts.get(name, 0) + 1
        return {
            "id": change.transaction,
            "total_order": self._total_order,
            "data_collection_order": counts[name],
        }

    def end(self, committed: Committed) -> None:
        self._end(committed.committed_ms)

    def places(self, rows: ChangedRows) -> tuple[Any, Any]:
        """The numbers of all changes of a block: in the transaction, and among those of their table in it."""
        import numpy as np

        of = rows.transaction_of
        names = sorted({group.table.name for group in rows.groups})
        table_of = np.empty(rows.count, np.int64)
        for group in rows.groups:
            table_of[group.places] = names.index(group.table.name)
        total_orders = _numbers_within(of)
        pairs = of * len(names) + table_of
        table_orders = _numbers_within(pairs)
        if rows.transactions and self.open is not None and self.open.id == rows.transactions[0].id:
            # The block continues a transaction.
            total_orders[of == 0] += self._total_order
            for number, name in enumerate(names):
                table_orders[pairs == number] += self.open.counts.get(name, 0)
        self._follow(rows, names, pairs)
        return total_orders, table_orders

    def _follow(self, rows: ChangedRows, names: Sequence[str], pairs: Any) -> None:
        """Begin and end the transactions of a block. `pairs` has the transaction and the table of each change."""
        import numpy as np

        found, counts = (numbers.tolist() for numbers in np.unique(pairs, return_counts=True))
        at = 0
        for number, transaction in enumerate(rows.transactions, start=1):
            while at < len(found) and found[at] < number * len(names):
                table = names[found[at] % len(names)]
                all_counts = self._open(transaction.id, transaction.committed_ms).counts
                all_counts[table] = all_counts.get(table, 0) + counts[at]
                self._total_order += counts[at]
                at += 1
            if transaction.is_ended:
                self._end(transaction.committed_ms)

    def _open(self, id: str, committed_ms: int) -> OpenTransaction:
        if self.open is None or self.open.id != id:
            self.open = OpenTransaction(id=id, counts={})
            self._total_order = 0
            self._mark(self._envelope.transaction("BEGIN", id, committed_ms))
        return self.open

    def _end(self, committed_ms: int) -> None:
        if self.open is not None:
            self._mark(self._envelope.transaction("END", self.open.id, committed_ms, self.open.counts))
            self.open = None


def _numbers_within(groups: Any) -> Any:
    """The number of each element among those that are equal to it, from 1."""
    import numpy as np

    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    lengths = np.diff(np.r_[starts, len(groups)])
    numbers = np.empty(len(groups), np.int64)
    numbers[order] = np.arange(len(groups)) - np.repeat(starts, lengths) + 1
    return numbers
