"""The parts of patterns as values."""

from __future__ import annotations

from headrace.operators.patterns import syntax as of

A, B = of.Variable("A"), of.Variable("B")


def test_variables_are_in_the_order_of_the_text() -> None:
    pattern = of.Sequence(
        (of.Repetition(of.Alternation((B, A)), 0, None), of.Permutation((A, of.Exclusion(B))))
    )
    assert list(of.variables_of(pattern)) == ["B", "A"]


def test_parts_are_found_at_any_depth() -> None:
    pattern = of.Sequence((A, of.Repetition(of.Exclusion(of.Anchor(True)), 1, 2)))
    assert of.has_part(pattern, of.Anchor)
    assert not of.has_part(pattern, of.Permutation)
    assert [type(each).__name__ for each in of.walk_pattern(pattern)] == [
        "Sequence",
        "Variable",
        "Repetition",
        "Exclusion",
        "Anchor",
    ]


def test_children_of_an_expression_are_its_operands() -> None:
    one, column = of.Constant(1), of.Field("x")
    assert of.children(of.Operation("+", (one, column))) == (one, column)
    assert of.children(of.Navigation(column, "A")) == (column,)
    assert of.children(of.Aggregate("count", None, None)) == ()
    assert of.children(of.Cast(one, "double")) == (one,)
    assert of.children(one) == ()
