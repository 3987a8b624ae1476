"""The step of enrichment beside an oracle: any rows and changes, any order, any split, state restored in between."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.operators.joins.enrich import SideLift
from headrace.operators.joins.enrich_step import EnrichRules, EnrichStep, Side
from headrace.operators.state.run import Run
from headrace.operators.state.step import END_US, advance
from headrace.operators.state.table import StateTable
from tests.operators.joins.oracles import Change, Enriched, EnrichOracle, Lookup, as_of
from tests.operators.step_times import step_time

KEYS = [pa.field("key", pa.string())]
COLUMNS = [pa.field("time", pa.int64()), pa.field("number", pa.int64())]
TABLE_COLUMNS = [pa.field("value", pa.int64())]

Batch = tuple[list[Lookup], list[Change], float]

keys = st.sampled_from("abc")
times = st.integers(0, 60)
rows = st.lists(st.tuples(keys | st.none(), times, st.integers(0, 99)), max_size=8)
changes = st.lists(st.tuples(keys, times, st.integers(0, 2), st.none() | st.integers(0, 9)), max_size=6)
rules = st.builds(
    EnrichRules,
    is_latest=st.just(False),
    wait_us=st.none() | st.integers(1, 30),
    keep_us=st.sampled_from([0, 5, 30]),
    drops_unmatched=st.booleans(),
) | st.builds(
    EnrichRules,
    is_latest=st.just(True),
    wait_us=st.none() | st.integers(1, 30),
    drops_unmatched=st.booleans(),
)


@st.composite
def batches(draw: st.DrawFn) -> list[Batch]:
    """Rows, changes and the watermark of each; the last is without any, and after all times."""
    watermark, created = -math.inf, list[Batch]()
    for _ in range(draw(st.integers(1, 6))):
        step = draw(st.none() | st.integers(0, 25))
        if step is not None:
            watermark = max(watermark, 0) + step
        created.append((draw(rows), draw(changes), watermark))
    return [*created, ([], [], float(END_US))]


class Enrichment:
    """The step under test, with a bucket that can be restored from its bytes."""

    def __init__(self, rules: EnrichRules) -> None:
        self.step = EnrichStep(rules=rules, keys=KEYS, columns=COLUMNS, table_columns=TABLE_COLUMNS)
        self.lift = SideLift(self.step.input_schema)
        self.table = StateTable(self.step.state_schema)
        self.late_rows = 0

    def work(self, rows: Sequence[Lookup], changes: Sequence[Change], watermark: float) -> list[Enriched]:
        return [row for row, _ in self.changes(rows, changes, watermark)]

    def changes(
        self, rows: Sequence[Lookup], changes: Sequence[Change], watermark: float
    ) -> list[tuple[Enriched, str]]:
        """The emitted rows, each with `op`, which is + without corrections."""
        time = step_time(watermark)
        incoming, _ = self.lift(table_of(rows, changes))
        advanced = advance(self.step, self.table, incoming, time)
        self.table = advanced.table
        self.late_rows += advanced.result.late_rows
        return [
            ((row["key"], row["time"], row["number"], row["value"]), row.get("op", "+"))
            for row in advanced.result.output.to_pylist()
        ]

    def restart(self) -> None:
        runs = [Run.decode(run.encode(), name=run.name) for run in self.table.runs]
        self.table = StateTable(self.step.state_schema, runs)


def table_of(rows: Sequence[Lookup], changes: Sequence[Change]) -> pa.Table:
    """The input rows of the lift. Any hash that distinguishes the keys will do."""
    every = [
        *(
            (key, time, 0, Side.UNMATCHABLE if key is None else Side.ROW, number, None)
            for key, time, number in rows
        ),
        *((key, since, order, Side.CHANGE, None, value) for key, since, order, value in changes),
    ]
    is_change = [each[3] is Side.CHANGE for each in every]
    number_type = pa.int64()
    return pa.table(
        {
            "h1": pa.array([hash(each[0]) for each in every], number_type),
            "h2": pa.array([hash(f"{each[0]}!") for each in every], number_type),
            "time": pa.array([each[1] for each in every], number_type),
            "seq": pa.array([each[2] for each in every], number_type),
            "side": pa.array([int(each[3]) for each in every], pa.int8()),
            "deleted": pa.array([each[5] is None for each in every], pa.bool_()),
            "k0": pa.array([each[0] for each in every], pa.string()),
            "l0": pa.array(
                [None if one else each[1] for each, one in zip(every, is_change, strict=True)], number_type
            ),
            "l1": pa.array([each[4] for each in every], number_type),
            "r0": pa.array([each[5] for each in every], number_type),
        }
    )


@settings(max_examples=150)
@given(batches(), rules, st.booleans())
def test_enrichment_matches_the_oracle_at_every_step(
    batches: list[Batch], rules: EnrichRules, restarts: bool
) -> None:
    oracle = EnrichOracle(
        is_latest=rules.is_latest,
        wait=rules.wait_us,
        keep=rules.keep_us,
        drops_unmatched=rules.drops_unmatched,
    )
    enrichment = Enrichment(rules)
    for batch in batches:
        assert Counter(enrichment.work(*batch)) == Counter(oracle.step(*batch))
        if restarts:
            enrichment.restart()
        kept = enrichment.table.all_rows().to_pylist()
        versions = Counter((row["k0"], row["time"]) for row in kept if row["kept"] == 0)
        assert versions == Counter((key, since) for key, known in oracle.versions.items() for since in known)
        assert len(kept) == versions.total() + len(oracle.waiting), (
            "rows are left in the state, or are missing"
        )
    assert enrichment.late_rows == oracle.late_rows


@st.composite
def in_any_order(draw: st.DrawFn) -> tuple[list[Lookup], list[Change], list[Batch]]:
    """All rows and changes, and an order of arrival in which no row is late."""
    delay = draw(st.sampled_from([0, 5, 30, 100]))
    lookups = [row for row in draw(rows) if row[0] is not None]
    # Of one key and time there is one order, as in a topic.
    known = list(
        {
            (key, since, order): (key, since, order, value) for key, since, order, value in draw(changes)
        }.values()
    )
    events = [(row, None) for row in lookups] + [(None, change) for change in known]
    arrival = [
        (event[1] + draw(st.integers(0, delay)), draw(st.integers(0, 9))) for event in map(_event, events)
    ]
    order = sorted(range(len(events)), key=lambda number: arrival[number])
    created, batch, newest, watermark = list[Batch](), (list[Lookup](), list[Change]()), -math.inf, -math.inf
    for number in order:
        row, change = events[number]
        if row is not None:
            batch[0].append(row)
        if change is not None:
            batch[1].append(change)
        newest = max(newest, _event(events[number])[1])
        if draw(st.booleans()):
            created.append((*batch, watermark))
            batch, watermark = ([], []), newest - delay
    return lookups, known, [*created, (*batch, watermark), ([], [], float(END_US))]


def _event(event: tuple[Lookup | None, Change | None]) -> Lookup | Change:
    row, change = event
    found = row if row is not None else change
    assert found is not None
    return found


@settings(max_examples=150)
@given(in_any_order(), st.none() | st.integers(1, 30), st.booleans(), st.booleans())
def test_as_of_event_time_does_not_depend_on_the_order_of_arrival(
    stream: tuple[list[Lookup], list[Change], list[Batch]],
    wait: int | None,
    drops_unmatched: bool,
    restarts: bool,
) -> None:
    lookups, known, batches = stream
    enrichment = Enrichment(EnrichRules(wait_us=wait, drops_unmatched=drops_unmatched))
    emitted: list[Enriched] = []
    for batch in batches:
        emitted += enrichment.work(*batch)
        if restarts:
            enrichment.restart()
    assert Counter(emitted) == Counter(as_of(lookups, known, drops_unmatched=drops_unmatched))
    assert enrichment.late_rows == 0


def with_late_changes(seed: int, keep: int) -> list[Batch]:
    """Rows and changes of a few keys, no later than `keep` after the watermark. Most of the changes are late.

    The numbers are drawn here, because hypothesis prefers examples that are in order.
    """
    drawn = random.Random(seed)
    events = [(drawn.choice("ab"), drawn.randint(0, 60), number) for number in range(drawn.randint(10, 40))]
    created, waiting = list[Batch](), sorted(events, key=lambda event: event[1] + drawn.uniform(0, keep))
    watermark, newest = -math.inf, -math.inf
    while waiting:
        size = drawn.randint(1, 4)
        batch, waiting = waiting[:size], waiting[size:]
        rows, changes = list[Lookup](), list[Change]()
        for key, time, number in batch:
            if drawn.random() < 0.7:
                rows.append((key, time, number))
            else:
                changes.append((key, time, number, number if drawn.random() < 0.8 else None))
        created.append((rows, changes, watermark))
        newest = max(newest, *(time for _, time, _ in batch))
        watermark = max(watermark, newest - drawn.choice([0, 0, 3]))
    return [*created, ([], [], watermark), ([], [], float(END_US))]


class CorrectedView:
    """The emitted rows less the retracted ones."""

    def __init__(self, enrichment: Enrichment) -> None:
        self._enrichment = enrichment
        self.rows: Counter[Enriched] = Counter()

    def work(self, batch: Batch) -> None:
        before = sum(self.rows.values())
        for row, op in self._enrichment.changes(*batch):
            self.rows[row] += 1 if op == "+" else -1
            assert self.rows[row] >= 0, "a row is retracted that was not emitted"
        assert sum(self.rows.values()) >= before or self._enrichment.step.rules.drops_unmatched
        self.rows = +self.rows


@settings(max_examples=100)
@given(st.integers(0, 2**32), st.sampled_from([5, 30, 100]), st.booleans(), st.booleans())
def test_with_corrections_the_view_is_the_bounded_answer_at_every_step(
    seed: int, keep: int, drops_unmatched: bool, restarts: bool
) -> None:
    enrichment = Enrichment(EnrichRules(keep_us=keep, drops_unmatched=drops_unmatched, corrects=True))
    view = CorrectedView(enrichment)
    rows, changes = list[Lookup](), list[Change]()
    for batch in with_late_changes(seed, keep):
        view.work(batch)
        rows += batch[0]
        changes += batch[1]
        passed = [row for row in rows if row[1] < batch[2]]
        assert view.rows == Counter(as_of(passed, changes, drops_unmatched=drops_unmatched))
        if restarts:
            enrichment.restart()
    assert enrichment.late_rows == 0
    kept = enrichment.table.all_rows()
    assert set(kept.column("kept").to_pylist()) <= {0}, "emitted rows are stored for no longer than keep"


@given(st.integers(0, 2**32), st.sampled_from([5, 100]), st.integers(1, 30), st.booleans())
def test_rows_that_waited_for_an_entry_are_corrected_too(
    seed: int, keep: int, wait: int, drops_unmatched: bool
) -> None:
    batches = with_late_changes(seed, keep)
    rules = EnrichRules(keep_us=keep, wait_us=wait, drops_unmatched=drops_unmatched, corrects=True)
    view = CorrectedView(Enrichment(rules))
    for batch in batches:
        view.work(batch)
    rows = [row for batch in batches for row in batch[0]]
    changes = [change for batch in batches for change in batch[1]]
    assert view.rows == Counter(as_of(rows, changes, drops_unmatched=drops_unmatched))


def test_a_late_change_corrects_only_the_rows_that_it_affects() -> None:
    enrichment = Enrichment(EnrichRules(keep_us=100, corrects=True))
    enrichment.work([("a", time, time) for time in (10, 20, 30)], [("a", 0, 0, 1), ("a", 25, 0, 3)], 0)
    assert len(enrichment.changes([("b", 20, 9)], [], 50)) == 4
    changes = enrichment.changes([], [("a", 15, 0, 2)], 50)
    assert changes == [(("a", 20, 20, 1), "-"), (("a", 20, 20, 2), "+")]
    assert enrichment.changes([], [("a", 15, 0, 2)], 50) == [], "the same change again"
    assert enrichment.changes([], [("a", 15, 1, None)], 50) == [
        (("a", 20, 20, 2), "-"),
        (("a", 20, 20, None), "+"),
    ]
    assert enrichment.changes([], [], 121) == []
    assert enrichment.changes([], [("a", 16, 0, 4)], 121) == [], "the row is not stored any more"


def test_a_waiting_row_is_emitted_when_its_entry_arrives() -> None:
    enrichment = Enrichment(EnrichRules(wait_us=100))
    assert enrichment.work([("a", 10, 1), ("b", 10, 2)], [], 0) == []
    assert enrichment.work([], [], 50) == [], "there is no entry, and it may still arrive"
    assert enrichment.work([], [("a", 9, 0, 7)], 50) == [("a", 10, 1, 7)]
    assert enrichment.work([], [("b", 11, 0, 8)], 110) == [], "that entry was not valid yet at the row's time"
    assert enrichment.work([], [], 111) == [("b", 10, 2, None)]


def test_a_delete_leaves_no_entry() -> None:
    enrichment = Enrichment(EnrichRules(is_latest=True))
    assert enrichment.work([("a", 5, 1)], [("a", 1, 0, 7)], 0) == [("a", 5, 1, 7)]
    assert enrichment.work([("a", 6, 2)], [("a", 6, 0, None)], 0) == [("a", 6, 2, None)]
    assert enrichment.table.all_rows().num_rows == 0


def test_a_lookup_writes_nothing() -> None:
    enrichment = Enrichment(EnrichRules(is_latest=True))
    enrichment.work([], [("a", 1, 0, 7)], 0)
    before = enrichment.table
    enrichment.work([("a", 5, 1), ("b", 5, 2)], [], 0)
    assert enrichment.table is before


def test_an_entry_that_no_longer_changes_has_one_version_in_the_state() -> None:
    enrichment = Enrichment(EnrichRules(keep_us=5))
    enrichment.work([], [("a", since, 0, since) for since in range(10)], 0)
    assert enrichment.table.all_rows().num_rows == 10
    enrichment.work([], [], 12)
    assert sorted(enrichment.table.all_rows().column("time").to_pylist()) == [7, 8, 9]
    enrichment.work([], [], 1_000)
    assert enrichment.table.all_rows().column("time").to_pylist() == [9]
