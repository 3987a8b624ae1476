"""Changelogs for steps, and a bucket that can be restored from its bytes. Any hash that distinguishes rows will do."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from headrace.operators.state.run import Run
from headrace.operators.state.step import Lift, Step, advance
from headrace.operators.state.table import StateTable
from tests.operators.step_times import step_time

Row = tuple[Any, ...]
Change = tuple[int, Row]
"""A weight, 1 or -1, and the row."""

NOW = step_time(-1)


class Bucket:
    """A step with its state, and the view of what it has emitted so far."""

    def __init__(self, step: Step, lift: Lift) -> None:
        self.step = step
        self.lift = lift
        self.table = StateTable(step.state_schema)
        self.view: Counter[Row] = Counter()

    def work(self, rows_in: pa.Table) -> list[Row]:
        """The emitted rows, with `op` as the last column."""
        advanced = advance(self.step, self.table, self.lift(rows_in)[0], NOW)
        self.table = advanced.table
        rows = [tuple(row.values()) for row in advanced.result.output.to_pylist()]
        for *row, op in rows:
            self.view[tuple(map(comparable, row))] += 1 if op == "+" else -1
        assert min(self.view.values(), default=0) >= 0, "a row was retracted that had not been emitted"
        self.view = +self.view
        assert not set(_of(rows, "+")) & set(_of(rows, "-")), "a row was retracted and added in one step"
        return rows

    def restart(self) -> None:
        runs = [Run.decode(run.encode(), name=run.name) for run in self.table.runs]
        self.table = StateTable(self.step.state_schema, runs)


def comparable(thing: Any) -> Any:
    """NaN does not equal itself."""
    return "nan" if isinstance(thing, float) and math.isnan(thing) else thing


def _of(rows: Sequence[Row], op: str) -> list[Row]:
    return [row[:-1] for row in rows if row[-1] == op]


def hash_of(thing: object, number: int, *, bits: int = 64) -> int:
    """With few bits, many things have the same hash."""
    digest = hashlib.blake2b(f"{number} {thing!r}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True) >> (64 - bits)


def hash_columns(prefix: str, things: Sequence[object], *, first_bits: int = 64) -> dict[str, pa.Array]:
    """The second hash always distinguishes things, the first one if it has enough bits."""
    first = [hash_of(each, 1, bits=first_bits) if first_bits else 0 for each in things]
    second = [hash_of(each, 2) for each in things]
    return {f"{prefix}1": pa.array(first, pa.int64()), f"{prefix}2": pa.array(second, pa.int64())}


def columns_of(rows: Sequence[Row], prefix: str, types: Sequence[pa.DataType]) -> dict[str, pa.Array]:
    return {
        f"{prefix}{number}": pa.array([row[number] for row in rows], kind)
        for number, kind in enumerate(types)
    }


def weights_of(changes: Sequence[Change]) -> pa.Array:
    return pa.array([weight for weight, _ in changes], pa.int64())


@st.composite
def batches(
    draw: st.DrawFn, rows: st.SearchStrategy[Row], *, in_order: bool = False, size_max: int = 10
) -> list[list[Change]]:
    """Additions and retractions. If not in order, a row may be retracted before it is added."""
    there: Counter[Row] = Counter()
    created = []
    for _ in range(draw(st.integers(1, 6))):
        batch = []
        for row in draw(st.lists(rows, max_size=size_max)):
            goes = draw(st.booleans())
            if in_order:
                candidates = sorted(there.elements(), key=repr)
                goes = goes and bool(candidates)
                row = draw(st.sampled_from(candidates)) if goes else row
            there[row] += -1 if goes else 1
            batch.append((-1 if goes else 1, row))
        created.append(draw(st.permutations(batch)))
    return created


class TablesNow:
    """The current rows: those that were added more often than retracted."""

    def __init__(self) -> None:
        self._weights: Counter[Row] = Counter()

    def change(self, changes: Sequence[Change]) -> None:
        for weight, row in changes:
            self._weights[row] += weight

    @property
    def rows(self) -> list[Row]:
        return list((+self._weights).elements())
