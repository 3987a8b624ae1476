"""A pattern as an automaton: positions, their preference, and bounds."""

from __future__ import annotations

import pytest

from headrace.operators.patterns import syntax as of
from headrace.operators.patterns.automaton import ACCEPT, Automaton, Program, TooLarge
from headrace.operators.patterns.parsing import parse


def automaton(text: str) -> Automaton:
    pattern = parse(f"PATTERN ({text})").pattern
    return Automaton(pattern, {name: number for number, name in enumerate(of.variables_of(pattern))})


def preference(text: str) -> str:
    """The variables that may come first, the most preferred first; . for the end of the match."""
    found = automaton(text)
    return "".join("." if each == ACCEPT else "ABC"[found.variable[each]] for each in found.first[False])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A | B", "AB"),
        ("A? B", "AB"),
        ("A?? B", "BA"),
        ("A*", "A."),
        ("A*?", ".A"),
        ("(A? B?) C", "ABC"),
        ("(A | ())", "A."),
        ("(() | A)", ".A"),
        ("PERMUTE(A, B, C)", "ABC"),
        ("(A?){2,}", "AAA."),
        ("(A*)*", "A."),
        ("((A*)*)*", "A."),
        ("((A | B??)*)+ C", "ABABC"),
    ],
)
def test_positions_are_in_the_order_of_preference(text: str, expected: str) -> None:
    assert preference(text) == expected


def test_iteration_without_a_row_ends() -> None:
    for text in ("(A?){2,}", "(A*)*", "(()){3,}", "((A?){2,}){2,}", "(A* | B*)*"):
        assert automaton(text).first[False].count(ACCEPT) == 1


def test_anchors_depend_on_the_place() -> None:
    found = automaton("^ A $")
    assert found.first[False] == ()
    assert len(found.first[True]) == 1
    assert found.follow[0] == ()
    assert found.follow_at_end[0] == (ACCEPT,)


def test_excluded_positions_are_marked() -> None:
    found = automaton("A {- B C -} A")
    assert sorted(zip(found.variable, found.excluded, strict=True)) == [
        (0, False),
        (0, False),
        (1, True),
        (2, True),
    ]


@pytest.mark.parametrize("text", ["((A{100}){100}){100}", "PERMUTE(A,B,C,D,E,F,G,H,I,J)", "(A?){9999}"])
def test_automaton_has_a_bound(text: str) -> None:
    with pytest.raises(TooLarge):
        automaton(text)


def test_few_states_serve_many_rows() -> None:
    found = automaton("A B+ C")
    state = Automaton.OPEN
    for row in range(10_000):
        satisfied = row % 7
        before = found.next_state[state].get(satisfied)
        state = found.state_before(state, satisfied) if before is None else before
    assert len(found.next_state) < 12


def test_permutation_of_one_is_the_part() -> None:
    program = Program(of.Permutation((of.Variable("A"),)), {"A": 0})
    assert program.variable == [0]
