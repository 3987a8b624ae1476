"""Stored rows that were emitted: how they are found, and what is written. `test_enrich_step.py` has the properties."""

from __future__ import annotations

import pyarrow as pa

from headrace.operators.joins.corrections import emitted_ids, emitted_rows
from headrace.operators.joins.enrich_step import EnrichRules, Kept
from headrace.operators.state.table import ids_in
from tests.operators.joins.oracles import Lookup
from tests.operators.joins.test_enrich_step import Enrichment, table_of

RULES = EnrichRules(keep_us=100, corrects=True)
ROWS: list[Lookup] = [("a", 10, 1), ("a", 10, 2), ("a", 20, 3), ("b", 10, 4)]


def emitted() -> Enrichment:
    enrichment = Enrichment(RULES)
    enrichment.work(ROWS, [("a", 0, 0, 7)], 50)
    return enrichment


def numbers(rows: pa.Table) -> list[int]:
    return sorted(rows.column("l1").to_pylist())


def test_the_rows_of_a_key_are_found_whatever_their_time() -> None:
    table = emitted().table
    for key, expected in (("a", [1, 2, 3]), ("b", [4]), ("c", [])):
        assert numbers(emitted_rows(table, table_of([], [(key, 30, 0, 1)]))) == expected


def test_the_ids_of_a_key_have_the_same_real_part() -> None:
    ids = emitted_ids(table_of(ROWS, []))
    assert len(set(ids)) == 3, "one for each key and time"
    assert len(set(ids.real)) == 2


def test_a_correction_writes_only_the_rows_that_change() -> None:
    enrichment = emitted()
    before = enrichment.table
    assert len(enrichment.changes([], [("a", 15, 0, 8)], 50)) == 2
    written = next(run for run in enrichment.table.runs if run not in before.runs)
    kinds = [kind for kind in written.rows.column("kept").to_pylist() if kind == Kept.EMITTED]
    assert len(kinds) == 1


def test_an_entry_that_arrives_again_corrects_nothing() -> None:
    enrichment = emitted()
    assert enrichment.changes([], [("a", 0, 1, 7), ("a", 5, 0, 7)], 50) == []
    assert len(enrichment.changes([], [("a", 0, 2, 8)], 50)) == 0, "another entry is valid since"
    assert len(enrichment.changes([], [("a", 5, 1, 8)], 50)) == 2 * 3


def test_rows_of_one_key_and_time_are_stored_together() -> None:
    enrichment = emitted()
    assert len(enrichment.changes([("a", 10, 5)], [], 50)) == 1
    stored = emitted_rows(enrichment.table, table_of([], [("a", 0, 0, 7)]))
    assert numbers(stored) == [1, 2, 3, 5]
    assert len(set(ids_in(stored))) == 2
    assert len(enrichment.changes([], [("a", 5, 0, 8)], 50)) == 2 * 4
    assert len(enrichment.changes([], [], 111)) == 0
    assert numbers(emitted_rows(enrichment.table, table_of([], [("a", 0, 0, 7)]))) == [3]
