"""The step of enrichment beside an oracle: any rows and changes, any order, any split, state read back in between."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.operators.joins.enrich import SideLift
from headrace.operators.joins.enrich_step import EnrichRules, EnrichStep, Side
from headrace.operators.state.run import Run
from headrace.operators.state.step import BEGINNING_US, END_US, StepTime, advance
from headrace.operators.state.table import StateTable
from tests.operators.joins.oracles import Answer, Asked, Change, EnrichOracle, as_of

KEYS = [pa.field("key", pa.string())]
COLUMNS = [pa.field("time", pa.int64()), pa.field("number", pa.int64())]
TABLE_COLUMNS = [pa.field("value", pa.int64())]

Batch = tuple[list[Asked], list[Change], float]

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
    watermark, made = -math.inf, list[Batch]()
    for _ in range(draw(st.integers(1, 6))):
        step = draw(st.none() | st.integers(0, 25))
        if step is not None:
            watermark = max(watermark, 0) + step
        made.append((draw(rows), draw(changes), watermark))
    return [*made, ([], [], float(END_US))]


class Enrichment:
    """The step under test, with a bucket that may forget everything but its bytes."""

    def __init__(self, rules: EnrichRules) -> None:
        self.step = EnrichStep(rules=rules, keys=KEYS, columns=COLUMNS, table_columns=TABLE_COLUMNS)
        self.lift = SideLift(self.step.input_schema)
        self.table = StateTable(self.step.state_schema)
        self.late_rows = 0

    def work(self, rows: Sequence[Asked], changes: Sequence[Change], watermark: float) -> list[Answer]:
        time = StepTime(watermark_us=BEGINNING_US if watermark < 0 else int(watermark), now_us=0)
        incoming, _ = self.lift(table_of(rows, changes))
        advanced = advance(self.step, self.table, incoming, time)
        self.table = advanced.table
        self.late_rows += advanced.late_rows
        return [(row["key"], row["time"], row["number"], row["value"]) for row in advanced.output.to_pylist()]

    def restart(self) -> None:
        runs = [Run.decode(run.encode(), name=run.name) for run in self.table.runs]
        self.table = StateTable(self.step.state_schema, runs)


def table_of(rows: Sequence[Asked], changes: Sequence[Change]) -> pa.Table:
    """As Spark hands rows over. Any hash does that tells the keys apart."""
    every = [
        *(
            (key, time, 0, Side.UNANSWERABLE if key is None else Side.ROW, number, None)
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
        assert len(kept) == versions.total() + len(oracle.waiting), "rows stay behind, or are missing"
    assert enrichment.late_rows == oracle.late_rows


@st.composite
def in_any_order(draw: st.DrawFn) -> tuple[list[Asked], list[Change], list[Batch]]:
    """All rows and changes, and a way for them to arrive in which none is further back than the watermark allows."""
    delay = draw(st.sampled_from([0, 5, 30, 100]))
    asked = [row for row in draw(rows) if row[0] is not None]
    # Of one key and time there is one order, as in a topic.
    known = list(
        {
            (key, since, order): (key, since, order, value) for key, since, order, value in draw(changes)
        }.values()
    )
    events = [(row, None) for row in asked] + [(None, change) for change in known]
    arrival = [
        (event[1] + draw(st.integers(0, delay)), draw(st.integers(0, 9))) for event in map(_event, events)
    ]
    order = sorted(range(len(events)), key=lambda number: arrival[number])
    made, batch, newest, watermark = list[Batch](), (list[Asked](), list[Change]()), -math.inf, -math.inf
    for number in order:
        row, change = events[number]
        if row is not None:
            batch[0].append(row)
        if change is not None:
            batch[1].append(change)
        newest = max(newest, _event(events[number])[1])
        if draw(st.booleans()):
            made.append((*batch, watermark))
            batch, watermark = ([], []), newest - delay
    return asked, known, [*made, (*batch, watermark), ([], [], float(END_US))]


def _event(event: tuple[Asked | None, Change | None]) -> Asked | Change:
    row, change = event
    found = row if row is not None else change
    assert found is not None
    return found


@settings(max_examples=150)
@given(in_any_order(), st.none() | st.integers(1, 30), st.booleans(), st.booleans())
def test_as_of_event_time_does_not_depend_on_the_order_of_arrival(
    stream: tuple[list[Asked], list[Change], list[Batch]],
    wait: int | None,
    drops_unmatched: bool,
    restarts: bool,
) -> None:
    asked, known, batches = stream
    enrichment = Enrichment(EnrichRules(wait_us=wait, drops_unmatched=drops_unmatched))
    said: list[Answer] = []
    for batch in batches:
        said += enrichment.work(*batch)
        if restarts:
            enrichment.restart()
    assert Counter(said) == Counter(as_of(asked, known, drops_unmatched=drops_unmatched))
    assert enrichment.late_rows == 0


def test_a_waiting_row_is_emitted_when_its_entry_arrives() -> None:
    enrichment = Enrichment(EnrichRules(wait_us=100))
    assert enrichment.work([("a", 10, 1), ("b", 10, 2)], [], 0) == []
    assert enrichment.work([], [], 50) == [], "there is no entry, and it may still arrive"
    assert enrichment.work([], [("a", 9, 0, 7)], 50) == [("a", 10, 1, 7)]
    assert enrichment.work([], [("b", 11, 0, 8)], 110) == [], "that entry was not there yet at the row's time"
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
