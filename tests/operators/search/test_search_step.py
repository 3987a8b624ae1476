"""The step of a search: hits as of the time of the document, in any order of arrival, batches and workers."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from headrace.operators.search import stored_queries
from headrace.operators.search.query import BadQuery, QueryParser
from headrace.operators.search.search_queries import QueryLift
from headrace.operators.search.search_step import SearchRules, SearchStep, Side
from headrace.operators.state.step import BEGINNING_US, END_US, StepResult, StepTime, advance
from headrace.operators.state.table import StateTable, ints_of
from tests.operators.search import naive
from tests.operators.search.naive import FIELDS, PARSER, Content

HOUR_US = 3_600_000_000
COLUMNS = [
    pa.field("number", pa.int64()),
    *(pa.field(name, pa.string()) for name in ("title", "body", "language")),
]
COLUMNS += [pa.field("price", pa.int64())]


class Doc(Struct, frozen=True):
    number: int
    time: int
    content: Content


class Change(Struct, frozen=True):
    key: str
    time: int
    seq: int
    text: str | None
    """None deletes the query."""
    tenant: str | None = None
    hits_max: int | None = None


Item = Doc | Change


class Shards:
    """All shards of a search, as a stream runs them: the state of each is a table that the next batch gets."""

    def __init__(self, *, with_filter: bool = False, **rules: Any) -> None:
        self.rules = SearchRules(**{"fragments": 0, "with_score": False, "shards": 2} | rules)
        self.step = SearchStep(
            rules=self.rules,
            owner=uuid.uuid4().hex,
            fields=FIELDS,
            sources=["l1", "l2", "l3", "l4"],
            columns=COLUMNS,
            query_columns=[pa.field("key", pa.string())],
            filters=[("l3", pa.string())] if with_filter else [],
        )
        self.lift = QueryLift(
            self.step.input_schema,
            QueryParser(FIELDS),
            buckets=range(self.rules.shards),
            is_everything_rejected=False,
        )
        self.tables = [StateTable(self.step.state_schema) for _ in range(self.rules.shards)]
        self.watermark_us = BEGINNING_US

    def run(self, items: Iterable[Item], watermark_us: int | None = None) -> list[StepResult]:
        """One batch, after which the watermark advances, and the timers of the next batch fire."""
        results = self._steps(self._input(list(items)), self.watermark_us)
        if watermark_us is not None:
            results += self._steps(self.step.input_schema.empty_table(), watermark_us)
            self.watermark_us = watermark_us
        return results

    def _steps(self, rows: pa.Table, watermark_us: int) -> list[StepResult]:
        time = StepTime(late_us=self.watermark_us, watermark_us=watermark_us, now_us=0)
        results = []
        for shard in range(self.rules.shards):
            own = rows.filter(pa.array(ints_of(rows, "shard") == shard))
            advanced = advance(self.step, self.tables[shard], own, time)
            self.tables[shard] = advanced.table
            results.append(advanced.result)
        return results

    def _input(self, items: Sequence[Item]) -> pa.Table:
        rows = [_document(each) if isinstance(each, Doc) else _change(each) for each in items]
        kinds = {each.name: each.type for each in self.step.input_schema} | {"query": pa.string()}
        raw = pa.table(
            {
                name: pa.array([row.get(name) for row in rows], kind)
                for name, kind in kinds.items()
                if name not in ("program", "reason")
            }
        )
        together, shards = self.lift(raw)
        assert (shards == ints_of(together, "shard")).all()
        return together


def _document(each: Doc) -> dict[str, Any]:
    row = {"h1": each.number * 7919 % 101, "h2": each.number, "time": each.time, "seq": 0, "shard": 0}
    row |= {"side": Side.DOCUMENT, "deleted": False, "l0": each.number}
    return row | {f"l{number}": text for number, text in enumerate(each.content, start=1)}


def _change(each: Change) -> dict[str, Any]:
    number = ord(each.key[-1]) << 20
    row: dict[str, Any] = {
        "h1": number,
        "h2": number + 1,
        "time": each.time,
        "seq": each.seq,
        "shard": ord(each.key[-1]) % 2,
    }
    row |= {"side": Side.CHANGE, "deleted": each.text is None, "r0": each.key, "query": each.text}
    return row | {"q0": each.tenant, "hits_max": each.hits_max, "original": f'{{"row": "{each.key}"}}'}


def hits(results: Iterable[StepResult]) -> list[tuple[int, str]]:
    rows = [row for each in results for row in each.output.to_pylist()]
    return sorted((row["number"], row["key"]) for row in rows)


def parsed(text: str) -> Any:
    try:
        return PARSER.parse(text)
    except BadQuery:
        return None


def expected_hits(items: Iterable[Item]) -> list[tuple[int, str]]:
    """By definition: each document meets the last change of each query up to its time."""
    items = list(items)
    changes = sorted(
        (each for each in items if isinstance(each, Change)), key=lambda each: (each.time, each.seq)
    )
    found = []
    for document in (each for each in items if isinstance(each, Doc)):
        valid = {each.key: each.text for each in changes if each.time <= document.time}
        for key, text in valid.items():
            tree = None if text is None else parsed(text)
            if tree is not None and naive.naive_match(tree, document.content):
                found.append((document.number, key))
    return sorted(found)


_times = st.integers(0, 20)
_texts = st.one_of(st.none(), st.just("(bad"), naive.queries)


@st.composite
def histories(draw: st.DrawFn) -> list[list[Item]]:
    documents = [
        Doc(number, time, content)
        for number, (time, content) in enumerate(
            draw(st.lists(st.tuples(_times, naive.documents), min_size=1, max_size=8))
        )
    ]
    changes = [
        Change(key, time, seq, text)
        for seq, (key, time, text) in enumerate(
            draw(st.lists(st.tuples(st.sampled_from("abc"), _times, _texts), min_size=1, max_size=10))
        )
    ]
    together: list[Item] = [*documents, *changes]
    items = draw(st.permutations(together))
    cuts = sorted(draw(st.lists(st.integers(0, len(items)), max_size=4)))
    return [list(items[start:end]) for start, end in zip([0, *cuts], [*cuts, len(items)], strict=True)]


def smallest_time(batches: Iterable[Iterable[Item]]) -> int:
    return min((each.time for batch in batches for each in batch), default=END_US)


@settings(max_examples=80)
@given(histories(), st.data())
def test_document_meets_the_queries_of_its_time_in_any_order_of_arrival(
    batches: list[list[Item]], data: st.DataObject
) -> None:
    shards = Shards()
    found = []
    for number, batch in enumerate(batches):
        if data.draw(st.booleans(), label="another worker"):
            stored_queries._of_this_process.clear()
        watermark_us = max(smallest_time(batches[number + 1 :]), shards.watermark_us)
        if data.draw(st.booleans(), label="the batch fails and runs again"):
            before, before_us = list(shards.tables), shards.watermark_us
            shards.run(batch, watermark_us)
            shards.tables, shards.watermark_us = before, before_us
        found += hits(shards.run(batch, watermark_us))
    assert sorted(found) == expected_hits(each for batch in batches for each in batch)


@settings(max_examples=30)
@given(histories())
def test_bounded_rows_have_the_same_hits(batches: list[list[Item]]) -> None:
    items = [each for batch in batches for each in batch]
    assert hits(Shards().run(items, END_US)) == expected_hits(items)


@settings(max_examples=30)
@given(histories())
def test_latest_queries_are_those_that_have_arrived(batches: list[list[Item]]) -> None:
    shards = Shards(is_latest=True)
    stored: list[Change] = []
    for batch in batches:
        arrived = [*stored, *(each for each in batch if isinstance(each, Change))]
        newest = [
            max((each for each in arrived if each.key == key), key=lambda each: (each.time, each.seq))
            for key in {each.key for each in arrived}
        ]
        # A deletion is not stored: an older change that arrives after it applies.
        stored = [each for each in newest if each.text is not None and parsed(each.text) is not None]
        documents = [each for each in batch if isinstance(each, Doc)]
        now = [Change(each.key, 0, 0, each.text) for each in newest]
        assert hits(shards.run(batch)) == expected_hits([*documents, *now])
        stored_queries._of_this_process.clear()


def tea(number: int, time: int, language: str | None = None) -> Doc:
    return Doc(number, time, ("tea", None, language, None))


def test_state_is_empty_again_when_all_queries_are_deleted() -> None:
    shards = Shards(per_us=HOUR_US)
    shards.run([Change("a", 0, 0, "tea", hits_max=1), tea(1, 1), Change("a", 5, 1, None)], 3)
    kept = [table.all_rows() for table in shards.tables]
    assert sum(rows.num_rows for rows in kept) > 1
    shards.run([], 10)
    rest = [row["token"] for table in shards.tables for row in table.all_rows().to_pylist()]
    assert len(rest) == 1, "only the token is left"
    assert rest[0]


def test_late_document_is_dropped_and_counted_once() -> None:
    shards = Shards()
    shards.run([Change("a", 0, 0, "tea")], 10)
    results = shards.run([tea(1, 9), tea(2, 10)], 20)
    assert hits(results) == [(2, "a")]
    assert sum(each.late_rows for each in results) == 1


def test_bad_query_is_reported_once_and_replaces_the_one_before() -> None:
    shards = Shards()
    shards.run([Change("a", 0, 0, "tea"), Change("b", 0, 0, "tea")])
    results = shards.run([Change("a", 5, 1, "tea AND ("), tea(1, 4), tea(2, 6)], 10)
    assert hits(results) == [(1, "a"), (1, "b"), (2, "b")]
    (letters,) = [each.late.to_pylist() for each in results if each.late is not None]
    assert len(letters) == 1
    assert letters[0]["original"] == '{"row": "a"}'
    assert letters[0]["reason"] == (
        "bad query 'a': position 9: unexpected end of the query (is a parenthesis, a bound or an operand missing?): "
        "tea AND ("
    )


def test_filter_must_be_equal_unless_the_query_has_none() -> None:
    shards = Shards(with_filter=True)
    queries = [
        Change("a", 0, 0, "tea", tenant="en"),
        Change("b", 0, 0, "tea"),
        Change("c", 0, 0, "tea", tenant="de"),
    ]
    documents = [tea(1, 1, "en"), tea(2, 1, "de"), tea(3, 1)]
    assert hits(shards.run([*queries, *documents], 5)) == [(1, "a"), (1, "b"), (2, "b"), (2, "c"), (3, "b")]


@pytest.mark.parametrize("is_split", [False, True])
def test_limit_passes_the_first_hits_of_a_window_and_counts_the_others(is_split: bool) -> None:
    shards = Shards(per_us=HOUR_US)
    query = [Change("a", 0, 0, "tea", hits_max=2), Change("b", 0, 0, "tea")]
    documents: list[Item] = [tea(number, number * HOUR_US // 4) for number in (6, 1, 2, 0, 3, 5, 4)]
    if is_split:
        results = shards.run([*query, *documents[:5]], HOUR_US // 2)
        stored_queries._of_this_process.clear()
        results += shards.run([documents[5]], 5 * HOUR_US // 4)
        results += shards.run([documents[6]], 9 * HOUR_US)
        documents.remove(documents[6])  # behind the watermark
    else:
        documents = [each for each in documents if isinstance(each, Doc) and each.number != 4]
        results = shards.run([*query, *documents], 9 * HOUR_US)
    rows = [row for each in results for row in each.output.to_pylist()]
    limited = sorted((row["number"], row["suppressed"]) for row in rows if row["key"] == "a")
    assert limited == [(0, 0), (1, 0), (5, 2), (6, 0)]
    assert sum(row["key"] == "b" for row in rows) == len(documents)


def test_worn_matcher_is_built_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_queries, "DEAD_MIN", 3)
    shards = Shards(is_latest=True)
    for number in range(20):
        assert hits(shards.run([Change("a", number, number, "tea"), tea(number, 0)])) == [(number, "a")]
    cached = [stored_queries._of_this_process[shards.step.owner, shard] for shard in range(2)]
    assert all(len(each.matcher) <= 6 for each in cached)


def test_scores_and_highlights_are_those_of_the_matching_version() -> None:
    shards = Shards(with_score=True, fragments=1, mark=("<", ">"))
    items: list[Item] = [
        Change("a", 0, 0, "tea"),
        Change("a", 5, 1, "green^2"),
        Doc(1, 9, ("tea", "green tea", None, None)),
    ]
    (row,) = [row for each in shards.run(items, 20) for row in each.output.to_pylist()]
    assert row["score"] == pytest.approx(2 / 2.2)
    assert row["highlights"] == [{"column": "body", "text": "<green> tea"}]


def test_numbers_of_a_batch_do_not_change_the_result() -> None:
    items: list[Item] = [Change(key, 0, 0, "tea OR pot") for key in "abcdefgh"]
    items += [tea(number, number) for number in range(50)]
    together = hits(Shards().run(items, END_US))
    assert len(together) == 8 * 50
    order = np.random.default_rng(5).permutation(len(items))
    assert hits(Shards().run([items[number] for number in order], END_US)) == together


def lifted(query: str | None, key: str | None = "a", **settings: bool) -> list[dict[str, Any]]:
    own = Shards()
    settings = {"is_everything_rejected": False} | settings
    own.lift = QueryLift(own.step.input_schema, QueryParser(FIELDS), buckets=[5, 3], **settings)
    row = {
        "h1": 1,
        "h2": 2,
        "time": 0,
        "seq": 0,
        "shard": 1,
        "side": Side.CHANGE,
        "deleted": False,
        "r0": key,
    }
    names = [*own.step.input_schema.names, "query"]
    kinds = {each.name: each.type for each in own.step.input_schema} | {"query": pa.string()}
    given = row | {"query": query}
    table, buckets = own.lift(pa.table({name: pa.array([given.get(name)], kinds[name]) for name in names}))
    assert buckets.tolist() == [3]
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def test_query_that_matches_everything_is_accepted_with_a_warning_or_rejected(
    caplog: pytest.LogCaptureFixture,
) -> None:
    (accepted,) = lifted("tea OR *:*")
    assert (accepted["side"], accepted["reason"]) == (Side.CHANGE, None)
    assert accepted["program"]
    assert caplog.messages == ["query 'a' matches every document: tea OR *:*"]
    (rejected,) = lifted("*:*", is_everything_rejected=True)
    assert (rejected["side"], rejected["deleted"], rejected["program"]) == (Side.REJECTED, True, None)
    assert rejected["reason"] == "bad query 'a': position 0: it matches every document: *:*"


@pytest.mark.parametrize(
    ("query", "key", "reason"),
    [
        ("tea", None, "bad query: it has no key"),
        (None, "a", "bad query 'a': it has no query string"),
        (
            "titel:tea",
            "a",
            "bad query 'a': position 0: field 'titel' is unknown (did you mean 'title'?): titel:tea",
        ),
    ],
)
def test_bad_query_has_a_reason_that_may_be_logged(
    query: str | None, key: str | None, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert [row["reason"] for row in lifted(query, key)] == [reason]
    assert caplog.messages == []
    lifted(query, key, logs_rejected=True)
    assert caplog.messages == [reason]


def test_query_without_a_key_is_reported_and_not_stored() -> None:
    shards = Shards()
    change = _change(Change("a", 0, 0, "tea")) | {"r0": None}
    kinds = {each.name: each.type for each in shards.step.input_schema} | {"query": pa.string()}
    rows, _ = shards.lift(
        pa.table({name: pa.array([change.get(name)], kind) for name, kind in kinds.items()})
    )
    results = shards._steps(rows, 10)
    assert [row["reason"] for each in results if each.late for row in each.late.to_pylist()] == [
        "bad query: it has no key"
    ]
    assert all(len(table.runs) == 0 for table in shards.tables)
