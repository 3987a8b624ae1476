"""Random patterns with rows: small, so that a naive matcher is quick, and with all parts of the language."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from msgspec import Struct

from headrace.operators.patterns import syntax as of
from tests.operators.patterns.oracle import Condition, Measure, Naive, text_of

VARIABLES = ("A", "B", "C")


def _v(row: Any) -> Any:
    return None if row is None else row["v"]


def _less(one: Any, other: Any) -> bool | None:
    return None if one is None or other is None else bool(one < other)


def _total(values: list[Any]) -> Any:
    known = [each for each in values if each is not None]
    return sum(known) if known else None


FREE: dict[str, Condition] = {
    "v > 1": lambda m: _less(1, _v(m.near(0))),
    "v <= 1": lambda m: None if _v(m.near(0)) is None else _v(m.near(0)) <= 1,
    "v IS NULL OR v = 2": lambda m: _v(m.near(0)) in (None, 2),
    "v < PREV(v)": lambda m: _less(_v(m.near(0)), _v(m.near(-1))),
    "v > NEXT(v)": lambda m: _less(_v(m.near(1)), _v(m.near(0))),
    "PREV(v, 2) IS NULL": lambda m: _v(m.near(-2)) is None,
    "NOT v IN (0, 3)": lambda m: None if _v(m.near(0)) is None else _v(m.near(0)) not in (0, 3),
}
BOUND: dict[str, Condition] = {
    "v > FIRST(v)": lambda m: _less(_v(m.of()[0]), _v(m.near(0))),
    "v >= 0 AND COUNT(B.*) < 2": lambda m: _v(m.near(0)) is not None and len(m.of("B")) < 2,
    "SUM(v) < 4": lambda m: _less(_total([_v(row) for row in m.of()]), 4),
    "v > LAST(A.v, 1)": lambda m: _less(_v(m.of("A")[-2]) if len(m.of("A")) > 1 else None, _v(m.near(0))),
    "MAX(U.v) > 1": lambda m: _less(
        1, max((_v(row) for row in m.of("A", "B") if _v(row) is not None), default=None)
    ),
    "COALESCE(PREV(CLASSIFIER()), 'A') = 'A'": lambda m: len(m.names) < 2 or m.names[-2] == "A",
    "MATCH_NUMBER() <> 2": lambda m: m.number != 2,
}
SUBSET = "SUBSET U = (A, B)"


def _last(m: Any, *variables: str) -> Any:
    found = m.of(*variables)
    return _v(found[-1]) if found else None


def _nested(m: Any) -> Any:
    """PREV(LAST(A.v, 1), 1)"""
    places = [place for place, name in enumerate(m.names) if name == "A"]
    if len(places) < 2:
        return None
    at = m.start + places[-2] - 1
    return _v(m.rows[at]) if at >= 0 else None


MEASURES: dict[str, tuple[str, Measure]] = {
    "n": ("MATCH_NUMBER()", lambda m, whole: m.number),
    "label": ("CLASSIFIER()", lambda m, whole: m.names[-1] if m.names else None),
    "u": ("CLASSIFIER(U)", lambda m, whole: next((each for each in reversed(m.names) if each in "AB"), None)),
    "a": ("A.v", lambda m, whole: _last(m, "A")),
    "b": ("FINAL LAST(B.v)", lambda m, whole: _last(whole, "B") if m.names else None),
    "first": ("FIRST(U.v, 1)", lambda m, whole: _v(m.of("A", "B")[1]) if len(m.of("A", "B")) > 1 else None),
    "total": ("SUM(v)", lambda m, whole: _total([_v(row) for row in m.of()])),
    "all": (
        "FINAL COUNT(U.v)",
        lambda m, whole: len([1 for row in whole.of("A", "B") if _v(row) is not None]),
    ),
    "mean": (
        "AVG(C.v)",
        lambda m, whole: (
            None
            if _total([_v(row) for row in m.of("C")]) is None
            else _total([_v(row) for row in m.of("C")]) / len([1 for row in m.of("C") if _v(row) is not None])
        ),
    ),
    "low": ("MIN(v)", lambda m, whole: min((_v(row) for row in m.of() if _v(row) is not None), default=None)),
    "nested": ("PREV(LAST(A.v, 1), 1)", lambda m, whole: _nested(m)),
    "next": ("NEXT(v)", lambda m, whole: _v(m.near(1))),
    "path": ("array_agg(CLASSIFIER())", lambda m, whole: list(m.names) or None),
    "sum": ("COALESCE(A.v, 0) * 10 + COUNT(*)", lambda m, whole: (_last(m, "A") or 0) * 10 + len(m.names)),
}

_leaves: st.SearchStrategy[of.Pattern] = st.one_of(
    st.sampled_from(VARIABLES).map(of.Variable),
    st.sampled_from(VARIABLES).map(of.Variable),
    st.just(of.Empty()),
)


def _grown(inner: st.SearchStrategy[of.Pattern]) -> st.SearchStrategy[of.Pattern]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    bounds = st.sampled_from([(0, None), (1, None), (0, 1), (2, 2), (2, None), (0, 2), (1, 3)])
    return st.one_of(
        several.map(of.Sequence),
        several.map(of.Sequence),
        several.map(of.Alternation),
        several.map(of.Permutation),
        st.builds(
            lambda part, given, greedy: of.Repetition(part, given[0], given[1], greedy),
            inner,
            bounds,
            st.booleans(),
        ),
        st.builds(
            lambda part, given, greedy: of.Repetition(part, given[0], given[1], greedy),
            inner,
            bounds,
            st.booleans(),
        ),
        inner.map(of.Exclusion),
    )


patterns: st.SearchStrategy[of.Pattern] = st.recursive(_leaves, _grown, max_leaves=6)


class Case(Struct, frozen=True, kw_only=True):
    text: str
    naive: Naive
    rows: list[dict[str, Any]]
    rows_max: int | None


@st.composite
def cases(draw: st.DrawFn, *, is_stream: bool = False, is_free: bool = False) -> Case:
    pattern = draw(patterns)
    anchors = draw(st.sampled_from(["", "", "^"] if is_stream else ["", "", "", "^", "$", "^$"]))
    parts = [
        *([of.Anchor(True)] if "^" in anchors else []),
        pattern,
        *([of.Anchor(False)] if "$" in anchors else []),
    ]
    pattern = of.Sequence(tuple(parts)) if len(parts) > 1 else pattern
    # All variables must occur, so that conditions and measures may name them.
    pattern = of.Alternation(
        (pattern, of.Sequence((of.Variable("A"), of.Variable("B"), of.Variable("C"), of.Variable("A"))))
    )
    pool = FREE if is_free or draw(st.booleans()) else FREE | BOUND
    names = {name: draw(st.sampled_from(sorted(pool))) for name in VARIABLES if draw(st.integers(0, 5))}
    mode: of.RowsPerMatch = draw(
        st.sampled_from(["one", "all show empty", "all omit empty", "all with unmatched"])
    )
    if mode == "all with unmatched" and of.has_part(pattern, of.Exclusion):
        mode = "all show empty"
    skip = draw(st.sampled_from(["past last row", "past last row", "to next row", "to first", "to last"]))
    skip_to = draw(st.sampled_from([("B",), ("C",), ("A", "B")]))
    target = skip_to[0] if len(skip_to) == 1 else "U"
    within = draw(st.none() | st.integers(1, 8))
    rows_max = draw(st.none() | st.integers(1, 5))
    if is_stream and within is None and rows_max is None:
        within = 5
    measures = draw(st.lists(st.sampled_from(sorted(MEASURES)), min_size=1, max_size=6, unique=True))
    rows = draw(_rows)
    modes = {
        "one": "ONE ROW PER MATCH",
        "all show empty": "ALL ROWS PER MATCH",
        "all omit empty": "ALL ROWS PER MATCH OMIT EMPTY MATCHES",
        "all with unmatched": "ALL ROWS PER MATCH WITH UNMATCHED ROWS",
    }
    to = f"{skip.upper()}{' ' + target if skip.startswith(('to first', 'to last')) else ''}"
    conditions = ", ".join(f"{name} AS {condition}" for name, condition in names.items())
    text = f"""
        PARTITION BY k ORDER BY t
        MEASURES {", ".join(f"{MEASURES[name][0]} AS m_{name}" for name in measures)}
        {modes[mode]} AFTER MATCH SKIP {to}
        PATTERN ({text_of(pattern)}) {f"WITHIN INTERVAL '{within}' SECOND" if within else ""}
        {SUBSET} {f"DEFINE {conditions}" if names else ""}"""
    naive = Naive(
        pattern=pattern,
        conditions={name: (FREE | BOUND)[condition] for name, condition in names.items()},
        measures={f"m_{name}": MEASURES[name][1] for name in measures},
        skip=skip,
        skip_to=skip_to,
        mode=mode,
        within=within,
        rows_max=rows_max,
    )
    return Case(text=text, naive=naive, rows=rows, rows_max=rows_max)


_rows = st.lists(
    st.tuples(st.sampled_from("xy"), st.integers(0, 2), st.none() | st.integers(0, 3), st.integers(0, 3)),
    max_size=12,
).map(
    lambda drawn: [
        # Every row has its own time, by its place, so that the order is known.
        {"k": key, "t": sum(each[1] for each in drawn[: place + 1]) + place, "v": v if w else 2}
        for place, (key, _, v, w) in enumerate(drawn)
    ]
)
