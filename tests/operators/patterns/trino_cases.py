"""Cases of Trino's own tests of MATCH_RECOGNIZE, read from the sources that Trino publishes on Maven.

The sources are fetched when the test runs, and nothing of them is stored here. A case is a query with the rows that it
returns. DuckDB evaluates what is around MATCH_RECOGNIZE: the input, the selection, and the expected rows.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
from msgspec import Struct

from headrace.java import JarSet, fetch_jars
from headrace.operators.patterns.match_recognize import check_pattern
from tests.operators.patterns.rows_of_pattern import matched

SOURCES = JarSet(name="trino-tests", dependencies=("io.trino:trino-main:476:test-sources",))
FOLDER = "io/trino/sql/query/"
CLASSES = (
    "TestRowPatternMatching",
    "TestAggregationsInRowPatternMatching",
    "TestExpressionRewriteInRowPatternMatching",
)


class Case(Struct, frozen=True):
    place: str
    query: str
    expected: str | None
    """None for no rows."""


class NotOurs(Exception):
    """The query around MATCH_RECOGNIZE has a form that this reader does not know."""


def sources() -> dict[str, str]:
    """The Java sources by class, fetched once. Fails if they can't be."""
    folder = fetch_jars(SOURCES)
    (jar,) = folder.glob("*.jar")
    with zipfile.ZipFile(jar) as archive:
        return {name: archive.read(f"{FOLDER}{name}.java").decode() for name in CLASSES}


def cases(name: str, source: str) -> Iterator[Case]:
    """The assertions of a class on the rows of a query."""
    for method in re.split(r"\n    @Test\n", source)[1:]:
        title = re.search(r"void (\w+)\(", method)
        texts: dict[str, str] = {}
        for found in re.finditer(
            r'\n +(?:String )?(\w+) = (?=")|(?:assertThat\(assertions\.query\()', method
        ):
            start = found.end()
            argument, end = _balanced(method, start, ";" if found[1] else ")")
            try:
                text = _text(argument, texts)
            except NotOurs:
                continue
            if found[1]:
                texts[found[1]] = text
                continue
            then = re.match(r"\)\s*\)\s*\.(?:ordered\(\)\s*\.)?(matches|returnsEmptyResult)\(", method[end:])
            if then is None:
                continue
            line = source[: source.index(method)].count("\n") + method[:start].count("\n") + 1
            place = f"{name}.{title[1] if title else ''}:{line}"
            if then[1] == "returnsEmptyResult":
                yield Case(place, text, None)
                continue
            expected, _ = _balanced(method, end + then.end(), ")")
            yield Case(place, text, _text(expected, texts))


def _balanced(text: str, start: int, stop: str) -> tuple[str, int]:
    """The text from `start` to the stop character, outside of parentheses, strings and comments; without comments."""
    kept: list[str] = []
    depth, at = 0, start
    while True:
        piece = re.compile(r'"""(?:.|\n)*?"""|"(?:\\.|[^"\\])*"|//[^\n]*|/\*(?:.|\n)*?\*/|.|\n').match(
            text, at
        )
        assert piece is not None
        token = piece[0]
        if depth == 0 and token == stop:
            return "".join(kept), at
        depth += (token == "(") - (token == ")")
        if not token.startswith(("//", "/*")):
            kept.append(token)
        at = piece.end()


def _text(expression: str, texts: dict[str, str]) -> str:
    """The value of a Java expression of strings."""
    expression = expression.strip()
    called = re.fullmatch(r"format\((.*)\)", expression, re.DOTALL)
    if called:
        template, *arguments = (_text(each, texts) for each in _split(called[1], ","))
        return template.replace("%%", "%") % tuple(arguments) if arguments else template
    parts = _split(expression, "+")
    if len(parts) > 1:
        return "".join(_text(each, texts) for each in parts)
    if expression.startswith('"""'):
        return expression[3:-3]
    if expression.startswith('"'):
        return expression[1:-1].encode().decode("unicode_escape")
    if expression in texts:
        return texts[expression]
    raise NotOurs(expression[:60])


def _split(text: str, separator: str) -> list[str]:
    parts, at = [], 0
    while at <= len(text):
        part, at = _balanced(text + separator, at, separator)
        parts.append(part)
        at += 1
    return [each for each in parts if each.strip()]


_QUERY = re.compile(r"\s*(WITH .*? )?(SELECT .*?) FROM (.*?) MATCH_RECOGNIZE\s*\(", re.DOTALL | re.IGNORECASE)


def outcome(case: Case) -> tuple[list[str], list[str]]:
    """What our matcher finds, and what is expected."""
    found = _QUERY.match(case.query)
    if found is None or case.query.upper().count("MATCH_RECOGNIZE") > 1:
        raise NotOurs("not a selection from one MATCH_RECOGNIZE")
    text, end = _balanced(case.query, found.end(), ")")
    with duckdb.connect() as base:
        rows = base.sql(_duck(f"SELECT * FROM {found[3]}")).to_arrow_table()
        columns = {
            each.name: pa.int64() if pa.types.is_integer(each.type) else each.type for each in rows.schema
        }
        check_pattern(text)
        results = matched(text, columns, rows.to_pylist())
        schema = None if results else _schema(text, columns)
        base.register("matched_rows", pa.Table.from_pylist(results, schema=schema))
        after = re.sub(r"^\s*\)?\s*(?:AS\s+)?(\w+)", r" AS \1", case.query[end:].lstrip(" )"), count=1)
        ours = base.execute(_duck(f"{found[2]} FROM matched_rows {after}")).fetchall()
        theirs = [] if case.expected is None else base.execute(_duck(case.expected)).fetchall()
    return _shown(ours), _shown(theirs)


def _schema(text: str, columns: dict[str, pa.DataType]) -> pa.Schema:
    from tests.operators.patterns.rows_of_pattern import PatternRun

    return PatternRun(text, columns).step.output_schema


def _duck(sql: str) -> str:
    """Trino's SQL as DuckDB's."""
    sql = re.sub(r"\bARRAY\s*\[", "[", sql)
    sql = re.sub(r"\barray\((\w+)\)", r"\1[]", sql)
    sql = re.sub(r"\b(?:bigint|integer|decimal)\s+'(\d+)'", r"\1", sql, flags=re.IGNORECASE)
    sql = re.sub(r"\bvarchar\s+'", "'", sql, flags=re.IGNORECASE)
    # A value without parentheses is a row of one column.
    values = re.fullmatch(r"\s*VALUES ([^(]*|CAST\([^()]*\)\s*)", sql)
    if values:
        sql = f"SELECT unnest([{values[1]}])"
    return re.sub(r"VALUES (\d+(?:, \d+)*)\)", lambda found: f"SELECT unnest([{found[1]}]))", sql)


def _shown(rows: list[tuple[Any, ...]]) -> list[str]:
    return sorted(repr(tuple(_plain(each) for each in row)) for row in rows)


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return value.upper()
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value if value is None or isinstance(value, bool | dict) else float(value)
