"""Lucene's monitor as a second opinion: the same hits for thousands of random queries."""

from __future__ import annotations

import random
from pathlib import Path

from headrace.operators.search.matcher import Matcher
from headrace.operators.search.query import (
    ANY,
    All,
    Bool,
    Field,
    Fuzzy,
    Kind,
    Node,
    Phrase,
    QueryParser,
    Range,
    Term,
    Wildcard,
    encode_query,
)
from headrace.testing.lucene_monitor import monitor
from headrace.testing.requirements import require_java

COLUMNS = ("title", "body")
FIELDS = tuple(Field(name, Kind.TEXT) for name in COLUMNS)
WORDS = (
    "tea",
    "teas",
    "toe",
    "ate",
    "eat",
    "green",
    "greens",
    "gren",
    "pot",
    "top",
    "stop",
    "stops",
    "x_1",
    "42",
)
PATTERNS = ("te*", "*ea", "t?a", "gre*s", "*e*e*", "?o*", "s*p?", "t*", "*")
QUERIES = 2_000
DOCUMENTS = 200


def random_query(choose: random.Random, depth: int = 0) -> str:
    def inner() -> str:
        return random_query(choose, depth + 1)

    field = choose.choice(["", "", "title:", "body:"])
    kinds = ["word", "word", "phrase", "wildcard", "fuzzy", "range"]
    kinds += ["and", "or", "signed", "and not", "not"] * 2 if depth < 3 else []
    match choose.choice(kinds):
        case "word":
            return field + choose.choice(WORDS)
        case "phrase":
            # Lucene places words that occur twice in a phrase in its own way.
            slop = choose.choice(["", "", "~1", "~2", "~4"])
            return f'{field}"{" ".join(choose.sample(WORDS, choose.choice([2, 3])))}"{slop}'
        case "wildcard":
            return field + choose.choice(PATTERNS)
        case "fuzzy":
            return f"{field}{choose.choice(WORDS[:12])}~{choose.choice([1, 2])}"
        case "range":
            low, high = sorted(choose.sample(["ate", "green", "pot", "top", "zz"], 2))
            return f"{field}{choose.choice('[{')}{choose.choice([low, '*'])} TO {high}{choose.choice(']}')}"
        case "and":
            return "(" + " AND ".join(inner() for _ in range(choose.choice([2, 3]))) + ")"
        case "or":
            return "(" + " OR ".join(inner() for _ in range(choose.choice([2, 3]))) + ")"
        case "signed":
            return "(" + " ".join(choose.choice(["", "+", "-"]) + inner() for _ in range(3)) + ")"
        case "and not":
            return f"({inner()} AND NOT {inner()})"
    return f"(NOT {inner()})"


def in_lucene(node: Node) -> str:
    """The query in Lucene's syntax, in which a list of clauses has no precedence to get wrong."""
    field = "" if isinstance(node, Bool | All) or node.field == ANY else f"{COLUMNS[node.field]}:"
    match node:
        case Term():
            return field + node.word
        case Wildcard():
            return field + node.pattern
        case Fuzzy():
            return f"{field}{node.word}~{node.edits}"
        case Phrase():
            return f'{field}"{" ".join(node.words)}"~{node.slop}'
        case Range():
            low, high = node.low or "*", node.high or "*"
            return f"{field}{'[' if node.with_low else '{'}{low} TO {high}{']' if node.with_high else '}'}"
        case All():
            return "*:*"
        case Bool():
            # In Lucene, a query of exclusions only matches nothing.
            must = node.must or (() if node.should else (All(),))
            parts = [f"+{in_lucene(each)}" for each in must]
            parts += map(in_lucene, node.should)
            parts += [f"-{in_lucene(each)}" for each in node.must_not]
            return f"({' '.join(parts)})"


def test_hits_are_those_of_lucenes_monitor(tmp_path: Path) -> None:
    require_java()
    choose = random.Random(20260301)
    parser = QueryParser(FIELDS)
    trees = [parser.parse(random_query(choose)) for _ in range(QUERIES)]
    texts = [
        tuple(
            " ".join(choose.choices([*WORDS, "Tea", "the", "a-b", "teapot,"], k=choose.randint(0, 8)))
            for _ in COLUMNS
        )
        for _ in range(DOCUMENTS)
    ]
    _, expected = monitor(list(map(in_lucene, trees)), texts, COLUMNS, tmp_path, batch=DOCUMENTS)
    matcher = Matcher(FIELDS)
    matcher.add(list(map(encode_query, trees)))
    hits = matcher.match(matcher.documents(texts))
    found: list[list[int]] = [[] for _ in texts]
    for document, query in zip(hits.documents.tolist(), hits.queries.tolist(), strict=True):
        found[document].append(query)
    different = [
        (texts[number], in_lucene(trees[query]))
        for number, (own, other) in enumerate(zip(found, expected, strict=True))
        for query in set(own) ^ set(other)
    ]
    assert different == []
    assert sum(map(len, found)) > QUERIES * 10
