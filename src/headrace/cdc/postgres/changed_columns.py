"""Many messages of pgoutput at once, by whole columns: the same changes as `Stream` gives one by one, in less time.

A message names its table, and each value has its length before it. So the first values of all rows of a table are found
together, then the second ones, and so on: no step runs for each row. Messages that are rare are left to `Stream`. No
I/O.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.cdc.change import BlockTransaction, ChangedRows, Op, RowGroup
from headrace.cdc.postgres.json_columns import json_column
from headrace.cdc.postgres.pgoutput import Message, decode
from headrace.cdc.postgres.relation import Described
from headrace.cdc.postgres.replication import DATA_OFFSET, POSTGRES_EPOCH_US
from headrace.cdc.postgres.stream import Stream

BYTES_MAX = 64_000_000
"""of all messages together: Arrow's arrays have offsets of 32 bits, and JSON is longer"""

_BEGIN, _COMMIT, _INSERT, _UPDATE, _DELETE = b"BCIUD"
_OLD, _KEY, _NEW = b"OKN"
_TEXT, _NULL = b"tn"
_OPS = {_INSERT: Op.CREATE, _UPDATE: Op.UPDATE, _DELETE: Op.DELETE}
_PADDING = bytes(8)

# Behind the kind of a message, by its kind.
_BODY = DATA_OFFSET + 1
_BEGIN_TIME, _BEGIN_XID = _BODY + 8, _BODY + 16
_ROW_KIND = _BODY + 4

_Numbers = np.ndarray[Any, Any]


class _Rare(Exception):
    """A message that is left to `Stream`."""


def changed_rows(stream: Stream, messages: Sequence[bytes]) -> ChangedRows | None:
    """The changes of these messages, which the stream has passed then. None if it has to apply one of them itself: then
    it has passed none. Messages have the headers of the replication protocol."""
    if stream.is_skipping or sum(map(len, messages)) > BYTES_MAX:
        return None
    try:
        block = _Block(messages)
        transactions = list(block.transactions(stream.transaction))
        rows, described = block.captured_rows(stream)
        groups = [group for oid in described for group in block.groups(rows, oid, described[oid])]
    except _Rare:
        return None
    transaction_of = block.transaction_of(rows) - (stream.transaction is None)
    last = len(transactions) - 1
    stream.passed(block.bounds(), changes=int(np.count_nonzero(transaction_of == last)))
    xids = np.fromiter((int(each.id) for each in transactions), np.int64, len(transactions))
    return ChangedRows(
        groups=groups,
        transactions=transactions,
        transaction_of=transaction_of,
        source={"txId": xids[transaction_of], "lsn": block.lsns(rows)},
        committed_ms=transactions[-1].committed_ms,
        position=stream.position(),
    )


class _Block:
    """Messages one after the other in memory, and where each of them begins. Rows are given by the index of their
    message."""

    def __init__(self, messages: Sequence[bytes]) -> None:
        self._messages = messages
        content = b"".join((*messages, _PADDING))
        self._buffer = pa.py_buffer(content)
        self._bytes = np.frombuffer(content, np.uint8)
        self._ends = np.cumsum(np.fromiter(map(len, messages), np.int64, len(messages)))
        self._starts = np.concatenate(([0], self._ends[:-1]))
        self._kinds = self._bytes[self._starts + DATA_OFFSET]
        if not np.isin(self._kinds, (_BEGIN, _COMMIT, *_OPS)).all():
            raise _Rare

    def transactions(self, open: tuple[int, int] | None) -> Iterator[BlockTransaction]:
        """`open` is the one that the block continues: its id, and when it was committed."""
        begins = self._starts[self._kinds == _BEGIN]
        if open is None and self._kinds[0] != _BEGIN:
            raise _Rare
        times = (self._numbers(begins + _BEGIN_TIME, 8) + POSTGRES_EPOCH_US) // 1_000
        found = zip(self._numbers(begins + _BEGIN_XID, 4).tolist(), times.tolist(), strict=True)
        ended = int(np.count_nonzero(self._kinds == _COMMIT))
        for number, (xid, committed_ms) in enumerate((*([open] if open else ()), *found)):
            yield BlockTransaction(id=str(xid), committed_ms=committed_ms, is_ended=number < ended)

    def transaction_of(self, rows: _Numbers) -> _Numbers:
        """How many transactions have begun in the block before each row."""
        return np.cumsum(self._kinds == _BEGIN)[rows]

    def captured_rows(self, stream: Stream) -> tuple[_Numbers, dict[int, Described]]:
        rows = np.flatnonzero(np.isin(self._kinds, tuple(_OPS)))
        relations = self._numbers(self._starts[rows] + _BODY, 4)
        described = {}
        for oid in np.unique(relations).tolist():
            if not stream.knows(oid):
                raise _Rare
            if (found := stream.table(oid)) is None:
                rows = rows[relations != oid]
                relations = relations[relations != oid]
            else:
                described[oid] = found
        return rows, described

    def groups(self, rows: _Numbers, oid: int, described: Described) -> Iterator[RowGroup]:
        """The changes of a table, by their kinds."""
        starts = self._starts[rows]
        places = np.flatnonzero(self._numbers(starts + _BODY, 4) == oid)
        kinds, row_kinds = self._kinds[rows[places]], self._bytes[starts[places] + _ROW_KIND]
        for kind, row_kind in sorted(set(zip(kinds.tolist(), row_kinds.tolist(), strict=True))):
            chosen = places[(kinds == kind) & (row_kinds == row_kind)]
            before, after = self._values(rows[chosen], kind, row_kind, described)
            yield RowGroup(
                table=described.table,
                op=_OPS[kind],
                places=chosen,
                before=before,
                after=after,
                source=described.source,
            )

    def lsns(self, rows: _Numbers) -> _Numbers:
        return self._numbers(self._starts[rows] + 1, 8)

    def bounds(self) -> list[Message]:
        """The last begin and the last commit."""
        found = [np.flatnonzero(self._kinds == kind)[-1:].tolist() for kind in (_BEGIN, _COMMIT)]
        return [decode(self._messages[at], DATA_OFFSET) for at in sorted(itertools.chain(*found))]

    def _values(
        self, rows: _Numbers, kind: int, row_kind: int, described: Described
    ) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
        """The values as JSON of the rows before and after the changes."""
        first, at = self._texts(self._starts[rows] + _ROW_KIND + 1, len(described.names))
        second = None
        if (kind, row_kind) == (_UPDATE, _OLD):
            if (self._bytes[at] != _NEW).any():
                raise _Rare
            second, at = self._texts(at + 1, len(described.names))
            if not all(first[key].equals(second[key]) for key in described.key_indexes):
                raise _Rare  # a changed key is two changes
        if (at != self._ends[rows]).any():
            raise _Rare
        if (kind, row_kind) in ((_INSERT, _NEW), (_UPDATE, _NEW)):
            return None, _json(first, described)
        if (kind, row_kind) == (_DELETE, _KEY):
            return _json(first, described, described.key_indexes), None
        if (kind, row_kind) == (_DELETE, _OLD):
            return _json(first, described), None
        if second is None:
            raise _Rare
        return _json(first, described), _json(second, described)

    def _texts(self, at: _Numbers, count: int) -> tuple[list[pa.BinaryArray], _Numbers]:
        """The texts of rows that begin there, by column, and where each row ends."""
        if (self._numbers(at, 2) != count).any():
            raise _Rare
        at = at + 2
        columns = []
        for _ in range(count):
            kinds = self._bytes[at]
            is_text = kinds == _TEXT
            if not (is_text | (kinds == _NULL)).all():
                raise _Rare
            begins = np.where(is_text, at + 5, at + 1)
            at = begins + np.where(is_text, self._numbers(at + 1, 4), 0)
            columns.append(self._spans(begins, at, is_text))
        return columns, at

    def _spans(self, begins: _Numbers, ends: _Numbers, is_text: _Numbers) -> pa.BinaryArray:
        """What stands between. Arrow's arrays have no gaps, so every other value of the first one is a gap."""
        count = len(begins)
        offsets = np.empty(2 * count, np.int32)
        offsets[0::2], offsets[1::2] = begins, ends
        buffers = [None, pa.py_buffer(offsets), self._buffer]
        with_gaps = pa.Array.from_buffers(pa.binary(), 2 * count - 1, buffers)
        valid = None if is_text.all() else pa.py_buffer(np.packbits(is_text, bitorder="little"))
        indexes = [valid, pa.py_buffer(np.arange(0, 2 * count, 2))]
        return with_gaps.take(pa.Array.from_buffers(pa.int64(), count, indexes))

    def _numbers(self, at: _Numbers, size: int) -> _Numbers:
        """The numbers of so many bytes that stand there."""
        found = self._bytes[at[:, None] + np.arange(size)].view(f">i{size}")
        return found.ravel().astype(np.int64)


def _json(
    texts: Sequence[pa.BinaryArray], described: Described, columns: Sequence[int] | None = None
) -> dict[str, pa.BinaryArray]:
    conversions = dict(described.conversions)
    found = {}
    for at in range(len(texts)) if columns is None else columns:
        name = described.names[at]
        convert = conversions.get(name)
        if convert is None:
            _require_unicode(texts[at])
        found[name] = json_column(texts[at], convert, _plain)
    return found


def _require_unicode(column: pa.BinaryArray) -> None:
    """A database with the encoding SQL_ASCII may hold any bytes."""
    try:
        column.cast(pa.string())
    except pa.ArrowInvalid:
        raise _Rare from None


def _plain(text: bytes) -> str:
    return text.decode("utf-8", "replace")
