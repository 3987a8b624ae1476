"""Which terms a document must contain, for a query to match: what queries are indexed by.

A query matches only documents that contain all of `required`, at least one term of each of `groups`, and none of
`forbidden`. If the plan is exact, it also matches every such document, and needs no evaluation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from headrace.operators.search.query import All, Bool, Fuzzy, Node, Phrase, Range, Term, Wildcard
from headrace.operators.search.vocabulary import Leaf

Cost = Callable[[Leaf], float]
"""How many documents a term lets through, in any unit."""

Groups = list[frozenset[Leaf]]
"""A document must contain a term of each group."""


class Plan(Struct, frozen=True, kw_only=True):
    required: frozenset[Leaf] = frozenset()
    groups: tuple[frozenset[Leaf], ...] = ()
    """Of each, a document must contain at least one term. The first is the one that lets fewest documents through."""
    forbidden: frozenset[Leaf] = frozenset()
    is_exact: bool = False


def plan_of(node: Node, cost: Cost = lambda leaf: 0) -> Plan:
    forbidden: frozenset[Leaf] = frozenset()
    if isinstance(node, Bool) and all(isinstance(each, Term) for each in node.must_not):
        forbidden = frozenset(_bare(each) for each in node.must_not if isinstance(each, Term))
        node = Bool(must=node.must, should=node.should)
    groups, is_exact = _groups(node, cost)
    plain = [group for group in groups if all(isinstance(leaf, Term) for leaf in group)]
    if 0 < len(plain) < len(groups):
        # Evaluating patterns for a few candidates costs less than looking for them in all documents.
        groups, is_exact = plain, False
    return Plan(
        required=frozenset(leaf for group in groups if len(group) == 1 for leaf in group),
        groups=tuple(
            sorted((group for group in groups if len(group) > 1), key=lambda group: _order(group, cost))
        ),
        forbidden=forbidden,
        is_exact=is_exact,
    )


def matches_everything(node: Node) -> bool:
    """Whether it is certain from the query alone that it matches every document."""
    match node:
        case All():
            return True
        case Bool(must=must, should=should, must_not=()):
            return all(map(matches_everything, must)) if must else any(map(matches_everything, should))
    return False


def _groups(node: Node, cost: Cost) -> tuple[Groups, bool]:
    """The groups, and whether a document with a term of each is sure to match."""
    match node:
        case Term() | Wildcard() | Fuzzy():
            return [frozenset([_bare(node)])], True
        case Phrase():
            return [frozenset([Term(node.field, word)]) for word in node.words], False
        case All():
            return [], True
        case Range():
            return [], False
        case Bool():
            groups, is_exact = _all(node.must, cost) if node.must else _one(node.should, cost)
            return groups, is_exact and not node.must_not


def _all(nodes: Iterable[Node], cost: Cost) -> tuple[Groups, bool]:
    parts = [_groups(each, cost) for each in nodes]
    return [group for groups, _ in parts for group in groups], all(is_exact for _, is_exact in parts)


def _one(nodes: Iterable[Node], cost: Cost) -> tuple[Groups, bool]:
    parts = [_groups(each, cost) for each in nodes]
    if not all(groups for groups, _ in parts):
        is_exact = not parts or any(is_exact and not groups for groups, is_exact in parts)
        return [], is_exact
    if not parts:
        return [], True
    united = frozenset[Leaf]().union(*(_cheapest(groups, cost) for groups, _ in parts))
    return [united], all(is_exact and len(groups) == 1 for groups, is_exact in parts)


def _cheapest(groups: Groups, cost: Cost) -> frozenset[Leaf]:
    return min(groups, key=lambda group: _order(group, cost))


def _order(group: frozenset[Leaf], cost: Cost) -> tuple[bool, float, list[str]]:
    """Plain terms first, because patterns are looked up for every word of a document."""
    has_pattern = not all(isinstance(leaf, Term) for leaf in group)
    return has_pattern, sum(map(cost, group)), sorted(map(repr, group))


def _bare(leaf: Leaf) -> Leaf:
    """The term without its boost, which plays no part in matching."""
    match leaf:
        case Term():
            return Term(leaf.field, leaf.word)
        case Wildcard():
            return Wildcard(leaf.field, leaf.pattern)
        case Fuzzy():
            return Fuzzy(leaf.field, leaf.word, leaf.edits)
