"""A run: an immutable set of rows of state, sorted by id.

A run has all rows of each of its ids, so that they replace those of older runs. An id that was deleted has one row, a
tombstone.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.operators.state.ids import ID_BYTES, Ids, Ints, Mask, is_first, ranges, segment_starts

ID = "id"
TOMBSTONE = "gone"
ID_TYPE = pa.binary(ID_BYTES)

COLUMN = b"column"
"""Metadata of a key column: the user's name of it."""

LABEL = b"label"
"""Metadata of any other column of state: a description for the user."""

NEVER = np.iinfo(np.int64).max
"""A time that is never reached."""

_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
"""It compresses to a third or a quarter, much faster than Spark would take in the uncompressed bytes. Other threads
would take longer to wake up than to compress the columns of a small run."""

_IN_THIS_THREAD = pa.ipc.IpcReadOptions(use_threads=False)


class Run:
    """The first columns of `rows` are `id` and `gone` (the tombstone flag), followed by those of the state."""

    def __init__(self, rows: pa.Table, *, name: str | None = None) -> None:
        self.rows = rows
        self.name = name or uuid.uuid4().hex
        """Unique among all runs that were ever written, so that a cached copy is always valid."""
        self._earliest: dict[str, int] = {}

    @classmethod
    def of(cls, rows: pa.Table, deleted: Ids) -> Run:
        """A run from rows with ids, in any order, and deleted ids."""
        table = _with_tombstones(rows, np.zeros(rows.num_rows, dtype=np.bool_))
        if len(deleted):
            empty = pa.table(
                [ids_column(deleted), *[pa.nulls(len(deleted), each.type) for each in rows.schema][1:]],
                rows.schema,
            )
            table = pa.concat_tables([table, _with_tombstones(empty, np.ones(len(deleted), dtype=np.bool_))])
        return cls(_sorted(table))

    @classmethod
    def decode(cls, content: bytes | pa.Buffer, *, name: str) -> Run:
        return cls(decode_table(content), name=name)

    def encode(self) -> bytes:
        return encode_table(self.rows)

    @functools.cached_property
    def ids(self) -> Ids:
        return ids_of_column(self.rows.column(ID))

    @functools.cached_property
    def tombstones(self) -> Mask:
        return np.asarray(self.rows.column(TOMBSTONE))

    @functools.cached_property
    def tombstone_count(self) -> int:
        return int(self.tombstones.sum())

    @functools.cached_property
    def has_groups(self) -> bool:
        """Whether an id may have several rows here."""
        return not is_first(self.ids).all()

    @functools.cached_property
    def size_bytes(self) -> int:
        return int(self.rows.nbytes)

    def find(self, ids: Ids) -> tuple[Mask, Ints]:
        """A mask of the ids that this run has, and the positions of their rows without tombstones."""
        if len(self.ids) == 0 or len(ids) == 0:
            return np.zeros(len(ids), dtype=np.bool_), np.empty(0, dtype=np.int64)
        first = np.searchsorted(self.ids, ids)
        found: Mask = self.ids[np.minimum(first, len(self.ids) - 1)] == ids
        positions = first[found]
        if self.has_groups:
            positions = ranges(positions, np.searchsorted(self.ids, ids[found], side="right"))
        return found, positions[~self.tombstones[positions]]

    def earliest(self, column: str) -> int:
        """The earliest time in this column, without tombstones; NEVER if there is none."""
        if column not in self._earliest:
            times = self.ints(column)[~self.tombstones]
            self._earliest[column] = int(times.min()) if len(times) else NEVER
        return self._earliest[column]

    def earliest_after(self, column: str, after: int) -> int:
        if self.earliest(column) > after:
            return self.earliest(column)
        times = self.ints(column)
        times = times[(times > after) & ~self.tombstones]
        return int(times.min()) if len(times) else NEVER

    def ints(self, column: str) -> Ints:
        """A column of 64-bit integers. Values of tombstones are undefined."""
        return (
            np.asarray(self.rows.column(column).chunk(0).fill_null(0)) if len(self) else np.empty(0, np.int64)
        )

    def __len__(self) -> int:
        return int(self.rows.num_rows)


def merge(runs: Sequence[Run], *, is_oldest: bool) -> Run:
    """Merge runs, oldest first, into one. A merge that includes the oldest run of all drops tombstones."""
    rows = newest([run.rows for run in runs])
    return Run(without_tombstones(rows).combine_chunks() if is_oldest else rows)


def newest(parts: Sequence[pa.Table]) -> pa.Table:
    """The rows sorted by id; of each id, those of the last part that has it."""
    ids = np.concatenate([ids_of_column(rows.column(ID)) for rows in parts])
    ages = np.repeat(np.arange(len(parts)), [rows.num_rows for rows in parts])
    order = np.argsort(ids, kind="stable")
    ids, ages = ids[order], ages[order]
    starts = segment_starts(ids)
    if len(starts) < len(ids):
        counts = np.diff(np.append(starts, len(ids)))
        order = order[ages == np.repeat(np.maximum.reduceat(ages, starts), counts)]
    return pa.concat_tables(parts).combine_chunks().take(pa.array(order)).combine_chunks()


def without_tombstones(rows: pa.Table) -> pa.Table:
    return rows.filter(pa.array(~np.asarray(rows.column(TOMBSTONE))))


def ids_column(ids: Ids) -> pa.Array:
    return pa.Array.from_buffers(ID_TYPE, len(ids), [None, pa.py_buffer(np.ascontiguousarray(ids))])


def ids_of_column(column: pa.ChunkedArray | pa.Array) -> Ids:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # older releases return it in this form
            column = column.chunk(0) if column.num_chunks else pa.array([], column.type)
    if len(column) == 0:
        return np.empty(0, dtype=np.complex128)
    data: Ids = np.frombuffer(column.buffers()[1], dtype=np.complex128)
    return data[column.offset : column.offset + len(column)]


def distinct_ids(column: pa.ChunkedArray | pa.Array) -> tuple[Ids, npt.NDArray[np.unsignedinteger]]:
    """The distinct ids, sorted, and the place of each id of the column among them.

    If ids have many rows, this takes a fifth of the time of `np.unique`; and places, unlike ids, are sorted by radix.
    """
    encoded = ids_column(ids_of_column(column)).dictionary_encode()
    distinct = ids_of_column(encoded.dictionary)
    order = np.argsort(distinct)
    places = np.empty(len(order), dtype=np.min_scalar_type(len(order)))
    places[order] = np.arange(len(order))
    return distinct[order], places[np.asarray(encoded.indices)]


def encode_table(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_COMPRESSED) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue())


def decode_table(content: bytes | pa.Buffer) -> pa.Table:
    with pa.ipc.open_stream(content, options=_IN_THIS_THREAD) as reader:
        return reader.read_all().combine_chunks()


def _with_tombstones(rows: pa.Table, tombstones: Mask) -> pa.Table:
    return rows.add_column(1, pa.field(TOMBSTONE, pa.bool_()), pa.array(tombstones))


def _sorted(rows: pa.Table) -> pa.Table:
    rows = rows.combine_chunks()
    ids = ids_of_column(rows.column(ID))
    if (ids[1:] >= ids[:-1]).all():
        return rows
    return rows.take(pa.array(np.argsort(ids, kind="stable"))).combine_chunks()
