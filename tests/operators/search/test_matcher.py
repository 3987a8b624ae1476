"""The index of stored queries: the same hits as a loop over all of them, always."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.operators.search import evaluate
from headrace.operators.search import matcher as matcher_module
from headrace.operators.search.document import Document
from headrace.operators.search.matcher import Matcher
from headrace.operators.search.query import Bool, Node, encode_query
from tests.operators.search import naive
from tests.operators.search.naive import FIELDS, PARSER, Content

REPOSITORY = Path(__file__).parents[3]


def stored(*texts: str) -> list[bytes]:
    return [encode_query(PARSER.parse(text)) for text in texts]


def hits(matcher: Matcher, *contents: Content) -> set[tuple[int, int]]:
    found = matcher.match(matcher.documents(contents))
    pairs = list(zip(found.documents.tolist(), found.queries.tolist(), strict=True))
    assert pairs == sorted(set(pairs)), "in order, and each hit once"
    return set(pairs)


def counted_evaluations(monkeypatch: pytest.MonkeyPatch) -> list[Node]:
    evaluated: list[Node] = []
    matches = evaluate.matches

    def counted(node: Node, document: Document) -> bool:
        evaluated.append(node)
        return matches(node, document)

    monkeypatch.setattr(evaluate, "matches", counted)
    return evaluated


@settings(max_examples=100)
@given(st.lists(naive.queries, max_size=12), st.lists(naive.documents, max_size=6))
def test_hits_are_those_of_a_loop_over_all_queries(texts: list[str], contents: list[Content]) -> None:
    matcher = Matcher(FIELDS)
    matcher.add(stored(*texts))
    expected = naive.naive_hits({number: PARSER.parse(text) for number, text in enumerate(texts)}, contents)
    assert hits(matcher, *contents) == expected


@settings(max_examples=30)
@given(st.data())
def test_hits_are_the_same_while_queries_are_added_and_removed(data: st.DataObject) -> None:
    matcher = Matcher(FIELDS)
    alive: dict[int, str] = {}
    for _ in range(data.draw(st.integers(1, 5))):
        texts = data.draw(st.lists(naive.queries, max_size=5))
        alive |= dict(zip(matcher.add(stored(*texts)).tolist(), texts, strict=True))
        removed = data.draw(st.lists(st.sampled_from(sorted(alive)), unique=True)) if alive else []
        matcher.remove(np.array(removed, dtype=np.int64))
        for number in removed:
            del alive[number]
        contents = data.draw(st.lists(naive.documents, max_size=4))
        expected = naive.naive_hits({number: PARSER.parse(text) for number, text in alive.items()}, contents)
        assert hits(matcher, *contents) == expected
        assert matcher.alive == len(alive)


@pytest.mark.parametrize(
    ("recent_min", "statistics", "cells"), [(0, 1, 1), (3, 2, 40), (2_000, 1_000, 10**6)]
)
def test_hits_do_not_depend_on_sizes_and_statistics(
    monkeypatch: pytest.MonkeyPatch, recent_min: int, statistics: int, cells: int
) -> None:
    monkeypatch.setattr(matcher_module, "RECENT_MIN", recent_min)
    monkeypatch.setattr(matcher_module, "FIRST_STATISTICS", statistics)
    monkeypatch.setattr(matcher_module, "CHUNK_CELLS_MAX", cells)
    matcher = Matcher(FIELDS)
    texts = ["tea AND green", "tea", '"green tea"', "tea -pot", "te* AND pot", "stop OR green", "price:>3"]
    contents: list[Content] = [("green tea", "pot", None, 5), (None, "tea stops", "en", None)] * 3
    for text in texts:
        matcher.add(stored(text))
        hits(matcher, *contents)
    expected = naive.naive_hits({number: PARSER.parse(text) for number, text in enumerate(texts)}, contents)
    assert hits(matcher, *contents) == expected
    assert expected


def test_query_is_looked_at_only_if_its_rarest_required_term_is_in_the_document(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    matcher = Matcher(FIELDS)
    matcher.add(stored(*[f'"green tea" AND w{number}' for number in range(1_000)]))
    evaluated = counted_evaluations(monkeypatch)
    found = hits(matcher, ("green tea w7", "w8", None, None), ("tea w9 green", None, None, None))
    assert found == {(0, 7), (0, 8)}
    assert len([each for each in evaluated if isinstance(each, Bool)]) == 3, "those of w7, w8 and w9"


def test_conjunctions_alternatives_and_exclusions_of_terms_are_not_evaluated_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    matcher = Matcher(FIELDS)
    matcher.add(
        stored("tea AND green", "tea OR pot", "tea AND (green OR pot) AND NOT stop", "NOT tea", "*:*")
    )
    evaluated = counted_evaluations(monkeypatch)
    assert hits(matcher, ("green tea", "stop", None, None), ("pot", None, None, None)) == {
        (0, 0),
        (0, 1),
        (0, 4),
        (1, 1),
        (1, 3),
        (1, 4),
    }
    assert not evaluated


def test_terms_are_chosen_again_when_documents_show_which_are_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matcher_module, "FIRST_STATISTICS", 10)
    matcher = Matcher(FIELDS)
    matcher.add(stored("tea", '"tea green"', '"tea green"', '"tea pot"', "pot AND pot"))
    common: Content = ("green pot", None, None, None)
    for _ in range(20):
        hits(matcher, common)
    evaluated = counted_evaluations(monkeypatch)
    hits(matcher, common)
    assert not evaluated, "phrases are listed under tea, which is in no document"


def test_queries_without_a_required_term_are_candidates_for_every_document() -> None:
    matcher = Matcher(FIELDS)
    matcher.add(stored("tea", "price:[1 TO 2]", "NOT tea", "*:*", "tea OR price:1", "te*"))
    assert matcher.for_every_document == 4


def test_query_applies_from_its_time_until_its_end() -> None:
    matcher = Matcher(FIELDS)
    numbers = matcher.add(stored("tea", "tea"), since_us=np.array([0, 10]), until_us=np.array([10, 2**62]))
    documents = matcher.documents([("tea", None, None, None)] * 4)
    found = matcher.match(documents, times_us=np.array([-1, 0, 9, 10]))
    assert list(zip(found.documents.tolist(), found.queries.tolist(), strict=True)) == [
        (1, 0),
        (2, 0),
        (3, 1),
    ]
    matcher.end(numbers[1:], np.array([10]))
    assert len(matcher.match(documents, times_us=np.array([10, 11, 12, 13]))) == 0


def test_filters_compare_values_before_anything_is_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    matcher = Matcher(FIELDS, filters=2)
    matcher.add(
        stored('"green tea"', '"green tea"', "*:*"), filters=[["acme", None, "other"], ["en", "de", None]]
    )
    evaluated = counted_evaluations(monkeypatch)
    documents = matcher.documents([("green tea", None, None, None)] * 4)
    found = matcher.match(documents, filters=[["acme", "acme", None, "other"], ["en", "de", "fr", None]])
    assert list(zip(found.documents.tolist(), found.queries.tolist(), strict=True)) == [
        (0, 0),
        (1, 1),
        (3, 2),
    ]
    assert len(evaluated) == 2


def test_document_of_ten_megabytes_is_matched() -> None:
    matcher = Matcher(FIELDS)
    matcher.add(stored('"needle in"~2', "need*", "hay AND needles~1", "*aaa*b", "straw"))
    hay = "hay " * 2_500_000 + "needle in the " + "a" * 100_000
    assert hits(matcher, ("long", hay, None, None)) == {(0, 0), (0, 1), (0, 2)}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("language:*", {0, 1}),
        ('language:""', {0}),
        ("language:?*", {1}),
        ("language:e*", {1}),
        ("language:*e?", {1}),
        ("language:en~2", {0, 1}),
    ],
)
def test_empty_value_of_a_column_is_a_value(query: str, expected: set[int]) -> None:
    matcher = Matcher(FIELDS)
    matcher.add(stored(query))
    languages = ("", "en", None)
    assert {document for document, _ in hits(matcher, *((None, None, each, None) for each in languages))} == (
        expected
    )


def test_no_documents_and_no_queries_are_no_hits() -> None:
    matcher = Matcher(FIELDS)
    assert hits(matcher) == set()
    assert hits(matcher, ("tea", None, None, None)) == set()
    matcher.add(stored("tea"))
    matcher.clear()
    assert hits(matcher, ("tea", None, None, None)) == set()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_million_queries_take_less_than_a_gigabyte() -> None:
    program = [sys.executable, "-m", "benchmarks.search.programs.memory", '{"queries": 1000000}']
    done = subprocess.run(program, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["queries"] == 1_000_000
    assert figures["megabytes"] < 1_000
