"""What queries are indexed by."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from headrace.operators.search.plan import Plan, matches_everything, plan_of
from headrace.operators.search.query import ANY, Term, Wildcard
from headrace.operators.search.vocabulary import Leaf
from tests.operators.search import naive
from tests.operators.search.naive import PARSER, Content, naive_match


def terms(text: str) -> frozenset[Leaf]:
    return frozenset(Term(ANY, word) for word in text.split())


@pytest.mark.parametrize(
    ("query", "plan"),
    [
        ("a", Plan(required=terms("a"), is_exact=True)),
        ("a^2 AND b", Plan(required=terms("a b"), is_exact=True)),
        ("a OR b", Plan(groups=(terms("a b"),), is_exact=True)),
        ("a AND (b OR c)", Plan(required=terms("a"), groups=(terms("b c"),), is_exact=True)),
        ("a AND NOT b", Plan(required=terms("a"), forbidden=terms("b"), is_exact=True)),
        ("a AND NOT (b AND c)", Plan(required=terms("a"))),
        ("+a b", Plan(required=terms("a"), is_exact=True)),
        ('"a b"', Plan(required=terms("a b"))),
        ("(a AND b) OR c", Plan(groups=(terms("a c"),))),
        ("a AND b*", Plan(required=terms("a"))),
        ("b*", Plan(required=frozenset([Wildcard(ANY, "b*")]), is_exact=True)),
        ("NOT a", Plan(forbidden=terms("a"), is_exact=True)),
        ("*:*", Plan(is_exact=True)),
        ("a OR *:*", Plan(is_exact=True)),
        ("price:5", Plan()),
        ("a OR price:5", Plan()),
        ("a AND price:5", Plan(required=terms("a"))),
    ],
)
def test_query_requires_these_terms(query: str, plan: Plan) -> None:
    assert plan_of(PARSER.parse(query)) == plan


def test_cheapest_alternatives_are_chosen() -> None:
    costs = {"a": 5, "b": 1, "c": 2, "d": 3}
    plan = plan_of(
        PARSER.parse("(a AND b) OR (c AND d)"), lambda leaf: costs[leaf.word] if isinstance(leaf, Term) else 0
    )
    assert plan.groups == (terms("b c"),)


@settings(max_examples=150)
@given(naive.queries, naive.documents)
def test_plan_never_excludes_a_hit_and_an_exact_one_includes_no_other(text: str, content: Content) -> None:
    tree = PARSER.parse(text)
    plan = plan_of(tree)
    is_candidate = (
        all(naive_match(leaf, content) for leaf in plan.required)
        and all(any(naive_match(leaf, content) for leaf in group) for group in plan.groups)
        and not any(naive_match(leaf, content) for leaf in plan.forbidden)
    )
    is_hit = naive_match(tree, content)
    assert is_candidate or not is_hit
    if plan.is_exact:
        assert is_candidate == is_hit
    if matches_everything(tree):
        assert is_hit


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("*:*", True),
        ("a OR *", True),
        ("* AND *:*", True),
        ("a AND *", False),
        ("* NOT a", False),
        ("NOT a", False),
    ],
)
def test_query_that_matches_everything_is_recognised(query: str, expected: bool) -> None:
    assert matches_everything(PARSER.parse(query)) is expected
