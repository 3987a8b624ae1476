"""The step of membership: a Bloom filter per bucket, in blocks (Putze, Sanders and Singler, 2007).

All bits of a key are in one block, and a block is a row of state, so a batch writes only the blocks that it changed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from headrace.operators.approximation.rows_with_keys import (
    HASH_COLUMNS,
    DistinctKeys,
    key_hashes,
    row_fields,
)
from headrace.operators.state.ids import Ids, Ints, Mask, distinct, mixed
from headrace.operators.state.run import ids_column
from headrace.operators.state.step import Step, StepResult, StepTime
from headrace.operators.state.table import StateTable, column_of, ids_in, state_schema

BLOCK_BYTES = 512
"""Blocks of some hundred keys differ little in how many keys they have, so that the error is near that of one large
filter."""

SPARE = 1.15
"""More bits than in theory, for blocks and buckets that have more keys than the average."""

_BITS = "bits"
_KIND = pa.binary(BLOCK_BYTES)


class BloomSize(Struct, frozen=True):
    """The size of the filter of a bucket."""

    blocks: int
    bits_per_key: int
    """How many bits a key sets."""


def bloom_size(keys: float, error: float) -> BloomSize:
    """The filter of so many keys with this rate of false positives."""
    bits = SPARE * keys * -math.log(error) / math.log(2) ** 2
    return BloomSize(max(1, math.ceil(bits / (8 * BLOCK_BYTES))), max(1, round(-math.log2(error))))


class BloomStep(Step):
    """The input has `h1`, `h2` of the key, and the columns of the row. The output has the rows and whether their key
    was seen before; without a name for this column, only the first row of each key."""

    def __init__(self, *, columns: Sequence[pa.Field], seen: str | None, size: BloomSize) -> None:
        self._size = size
        self._is_filter = seen is None
        self._columns = [each.name for each in row_fields(columns)]
        self.input_schema = pa.schema([*HASH_COLUMNS, *row_fields(columns)])
        self.state_schema = state_schema([pa.field(_BITS, _KIND)])
        self.output_schema = pa.schema([*columns, *([] if seen is None else [pa.field(seen, pa.bool_())])])

    def __call__(self, table: StateTable, rows: pa.Table, time: StepTime) -> StepResult:
        if rows.num_rows == 0:
            return self.unchanged()
        keys = key_hashes(rows)
        ids = np.zeros(len(keys.first), dtype=np.complex128)
        ids.real = keys.second % np.uint64(self._size.blocks)
        touched, block = np.unique(ids, return_inverse=True)
        blocks = self._blocks(table, touched)
        at, bits = self._bits_of(keys)
        was_there: Mask = ((blocks[block, at] & bits) != 0).all(axis=0)
        np.bitwise_or.at(blocks, (np.broadcast_to(block, at.shape), at), bits)
        is_new = np.zeros(rows.num_rows, dtype=np.bool_)
        is_new[keys.heads] = ~was_there
        columns = [rows.column(name) for name in self._columns]
        if self._is_filter:
            output = pa.table(columns, schema=self.output_schema).filter(pa.array(is_new))
        else:
            output = pa.table([*columns, pa.array(~is_new)], schema=self.output_schema)
        return StepResult(
            rows=self._changed(touched, blocks, block, was_there),
            deleted=np.empty(0, dtype=np.complex128),
            output=output,
        )

    def _blocks(self, table: StateTable, touched: Ids) -> npt.NDArray[np.uint8]:
        kept = table.take(touched)
        blocks = np.zeros((len(touched), BLOCK_BYTES), dtype=np.uint8)
        if kept.num_rows:
            column = column_of(kept, _BITS)
            content = np.frombuffer(column.buffers()[1], dtype=np.uint8).reshape(-1, BLOCK_BYTES)
            places = np.searchsorted(touched, ids_in(kept))
            blocks[places] = content[column.offset : column.offset + len(column)]
        return blocks

    def _bits_of(self, keys: DistinctKeys) -> tuple[Ints, npt.NDArray[np.uint8]]:
        """The bytes of a block and the bits in them, by bit and key."""
        places = np.empty((self._size.bits_per_key, len(keys.first)), dtype=np.int64)
        for number in range(len(places)):
            hashed = mixed(keys.first, np.full(len(keys.first), number, dtype=np.int64))
            places[number] = (hashed % np.uint64(8 * BLOCK_BYTES)).astype(np.int64)
        return places >> 3, np.left_shift(1, places & 7).astype(np.uint8)

    def _changed(self, touched: Ids, blocks: npt.NDArray[np.uint8], block: Ints, was_there: Mask) -> pa.Table:
        """The blocks of new keys."""
        changed = distinct(block[~was_there])
        content = pa.py_buffer(np.ascontiguousarray(blocks[changed]))
        bits = pa.Array.from_buffers(_KIND, len(changed), [None, content])
        return pa.table([ids_column(touched[changed]), bits], schema=self.state_schema)
