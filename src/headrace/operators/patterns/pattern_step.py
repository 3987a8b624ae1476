"""The step of MATCH_RECOGNIZE: rows wait until the watermark has passed them, then matches are searched in them.

The state of a key has its rows from the first at which a match may still start; some before it, if the pattern uses
PREV; and the number of its matches. A row is deleted when no match can have it any more: on a stream, a match has a
bound (WITHIN, or `rows_max`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from headrace.operators.late_rows import LATE_ROWS, UTC_TIME
from headrace.operators.ordering import ranks_of
from headrace.operators.patterns import syntax as of
from headrace.operators.patterns.binding import Bound, walk
from headrace.operators.patterns.matching import Found, Matcher, Rows, Rules
from headrace.operators.patterns.measures import Entries, in_type, measured
from headrace.operators.patterns.row_columns import RowColumns
from headrace.operators.state.ids import Hashes, Ids, Ints, contains, distinct, ids_of, segment_starts
from headrace.operators.state.run import COLUMN, ID, LABEL, NEVER, distinct_ids, ids_column
from headrace.operators.state.step import BEGINNING_US, END_US, Step, StepResult, StepTime
from headrace.operators.state.table import StateTable, column_of, hashes_of, ids_in, ints_of, state_schema

TIME, TIE, ORIGINAL = "time", "tie", "original"


class PatternShape(Struct, frozen=True, kw_only=True):
    """The columns of rows and results."""

    rules: Rules
    columns: Mapping[str, pa.DataType]
    """The columns that are carried, by name."""
    output: Sequence[str]
    """The names of the output, which are columns and measures."""
    measures: Mapping[str, pa.DataType]
    time: str | None
    """The column with the time, if rows are ordered by one first."""
    ties: int
    """The number of columns that order rows of equal time."""
    keeps_late: bool = False

    @property
    def bound(self) -> Bound:
        return self.rules.bound

    @property
    def sent(self) -> list[str]:
        """The columns that Spark passes to the core: without the time, which rows have as a number too. A time without
        a zone is sent, because its number depends on the zone of the session."""
        return [
            name
            for name, kind in self.columns.items()
            if name != self.time or name in self.bound.keys or kind.tz is None
        ]

    def place(self, column: str) -> str:
        return f"c{list(self.columns).index(column)}"

    @property
    def lookahead(self) -> int:
        return max((each.rows for each in self._navigations() if each.rows > 0), default=0)

    @property
    def lookback(self) -> int:
        """The rows before a match that must be stored. MATCH_NUMBER and ^ need a row of each key for ever."""
        rows = max((-each.rows for each in self._navigations() if each.rows < 0), default=0)
        return max(rows, 1) if self.counts_matches or self.has_start else rows

    @property
    def counts_matches(self) -> bool:
        return any(
            isinstance(node, of.MatchNumber) for each in self.bound.expressions() for node in walk(each)
        )

    @property
    def has_start(self) -> bool:
        return of.has_part(self.bound.clauses.pattern, of.Anchor)

    def _navigations(self) -> list[of.Navigation]:
        """The navigations to rows that may be outside of the match. A classifier is only inside of it."""
        nodes = (node for each in self.bound.expressions() for node in walk(each))
        return [
            node
            for node in nodes
            if isinstance(node, of.Navigation)
            and not any(isinstance(each, of.Classifier) for each in walk(node.inner))
        ]


class PatternLift:
    """The lift of rows: `h1` and `h2` become the id. A column that was not sent (`PatternShape.sent`) is the time."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def __call__(self, rows: pa.Table) -> tuple[pa.Table, Hashes]:
        first, second = hashes_of(rows)
        sent = set(rows.column_names)
        columns = [
            rows.column(field.name) if field.name in sent else rows.column(TIME).cast(field.type)
            for field in list(self._schema)[1:]
        ]
        return pa.table([ids_column(ids_of(first, second)), *columns], schema=self._schema), first


class PatternStep(Step):
    due_column = "due_us"

    def __init__(self, shape: PatternShape) -> None:
        self.shape = shape
        keys = set(shape.bound.keys)
        self.row_fields = [
            pa.field(TIME, pa.int64()),
            *(pa.field(f"{TIE}{number}", pa.int64()) for number in range(shape.ties)),
            *(
                pa.field(shape.place(name), kind, metadata={COLUMN if name in keys else LABEL: name.encode()})
                for name, kind in shape.columns.items()
            ),
        ]
        original = [pa.field(ORIGINAL, pa.string())] if shape.keeps_late else []
        self.input_schema = state_schema([*self.row_fields, *original])
        self.state_schema = state_schema(
            [
                pa.field("due_us", pa.int64()),
                pa.field("is_done", pa.bool_()),  # no match starts here any more
                pa.field("is_matched", pa.bool_()),
                pa.field("is_cut", pa.bool_()),  # earlier rows of the key were deleted
                pa.field("matches", pa.int64()),
                *self.row_fields,
            ]
        )
        kinds = {**shape.columns, **shape.measures}
        self.output_schema = pa.schema([pa.field(name, kinds[name]) for name in shape.output])

    def __getstate__(self) -> dict[str, Any]:
        return {name: each for name, each in self.__dict__.items() if name != "matcher"}

    @cached_property
    def matcher(self) -> Matcher:
        return Matcher(self.shape.rules)

    def __call__(self, table: StateTable, rows: pa.Table, time: StepTime) -> StepResult:
        rows = rows.combine_chunks()
        is_late = ints_of(rows, TIME) < time.late_us
        late = rows.filter(pa.array(is_late)) if is_late.any() else rows.slice(0, 0)
        if late.num_rows:
            rows = rows.filter(pa.array(~is_late)).combine_chunks()
        counts: dict[str, Any] = {"rows_in": len(is_late), "late_rows": late.num_rows}
        if self.shape.keeps_late and late.num_rows:
            counts["late"] = self._late(late, time)
        touched, _places = distinct_ids(rows.column(ID))
        ids = distinct(np.concatenate([touched, table.due("due_us", time.watermark_us)]))
        if len(ids) == 0:
            return self.unchanged(**counts)
        kept = table.take(ids)
        together = pa.concat_tables([kept, self._as_state(rows)]).combine_chunks()
        if time.watermark_us == BEGINNING_US:
            return StepResult(
                rows=together, deleted=ids[:0], output=self.output_schema.empty_table(), **counts
            )
        matched = MatchedKeys(self, together, time)
        after = matched.kept()
        before, _places = distinct_ids(kept.column(ID))
        deleted = before[~contains(ids_in(after), before)]
        return StepResult(rows=after, deleted=deleted, output=matched.output(), **counts)

    def _as_state(self, rows: pa.Table) -> pa.Table:
        count = rows.num_rows
        no = pa.repeat(pa.scalar(False), count)
        columns = [
            rows.column(0),
            pa.array(ints_of(rows, TIME) + 1),
            no,
            no,
            no,
            pa.repeat(pa.scalar(0, pa.int64()), count),
            *(rows.column(each.name) for each in self.row_fields),
        ]
        return pa.table(columns, schema=self.state_schema)

    def _late(self, rows: pa.Table, time: StepTime) -> pa.Table:
        at = column_of(rows, TIME).cast(UTC_TIME)
        watermark = pa.repeat(pa.scalar(time.late_us, pa.int64()), rows.num_rows).cast(UTC_TIME)
        no_reasons = pa.nulls(rows.num_rows, pa.string())
        return pa.table([at, at, watermark, column_of(rows, ORIGINAL), no_reasons], schema=LATE_ROWS)


class MatchedKeys:
    """The rows of the keys that a step touches, sorted, with their matches."""

    def __init__(self, step: PatternStep, rows: pa.Table, time: StepTime) -> None:
        self._step = step
        self._shape = step.shape
        self._time = time
        self._is_final = time.watermark_us >= END_US
        self._rows, self._ids = self._sorted(rows)
        self._times_us = ints_of(self._rows, TIME)
        self.first = segment_starts(self._ids) if len(self._ids) else np.empty(0, np.int64)
        self.end = np.append(self.first[1:], len(self._ids)) if len(self.first) else self.first
        self._complete, self._known = self._known_ends()
        self._is_cut = np.asarray(column_of(self._rows, "is_cut"))[self.first]
        self.columns = RowColumns(
            {name: column_of(self._rows, self._shape.place(name)) for name in self._shape.columns},
            self.first,
            self.end,
        )
        self.found = self._find()

    def _sorted(self, rows: pa.Table) -> tuple[pa.Table, Ids]:
        ids, places = distinct_ids(rows.column(ID))
        keys: list[Any] = [ints_of(rows, f"{TIE}{number}") for number in reversed(range(self._shape.ties))]
        terms = self._shape.bound.clauses.order_by[1 if self._shape.time else 0 :]
        keys += [_rank(column_of(rows, self._shape.place(term.column)), term) for term in reversed(terms)]
        order = np.lexsort((*keys, ints_of(rows, TIME), places))
        return rows.take(pa.array(order)).combine_chunks(), ids[places[order]]

    def _known_ends(self) -> tuple[Ints, Ints]:
        """For each key, the end of the rows that the watermark has passed; and of those that may be in a match."""
        if self._is_final:
            return self.end, self.end
        passed = np.append(0, np.cumsum(self._times_us < self._time.watermark_us))
        complete = self.first + passed[self.end] - passed[self.first]
        return complete, np.maximum(complete - self._shape.lookahead, self._begin())

    def _begin(self) -> Ints:
        done = np.append(0, np.cumsum(np.asarray(column_of(self._rows, "is_done"))))
        begin: Ints = self.first + done[self.end] - done[self.first]
        return begin

    def _find(self) -> Found:
        # New rows of a key come with 0 matches.
        matches = ints_of(self._rows, "matches")
        return self._step.matcher.find(
            Rows(
                columns=self.columns,
                begin=self._begin(),
                known=self._known,
                is_start=~self._is_cut,
                matches=np.maximum.reduceat(matches, self.first) if len(self.first) else self.first,
                times_us=self._times_us,
                closed_us=self._time.watermark_us,
                is_final=self._is_final,
                describe=self._key,
            )
        )

    def _key(self, partition: int) -> str:
        row = int(self.first[partition])
        keys = self._shape.bound.keys
        values = (column_of(self._rows, self._shape.place(name))[row].as_py() for name in keys)
        return (
            ", ".join(f"{name}={value!r}" for name, value in zip(keys, values, strict=True)) or "of all rows"
        )

    # Output

    def output(self) -> pa.Table:
        shape, found = self._shape, self.found
        entries = Entries(shape.bound, found, self.columns, self._step.matcher.automaton.variable)
        mode = shape.bound.clauses.rows_per_match
        if mode == "one":
            matches = np.arange(len(found.start))
            points = np.where(found.end > found.start, entries.end - 1, -1)
            return self._table(entries, matches, points, found.start, np.empty(0, np.int64))
        excluded = np.asarray(self._step.matcher.automaton.excluded, dtype=np.bool_)[found.positions]
        points = np.flatnonzero(~excluded)
        matches, rows = entries.match[points], entries.rows[points]
        if mode != "all omit empty":
            empty = np.flatnonzero(found.end == found.start)
            matches = np.append(matches, empty)
            points = np.append(points, np.full(len(empty), -1))
            rows = np.append(rows, found.start[empty])
            order = np.argsort(matches, kind="stable")
            matches, points, rows = matches[order], points[order], rows[order]
        unmatched = self._unmatched() if mode == "all with unmatched" else np.empty(0, np.int64)
        return self._table(entries, matches, points, rows, unmatched)

    def _table(self, entries: Entries, matches: Ints, points: Ints, rows: Ints, unmatched: Ints) -> pa.Table:
        """The output at these points and rows, followed by rows without measures."""
        shape, schema = self._shape, self._step.output_schema
        values = measured(entries, matches, points, shape.time)
        by_name = dict(zip(shape.measures, values, strict=True))
        taken = pa.array(np.append(rows, unmatched))
        columns = []
        for field in schema:
            if field.name in by_name:
                column = in_type(by_name[field.name], field.type)
                columns.append(pa.concat_arrays([column, pa.nulls(len(unmatched), field.type)]))
            else:
                columns.append(column_of(self._rows, shape.place(field.name)).take(taken))
        output = pa.table(columns, schema=schema)
        if len(unmatched) == 0:
            return output
        order = np.argsort(np.append(self.found.start[matches], unmatched), kind="stable")
        return output.take(pa.array(order))

    def _matched(self) -> Ints:
        """How many matches each row is in, or starts if they are empty; with those before this step."""
        found = self.found
        change = np.zeros(len(self._ids) + 1, dtype=np.int64)
        np.add.at(change, found.start, 1)
        np.add.at(change, np.maximum(found.end, found.start + 1), -1)
        before = np.asarray(column_of(self._rows, "is_matched")).astype(np.int64)
        matched: Ints = np.cumsum(change[:-1]) + before
        return matched

    def _unmatched(self) -> Ints:
        change = np.zeros(len(self._ids) + 1, dtype=np.int64)
        np.add.at(change, self._begin(), 1)
        np.add.at(change, self.found.next_start, -1)
        is_passed = np.cumsum(change[:-1]) > 0
        return np.flatnonzero(is_passed & (self._matched() == 0))

    # State

    def kept(self) -> pa.Table:
        if self._is_final or len(self._ids) == 0:
            return self._step.state_schema.empty_table()
        found, within_us = self.found, self._shape.bound.clauses.within_us
        keep_from = np.maximum(found.next_start - self._shape.lookback, self.first)
        counts = self.end - self.first
        at = np.arange(len(self._ids))
        is_kept = at >= np.repeat(keep_from, counts)
        due_us = np.full(len(self.first), NEVER)
        waits = self._complete < self.end
        due_us[waits] = self._times_us[self._complete[waits]] + 1
        if within_us is not None:
            is_pending = found.pending >= 0
            ends_us = self._times_us[found.pending[is_pending]] + within_us
            # A match may be pending longer than its time: it waits for the row that NEXT needs.
            ends_us = np.where(ends_us > self._time.watermark_us, ends_us, NEVER)
            due_us[is_pending] = np.minimum(due_us[is_pending], ends_us)
        is_cut = self._is_cut | (keep_from > self.first)
        columns: dict[str, pa.Array] = {
            "id": ids_column(self._ids),
            "due_us": pa.array(np.repeat(due_us, counts)),
            "is_done": pa.array(at < np.repeat(found.next_start, counts)),
            "is_matched": pa.array(self._matched() > 0),
            "is_cut": pa.array(np.repeat(is_cut, counts)),
            "matches": pa.array(np.repeat(found.matches, counts)),
        }
        schema = self._step.state_schema
        arrays = [columns.get(field.name) for field in schema]
        table = pa.table(
            [
                column_of(self._rows, field.name) if array is None else array
                for field, array in zip(schema, arrays, strict=True)
            ],
            schema=schema,
        )
        return table.filter(pa.array(is_kept)).combine_chunks()


def _rank(values: pa.Array, term: of.SortTerm) -> Ints:
    """Numbers that sort like the values of a term of ORDER BY."""
    ranks = ranks_of(values)
    is_null = np.asarray(pc.is_null(values))
    ranks = np.where(is_null, 0, -ranks if term.is_descending else ranks)
    if not is_null.any():
        return ranks
    limit = np.iinfo(np.int64)
    return np.where(is_null, limit.min if term.nulls_first else limit.max, ranks)
