"""Query strings as trees, in the syntax of Lucene: terms, phrases, boolean, ranges, wildcards, fuzzy terms, fields.

`luqum` parses the text. This module gives the result its meaning: words are analysed, fields are checked against the
columns of the documents, and every problem becomes a `BadQuery` with its position. A tree has only values, and encodes
to a few dozen bytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import InvalidOperation
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, Literal

import msgspec
from luqum import tree as syntax
from luqum.exceptions import IllegalCharacterError, ParseError
from luqum.thread import parse as parse_syntax
from msgspec import Struct

from headrace.errors import HeadraceError
from headrace.operators.search.analysis import folded, keyword, words

QUERY_CHARS_MAX = 10_000
CLAUSES_MAX = 1_024
"""As in Lucene. A query of more clauses is mostly a list that belongs into a column."""
DEPTH_MAX = 50
FUZZY_CHARS_MAX = 50
"""The index of fuzzy terms has all texts that two deletions make of a term, about half of the square of its length."""
EDITS_MAX = 2

ANY = -1
"""The field of a node that applies to all text columns."""

Implicit = Literal["or", "and"]
"""How clauses without an operator between them are combined."""

_DAY = timedelta(days=1)
_US = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_AT = re.compile(r"at position (\d+)")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_PART = re.compile(r"\\(.)|([*?])|([^\\*?]+)", re.DOTALL)
_MISTAKEN = {"&&": "AND", "||": "OR", "!": "NOT"}


class BadQuery(HeadraceError):
    """A query that can't be parsed. `position` is the place of the problem in the text, from 0."""

    def __init__(self, problem: str, position: int, *, hint: str = "") -> None:
        super().__init__(f"position {position}: {problem}", hint=hint)
        self.position = position


class Kind(StrEnum):
    """How a column of the documents is searched."""

    TEXT = "text"
    """Divided into words."""
    KEYWORD = "keyword"
    """The whole value is one word, folded."""
    NUMBER = "number"
    TIME = "time"


class Field(Struct, frozen=True):
    name: str
    kind: Kind


class Term(Struct, frozen=True, array_like=True, tag=0):
    field: int
    word: str
    boost: float = 1.0


class Wildcard(Struct, frozen=True, array_like=True, tag=1):
    """`*` is any number of characters of a word, `?` is one character. `*` alone is any word."""

    field: int
    pattern: str
    boost: float = 1.0


class Fuzzy(Struct, frozen=True, array_like=True, tag=2):
    """Words that at most `edits` insertions, deletions, substitutions and swaps of neighbours turn into `word`."""

    field: int
    word: str
    edits: int
    boost: float = 1.0


class Phrase(Struct, frozen=True, array_like=True, tag=3):
    field: int
    words: tuple[str, ...]
    slop: int = 0
    boost: float = 1.0


class Range(Struct, frozen=True, array_like=True, tag=4):
    """Of words, numbers, or times in microseconds since the epoch. A bound that is None is open."""

    field: int
    low: str | int | float | None
    high: str | int | float | None
    with_low: bool = True
    with_high: bool = True
    boost: float = 1.0


class All(Struct, frozen=True, array_like=True, tag=5):
    boost: float = 1.0


class Bool(Struct, frozen=True, array_like=True, tag=6):
    """All of `must` match and none of `must_not`. If there is no `must`, at least one of `should` matches."""

    must: tuple[Node, ...] = ()
    should: tuple[Node, ...] = ()
    must_not: tuple[Node, ...] = ()


Node = Term | Wildcard | Fuzzy | Phrase | Range | All | Bool

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Node).decode


def encode_query(node: Node) -> bytes:
    return _encode(node)


def decode_query(content: bytes | memoryview) -> Node:
    node: Node = _decode(content)
    return node


class QueryParser:
    """Parses the queries on documents with these columns."""

    def __init__(self, fields: Sequence[Field], *, implicit: Implicit = "or") -> None:
        self.fields = tuple(fields)
        self._numbers: Mapping[str, int] = {each.name: number for number, each in enumerate(fields)}
        self._implicit = implicit

    def parse(self, text: str) -> Node:
        if len(text) > QUERY_CHARS_MAX:
            raise BadQuery(
                f"the query has {len(text):,} characters, more than {QUERY_CHARS_MAX:,}",
                QUERY_CHARS_MAX,
                hint="divide it into several queries",
            )
        if not text.strip():
            raise BadQuery("the query is empty", 0, hint="a query for all documents is *:*")
        built = _Builder(self.fields, self._numbers, self._implicit)
        return built.node(_syntax_tree(text), ANY, 1.0, 0)


def _syntax_tree(text: str) -> syntax.Item:
    try:
        return parse_syntax(text)
    except IllegalCharacterError as error:
        position = _position_in(error, text)
        raise BadQuery(
            f"unexpected {text[position : position + 1]!r}",
            position,
            hint='close the quotes, or escape the character with "\\"',
        ) from error
    except ParseError as error:
        position = _position_in(error, text)
        if position >= len(text):
            problem, hint = "unexpected end of the query", "is a parenthesis, a bound or an operand missing?"
        else:
            found = text[position:].split(maxsplit=1)[0]
            problem, hint = f"unexpected {found!r}", 'remove it, or escape it with "\\"'
        raise BadQuery(problem, position, hint=hint) from error
    except (ValueError, InvalidOperation) as error:
        position = min((text.find(mark) for mark in "~^" if mark in text), default=0)
        raise BadQuery("the number after ~ or ^ is invalid", position, hint="such as ~1 or ^2.5") from error


def _position_in(error: Exception, text: str) -> int:
    found = _AT.search(str(error)[::-1][:40][::-1])
    return int(found[1]) if found else len(text)


class _Builder:
    """One query: the nodes of its syntax tree, with a bound on their number."""

    def __init__(self, fields: Sequence[Field], numbers: Mapping[str, int], implicit: Implicit) -> None:
        self._fields = fields
        self._numbers = numbers
        self._implicit = implicit
        self._clauses = 0

    def node(self, item: syntax.Item, field: int, boost: float, depth: int) -> Node:
        self._clauses += 1
        if self._clauses > CLAUSES_MAX or depth > DEPTH_MAX:
            limit = f"{CLAUSES_MAX:,} clauses" if depth <= DEPTH_MAX else f"{DEPTH_MAX} levels"
            raise BadQuery(f"more than {limit}", _place(item), hint="divide it into several queries")
        match item:
            case syntax.Word():
                return self._word(item, field, boost)
            case syntax.Phrase():
                return self._phrase(item, field, 0, boost)
            case syntax.Proximity():
                return self._phrase(item.term, field, item.degree, boost)
            case syntax.Fuzzy():
                return self._fuzzy(item, field, boost)
            case syntax.Range():
                return self._range(
                    item, field, item.low, item.high, bool(item.include_low), bool(item.include_high), boost
                )
            case syntax.From():
                return self._range(item, field, item.a, None, bool(item.include), True, boost)
            case syntax.To():
                return self._range(item, field, None, item.a, True, bool(item.include), boost)
            case syntax.SearchField():
                return self._field(item, field, boost, depth)
            case syntax.Boost():
                if item.implicit_force:
                    raise BadQuery("^ has no number", _place(item), hint="such as ^2")
                return self.node(item.expr, field, boost * float(item.force), depth + 1)
            case syntax.Regex():
                raise BadQuery(
                    "regular expressions are not supported", _place(item), hint="use the wildcards * and ?"
                )
            case syntax.Not() | syntax.Prohibit():
                return Bool(must_not=(self.node(item.a, field, boost, depth + 1),))
            case syntax.Plus():
                return self.node(item.a, field, boost, depth + 1)
            case syntax.Group() | syntax.FieldGroup():
                return self.node(item.expr, field, boost, depth + 1)
            case syntax.BaseOperation():
                return self._operation(item, field, boost, depth)
        raise BadQuery(f"{type(item).__name__} is not supported", _place(item))

    def _operation(self, item: syntax.BaseOperation, field: int, boost: float, depth: int) -> Node:
        """AND: every operand. OR: one of them, or all with a plus. Without an operator, NOT excludes documents too."""
        is_and = isinstance(item, syntax.AndOperation)
        is_implicit = isinstance(item, syntax.UnknownOperation)
        must: list[Node] = []
        should: list[Node] = []
        must_not: list[Node] = []
        for operand in item.children:
            if isinstance(operand, syntax.Prohibit | syntax.Not) and (is_and or is_implicit):
                must_not.append(self.node(operand.a, field, boost, depth + 1))
                continue
            node = self.node(operand, field, boost, depth + 1)
            is_required = is_and or isinstance(operand, syntax.Plus)
            is_required |= is_implicit and self._implicit == "and"
            (must if is_required else should).append(node)
        return Bool(must=tuple(must), should=tuple(should), must_not=tuple(must_not))

    def _field(self, item: syntax.SearchField, field: int, boost: float, depth: int) -> Node:
        name = _ESCAPED.sub(r"\1", item.name)
        if name == "*":
            everything = self.node(item.expr, ANY, boost, depth + 1)
            if isinstance(everything, All):
                return everything
        if field != ANY:
            raise BadQuery(f"field {name!r} is inside another field", _place(item), hint="use one of them")
        if name not in self._numbers:
            near = get_close_matches(name, self._numbers, n=1)
            known = ", ".join(each.name for each in self._fields)
            raise BadQuery(
                f"field {name!r} is unknown",
                _place(item),
                hint=f"did you mean {near[0]!r}?" if near else f"the fields are {known}",
            )
        number = self._numbers[name]
        expr = item.expr
        is_negative = (
            isinstance(expr, syntax.Prohibit) and isinstance(expr.a, syntax.Word) and expr.a.value != "*"
        )
        if is_negative and self._fields[number].kind is Kind.NUMBER:
            return self._word(expr, number, boost)
        return self.node(expr, number, boost, depth + 1)

    def _kind(self, field: int) -> Kind:
        return Kind.TEXT if field == ANY else self._fields[field].kind

    def _word(self, item: syntax.Item, field: int, boost: float) -> Node:
        kind = self._kind(field)
        text = str(item.a.value if isinstance(item, syntax.Prohibit) else item.value)
        if text[0] == "!" and text != "!":
            raise BadQuery(f"unexpected {text!r}", _place(item), hint='write NOT, or escape the ! with "\\"')
        if text == "*":
            return All(boost) if field == ANY else self._exists(field, boost)
        if kind in (Kind.NUMBER, Kind.TIME):
            return self._range(item, field, item, item, True, True, boost)
        parts = list(_PART.finditer(text))
        if any(each[2] for each in parts):
            return self._wildcard(item, parts, field, boost)
        plain = _ESCAPED.sub(r"\1", text)
        if kind is Kind.KEYWORD:
            return Term(field, keyword(plain), boost)
        return self._of_words(item, plain, field, 0, boost)

    def _exists(self, field: int, boost: float) -> Node:
        if self._kind(field) in (Kind.NUMBER, Kind.TIME):
            return Range(field, None, None, boost=boost)
        return Wildcard(field, "*", boost)

    def _wildcard(
        self, item: syntax.Item, parts: Sequence[re.Match[str]], field: int, boost: float
    ) -> Wildcard:
        pattern = ""
        for part in parts:
            literal = part[1] or part[3]
            if part[2]:
                pattern += "" if part[2] == "*" == pattern[-1:] else part[2]
                continue
            form = folded(literal)
            is_text = self._kind(field) is Kind.TEXT
            if words(literal) != [form] if is_text else literal in ("*", "?"):
                raise BadQuery(
                    f"a wildcard applies to one word, and {item.value!r} has other characters",
                    _place(item),
                    hint="write a wildcard only in the word that it belongs to",
                )
            pattern += form
        return Wildcard(field, pattern, boost)

    def _phrase(self, item: syntax.Phrase, field: int, slop: int, boost: float) -> Node:
        plain = _ESCAPED.sub(r"\1", str(item.value)[1:-1])
        kind = self._kind(field)
        if kind in (Kind.NUMBER, Kind.TIME):
            return self._range(item, field, item, item, True, True, boost)
        if kind is Kind.KEYWORD:
            return Term(field, keyword(plain), boost)
        return self._of_words(item, plain, field, slop, boost)

    def _of_words(self, item: syntax.Item, text: str, field: int, slop: int, boost: float) -> Node:
        found = words(text)
        if not found:
            wanted = _MISTAKEN.get(text)
            raise BadQuery(
                f"{text!r} has no word",
                _place(item),
                hint=f"write {wanted}" if wanted else "search for words of letters or digits",
            )
        if len(found) == 1:
            return Term(field, found[0], boost)
        return Phrase(field, tuple(found), slop, boost)

    def _fuzzy(self, item: syntax.Fuzzy, field: int, boost: float) -> Node:
        word = self._one_word(item.term, field)
        edits = EDITS_MAX if item.degree == _DEGREE_IF_NOT_SET else item.degree
        if edits not in (0, 1, 2):
            raise BadQuery(
                f"{item.degree} edits are not supported", _place(item), hint="use ~1, ~2, or ~ for 2 edits"
            )
        if len(word) > FUZZY_CHARS_MAX:
            raise BadQuery(
                f"a fuzzy word has more than {FUZZY_CHARS_MAX} characters", _place(item), hint="remove the ~"
            )
        return Fuzzy(field, word, int(edits), boost) if edits else Term(field, word, boost)

    def _one_word(self, item: syntax.Item, field: int) -> str:
        kind = self._kind(field)
        if kind in (Kind.NUMBER, Kind.TIME):
            raise BadQuery(
                f"a {kind.value} can't be fuzzy", _place(item), hint="use a range, such as [1 TO 5]"
            )
        plain = _ESCAPED.sub(r"\1", _bound_text(item))
        if kind is Kind.KEYWORD:
            return keyword(plain)
        found = words(plain)
        if len(found) != 1:
            raise BadQuery(f"{plain!r} is not one word", _place(item), hint="use one word, without hyphens")
        return found[0]

    def _range(
        self,
        item: syntax.Item,
        field: int,
        low: syntax.Item | None,
        high: syntax.Item | None,
        with_low: bool,
        with_high: bool,
        boost: float,
    ) -> Node:
        kind = self._kind(field)
        first, last = (None if each is None or _bound_text(each) == "*" else each for each in (low, high))
        bounds: tuple[str | int | float | None, ...]
        if kind is Kind.NUMBER:
            bounds = tuple(None if each is None else _number(each) for each in (first, last))
        elif kind is Kind.TIME:
            # A day without a time is all instants of it.
            bounds = (
                None if first is None else _times_us(first)[0 if with_low else 1],
                None if last is None else _times_us(last)[1 if with_high else 0],
            )
        else:
            bounds = tuple(None if each is None else self._one_word(each, field) for each in (first, last))
        if bounds == (None, None):
            return All(boost) if field == ANY else self._exists(field, boost)
        return Range(field, bounds[0], bounds[1], with_low, with_high, boost)


_DEGREE_IF_NOT_SET = 0.5
"""luqum's value of `word~`."""


def _bound_text(item: syntax.Item) -> str:
    match item:
        case syntax.Prohibit():
            return "-" + _bound_text(item.a)
        case syntax.Phrase():
            return str(item.value)[1:-1]
    return str(item.value)


def _number(item: syntax.Item) -> int | float:
    text = _bound_text(item)
    try:
        found: int | float = int(text)
    except ValueError:
        try:
            found = float(text)
        except ValueError:
            raise BadQuery(f"{text!r} is not a number", _place(item), hint="such as 42 or -0.5") from None
    if found != found or abs(found) > 2**63 - 1:
        raise BadQuery(f"{text!r} is out of range", _place(item), hint="use * for an open bound")
    return found


def _times_us(item: syntax.Item) -> tuple[int, int]:
    """The first and the last microsecond of a date or of a time."""
    text = _ESCAPED.sub(r"\1", _bound_text(item))
    if text.lower().startswith("now"):
        raise BadQuery(
            f"{text!r} is not a fixed time, and a stored query has no time at which it is asked",
            _place(item),
            hint="write a date, such as 2026-03-01",
        )
    try:
        found = datetime.fromisoformat(text)
        start = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
        first_us = (start - _EPOCH) // _US
    except (ValueError, OverflowError):
        raise BadQuery(
            f"{text!r} is not a date or a time",
            _place(item),
            hint="such as 2026-03-01 or 2026-03-01T12:00:00Z",
        ) from None
    is_day = len(text) <= len("2026-03-01")
    return first_us, first_us + (_DAY // _US - 1 if is_day else 0)


def _place(item: Any) -> int:
    return int(item.pos or 0)
