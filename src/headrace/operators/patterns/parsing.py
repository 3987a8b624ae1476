"""From the text of MATCH_RECOGNIZE to its clauses. Names are not resolved yet."""

from __future__ import annotations

import functools
import re
from datetime import UTC, date, datetime, timedelta
from itertools import accumulate
from typing import Any, cast

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken, VisitError

from headrace.durations import BadDuration, parse_duration_us
from headrace.operators.patterns import syntax as of
from headrace.operators.patterns.place import BadPattern

TEXT_LENGTH_MAX = 100_000
"""A pattern that people write is shorter."""

INTERVAL_US_MAX = 10_000 * 366 * 86_400_000_000
"""So that a time plus an interval fits in 64 bits."""

COUNT_MAX = 10_000
"""The largest number in a quantifier: each repetition is a state of the automaton."""

_GRAMMAR = r"""
start: "MATCH_RECOGNIZE"i "(" body ")" | body
body: [partition] [order] [measures] [rows] [skip] pattern_clause [within] [subset_clause] [define]

partition: "PARTITION"i "BY"i column_name ("," column_name)*
column_name: name ("." name)*
order: "ORDER"i "BY"i sort_term ("," sort_term)*
sort_term: name [DIRECTION] ["NULLS"i NULLS_PLACE]
DIRECTION: /ASC|DESC/i
NULLS_PLACE: /FIRST|LAST/i

measures: "MEASURES"i measure ("," measure)*
measure: expression "AS"i name

rows: "ONE"i "ROW"i "PER"i "MATCH"i -> one_row
    | "ALL"i "ROWS"i "PER"i "MATCH"i -> all_rows
    | "ALL"i "ROWS"i "PER"i "MATCH"i "SHOW"i "EMPTY"i "MATCHES"i -> all_rows
    | "ALL"i "ROWS"i "PER"i "MATCH"i "OMIT"i "EMPTY"i "MATCHES"i -> omit_empty
    | "ALL"i "ROWS"i "PER"i "MATCH"i "WITH"i "UNMATCHED"i "ROWS"i -> with_unmatched

skip: "AFTER"i "MATCH"i "SKIP"i skip_to
?skip_to: "PAST"i "LAST"i "ROW"i -> past_last_row
    | "TO"i "NEXT"i "ROW"i -> to_next_row
    | "TO"i "FIRST"i name -> to_first
    | "TO"i "LAST"i name -> to_last
    | "TO"i name -> to_variable

pattern_clause: PATTERN "(" pattern ")"
PATTERN.2: "PATTERN"i
?pattern: sequence ("|" sequence)*
sequence: quantified*
?quantified: part [quantifier]
quantifier: (STAR | PLUS | OPTIONAL | "{" counts "}") [RELUCTANT]
counts: COUNT | COUNT COMMA | COMMA COUNT | COUNT COMMA COUNT | COMMA
?part: (NAME | QUOTED | TIMESTAMP | DATE) -> variable
    | "(" pattern ")"
    | EXCLUDE pattern EXCLUDE_END -> exclusion
    | CARET -> start_anchor
    | DOLLAR -> end_anchor
    | PERMUTE "(" pattern ("," pattern)* ")" -> permutation
PERMUTE.2: "PERMUTE"i
EXCLUDE: "{-"
EXCLUDE_END: "-}"
STAR: "*"
PLUS: "+"
OPTIONAL: "?"
RELUCTANT: "?"
COMMA: ","
COUNT: /[0-9]+/
CARET: "^"
DOLLAR: "$"

within: WITHIN interval
WITHIN: "WITHIN"i
subset_clause: "SUBSET"i subset ("," subset)*
subset: name EQUALS "(" name ("," name)* ")"
define: "DEFINE"i condition ("," condition)*
condition: name "AS"i expression

?expression: disjunction
?disjunction: conjunction (OR conjunction)*
?conjunction: negation (AND negation)*
?negation: comparison | NOT negation -> unary
?comparison: sum
    | sum (EQUALS | COMPARISON) sum -> binary
    | sum IS [NOT] NULL -> is_null
    | sum IS [NOT] (TRUE | FALSE) -> is_truth
    | sum IS [NOT] DISTINCT "FROM"i sum -> is_distinct
    | sum [NOT] IN "(" expression ("," expression)* ")" -> in_list
    | sum [NOT] BETWEEN sum AND sum -> between
    | sum [NOT] LIKE sum ["ESCAPE"i STRING] -> like
?sum: product | sum SUM_SIGN product -> binary
?product: signed | product PRODUCT_SIGN signed -> binary
?signed: atom | SIGN signed -> unary
?atom: constant
    | name_path
    | call
    | "(" expression ")"
    | interval
    | CASE [expression] when+ ["ELSE"i expression] "END"i -> case
    | CAST "(" expression "AS"i type_name ")" -> cast
when: "WHEN"i expression "THEN"i expression
name_path: name ("." name)*
call: [RUNNING | FINAL] name "(" [DISTINCT] [arguments] ")"
    | [RUNNING | FINAL] name "(" [name "."] STAR ")" -> star_call
arguments: expression ("," expression)*
RUNNING: "RUNNING"i
FINAL: "FINAL"i
type_name: name ["(" COUNT ("," COUNT)* ")"]

constant: NUMBER -> number
    | STRING -> text
    | TRUE -> truth
    | FALSE -> truth
    | NULL -> null
    | TIMESTAMP STRING -> timestamp
    | DATE STRING -> date
interval: INTERVAL [SIGN] (STRING | NUMBER) [UNIT ["TO"i UNIT]]

OR: "OR"i
AND: "AND"i
NOT: "NOT"i
IS: "IS"i
NULL: "NULL"i
TRUE: "TRUE"i
FALSE: "FALSE"i
DISTINCT: "DISTINCT"i
IN: "IN"i
BETWEEN: "BETWEEN"i
LIKE: "LIKE"i
CASE: "CASE"i
CAST: "CAST"i
TIMESTAMP: "TIMESTAMP"i
DATE: "DATE"i
INTERVAL: "INTERVAL"i
EQUALS: "="
COMPARISON: "<>" | "!=" | "<=" | ">=" | "<" | ">"
SUM_SIGN: "+" | "-" | "||"
SIGN: "+" | "-"
PRODUCT_SIGN: "*" | "/" | "%"
UNIT: /(MICRO|MILLI)?SECONDS?|MINUTES?|HOURS?|DAYS?|WEEKS?|MONTHS?|YEARS?/i
NUMBER: /[0-9]+(\.[0-9]*)?(e[+-]?[0-9]+)?|\.[0-9]+(e[+-]?[0-9]+)?/i
STRING: /'([^']|'')*'/
name: NAME | QUOTED | TIMESTAMP | DATE
NAME: /[^\W0-9]\w*/i
QUOTED: /"([^"]|"")+"|`([^`]|``)+`/

COMMENT: /--[^\n]*/ | /\/\*(.|\n)*?\*\//
%import common.WS
%ignore WS
%ignore COMMENT
"""


def parse(text: str) -> of.Clauses:
    if len(text) > TEXT_LENGTH_MAX:
        raise BadPattern(
            text,
            TEXT_LENGTH_MAX,
            f"the text has {len(text):,} characters",
            hint=f"at most {TEXT_LENGTH_MAX:,} are possible",
        )
    try:
        found: of.Clauses = _Build(text).transform(_parser().parse(text))
        return found
    except UnexpectedInput as error:
        raise _unexpected(text, error) from None
    except VisitError as error:
        if isinstance(error.orig_exc, BadPattern):
            raise error.orig_exc from None
        if isinstance(error.orig_exc, RecursionError):
            raise too_deep(text, _deepest(text)) from None
        raise
    except RecursionError:
        raise too_deep(text, _deepest(text)) from None


def too_deep(text: str, at: int) -> BadPattern:
    return BadPattern(text, at, "the nesting is too deep", hint="simplify it")


def _deepest(text: str) -> int:
    """The place of the parenthesis with the most others around it."""
    depths = accumulate((each == "(") - (each == ")") for each in text)
    return max(enumerate(depths), key=lambda each: each[1])[0]


@functools.cache
def _parser() -> Lark:
    return Lark(
        _GRAMMAR, parser="lalr", lexer="contextual", propagate_positions=True, maybe_placeholders=True
    )


_SHOWN = {
    "$END": "the end of the text",
    "NAME": "a name",
    "QUOTED": "a quoted name",
    "COUNT": "a number",
    "NUMBER": "a number",
    "STRING": "a text in single quotes",
    "COMPARISON": "a comparison",
    "SUM_SIGN": "+, -, ||",
    "PRODUCT_SIGN": "*, /, %",
    "SIGN": "+, -",
    "UNIT": "a unit of time",
}


def _unexpected(text: str, error: UnexpectedInput) -> BadPattern:
    at = cast(int, error.pos_in_stream)
    if isinstance(error, UnexpectedToken):
        expected = set(error.accepts or error.expected)
        found = f"{str(error.token)!r} is not possible here"
        if error.token.type == "$END":
            at, found = len(text.rstrip()), "the text ends"
    else:
        assert isinstance(error, UnexpectedCharacters)
        expected = set(error.allowed or ())
        found = f"{text[at : at + 1]!r} is not possible here"
    names = sorted(_SHOWN.get(each, _terminal(each)) for each in expected)
    return BadPattern(text, at, found, hint=f"expected {', '.join(names)}" if names else "")


@functools.cache
def _terminals() -> dict[str, Any]:
    return {each.name: each for each in _parser().terminals}


def _terminal(name: str) -> str:
    found = _terminals().get(name)
    return str(found.pattern.value) if found is not None and found.pattern.type == "str" else name


_DAY_TO_SECOND = re.compile(
    r"\s*(?:(?P<days>\d+)\s+)?(?P<hours>\d+):(?P<minutes>\d+)(?::(?P<seconds>\d+(?:\.\d+)?))?\s*"
)


@v_args(meta=True)
class _Build(Transformer):  # type: ignore[type-arg]
    """From the tree of the parser to the clauses."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def _bad(self, at: int, problem: str, hint: str = "") -> BadPattern:
        return BadPattern(self._text, at, problem, hint=hint)

    def start(self, meta: Any, parts: list[Any]) -> of.Clauses:
        return parts[0]  # type: ignore[no-any-return]

    def body(self, meta: Any, parts: list[Any]) -> of.Clauses:
        partition, order, measures, rows, skip, pattern, within, subsets, conditions = parts
        clauses: dict[str, Any] = {
            "partition_by": partition,
            "order_by": order,
            "measures": measures,
            "rows_per_match": rows,
            "skip": skip,
            "subsets": subsets,
            "conditions": conditions,
        }
        if within is not None:
            clauses |= {"within_us": within[0], "within_at": within[1]}
        given = {name: each for name, each in clauses.items() if each is not None}
        return of.Clauses(pattern=pattern[0], pattern_at=pattern[1], **given)

    # Clauses

    def partition(self, meta: Any, parts: list[Any]) -> tuple[Any, ...]:
        return tuple(parts)

    def column_name(self, meta: Any, parts: list[Any]) -> of.Name:
        return of.Name(tuple(str(each) for each in parts), meta.start_pos)

    def order(self, meta: Any, parts: list[Any]) -> tuple[Any, ...]:
        return tuple(parts)

    def sort_term(self, meta: Any, parts: list[Any]) -> of.SortTerm:
        name, direction, nulls = parts
        is_descending = direction is not None and direction.upper() == "DESC"
        nulls_first = not is_descending if nulls is None else nulls.upper() == "FIRST"
        return of.SortTerm(str(name), is_descending, nulls_first, meta.start_pos)

    def measures(self, meta: Any, parts: list[Any]) -> tuple[Any, ...]:
        return tuple(parts)

    def measure(self, meta: Any, parts: list[Any]) -> of.Named:
        return of.Named(str(parts[1]), parts[0], parts[1].start_pos)

    def one_row(self, meta: Any, parts: list[Any]) -> of.RowsPerMatch:
        return "one"

    def all_rows(self, meta: Any, parts: list[Any]) -> of.RowsPerMatch:
        return "all show empty"

    def omit_empty(self, meta: Any, parts: list[Any]) -> of.RowsPerMatch:
        return "all omit empty"

    def with_unmatched(self, meta: Any, parts: list[Any]) -> of.RowsPerMatch:
        return "all with unmatched"

    def skip(self, meta: Any, parts: list[Any]) -> of.Skip:
        return parts[0]  # type: ignore[no-any-return]

    def past_last_row(self, meta: Any, parts: list[Any]) -> of.Skip:
        return of.Skip("past last row")

    def to_next_row(self, meta: Any, parts: list[Any]) -> of.Skip:
        return of.Skip("to next row")

    def to_first(self, meta: Any, parts: list[Any]) -> of.Skip:
        return of.Skip("to first", str(parts[0]), parts[0].start_pos)

    def to_last(self, meta: Any, parts: list[Any]) -> of.Skip:
        return of.Skip("to last", str(parts[0]), parts[0].start_pos)

    to_variable = to_last

    def within(self, meta: Any, parts: list[Any]) -> tuple[int, int]:
        amount = parts[1].value // timedelta(microseconds=1)
        if amount <= 0:
            raise self._bad(parts[1].at, "the interval must be positive", "such as INTERVAL '10' MINUTE")
        return amount, parts[1].at

    def subset_clause(self, meta: Any, parts: list[Any]) -> tuple[Any, ...]:
        return tuple(parts)

    def subset(self, meta: Any, parts: list[Any]) -> of.Subset:
        return of.Subset(str(parts[0]), tuple(str(each) for each in parts[2:]), parts[0].start_pos)

    def define(self, meta: Any, parts: list[Any]) -> tuple[Any, ...]:
        return tuple(parts)

    def condition(self, meta: Any, parts: list[Any]) -> of.Named:
        return of.Named(str(parts[0]), parts[1], parts[0].start_pos)

    # Row patterns

    def pattern_clause(self, meta: Any, parts: list[Any]) -> tuple[of.Pattern, int]:
        return parts[1], parts[0].start_pos

    def pattern(self, meta: Any, parts: list[Any]) -> of.Pattern:
        return of.Alternation(tuple(parts))

    def sequence(self, meta: Any, parts: list[Any]) -> of.Pattern:
        if not parts:
            return of.Empty()
        return parts[0] if len(parts) == 1 else of.Sequence(tuple(parts))

    def quantified(self, meta: Any, parts: list[Any]) -> of.Pattern:
        part, quantifier = parts
        if quantifier is None:
            return part  # type: ignore[no-any-return]
        least, most, is_greedy, at = quantifier
        return of.Repetition(part, least, most, is_greedy, at)

    def counts(self, meta: Any, parts: list[Any]) -> list[Token]:
        return parts

    def quantifier(self, meta: Any, parts: list[Any]) -> tuple[int, int | None, bool, int]:
        given, reluctant = parts
        tokens = given if isinstance(given, list) else [given]
        kinds = [each.type for each in tokens]
        counts = [int(each) for each in tokens if each.type == "COUNT"]
        if max(counts, default=0) > COUNT_MAX:
            raise self._bad(
                meta.start_pos, f"{max(counts)} is too large", f"at most {COUNT_MAX:,} are possible"
            )
        bounds: tuple[int, int | None]
        match kinds:
            case ["STAR"] | ["COMMA"]:
                bounds = 0, None
            case ["PLUS"]:
                bounds = 1, None
            case ["OPTIONAL"]:
                bounds = 0, 1
            case ["COUNT"]:
                bounds = counts[0], counts[0]
            case ["COUNT", "COMMA"]:
                bounds = counts[0], None
            case ["COMMA", "COUNT"]:
                bounds = 0, counts[0]
            case _:
                bounds = counts[0], counts[1]
        if bounds[1] is not None and not (bounds[0] <= bounds[1] and bounds[1] > 0):
            hint = "the second number must be at least the first, and positive"
            raise self._bad(meta.start_pos, "the quantifier can't match", hint)
        return (*bounds, reluctant is None, meta.start_pos)

    def variable(self, meta: Any, parts: list[Any]) -> of.Variable:
        name = self.name(meta, parts)
        return of.Variable(str(name), name.start_pos or 0)

    def exclusion(self, meta: Any, parts: list[Any]) -> of.Exclusion:
        return of.Exclusion(parts[1], meta.start_pos)

    def start_anchor(self, meta: Any, parts: list[Any]) -> of.Anchor:
        return of.Anchor(True, meta.start_pos)

    def end_anchor(self, meta: Any, parts: list[Any]) -> of.Anchor:
        return of.Anchor(False, meta.start_pos)

    def permutation(self, meta: Any, parts: list[Any]) -> of.Permutation:
        return of.Permutation(tuple(parts[1:]), meta.start_pos)

    # Expressions

    def name(self, meta: Any, parts: list[Any]) -> Token:
        """A name of columns. Variables are parsed apart: `+` after them has another meaning."""
        token = parts[0]
        if token.type != "QUOTED":
            return token  # type: ignore[no-any-return]
        mark = token[0]
        return token.update(value=token[1:-1].replace(mark * 2, mark))  # type: ignore[no-any-return]

    def binary(self, meta: Any, parts: list[Any]) -> of.Expression:
        left, sign, right = parts
        function = {"!=": "<>"}.get(str(sign), str(sign)).lower()
        return of.Operation(function, (left, right), sign.start_pos)

    def conjunction(self, meta: Any, parts: list[Any]) -> of.Expression:
        """Halves of a chain of AND or OR: so it is not deep, however long it is."""
        if len(parts) == 1:
            return parts[0]  # type: ignore[no-any-return]
        middle = len(parts) // 4 * 2 + 1
        sign = parts[middle]
        sides = (self.conjunction(meta, parts[:middle]), self.conjunction(meta, parts[middle + 1 :]))
        return of.Operation(str(sign).lower(), sides, sign.start_pos)

    disjunction = conjunction

    def unary(self, meta: Any, parts: list[Any]) -> of.Expression:
        sign, operand = parts
        function = {"-": "negative", "+": "positive"}.get(str(sign), "not")
        if (
            isinstance(operand, of.Constant)
            and function == "negative"
            and isinstance(operand.value, int | float)
        ):
            return of.Constant(-operand.value, sign.start_pos)
        return of.Operation(function, (operand,), sign.start_pos)

    def _negated(self, found: of.Expression, negation: Token | None) -> of.Expression:
        return found if negation is None else of.Operation("not", (found,), negation.start_pos or 0)

    def is_null(self, meta: Any, parts: list[Any]) -> of.Expression:
        operand, sign, negation, _ = parts
        return self._negated(of.Operation("is null", (operand,), sign.start_pos), negation)

    def is_truth(self, meta: Any, parts: list[Any]) -> of.Expression:
        operand, sign, negation, truth = parts
        constant = of.Constant(truth.upper() == "TRUE", truth.start_pos)
        found = of.Operation("is not distinct", (operand, constant), sign.start_pos)
        return self._negated(found, negation)

    def is_distinct(self, meta: Any, parts: list[Any]) -> of.Expression:
        left, sign, negation, _, right = parts
        found = of.Operation("is not distinct", (left, right), sign.start_pos)
        return found if negation is not None else of.Operation("not", (found,), sign.start_pos)

    def in_list(self, meta: Any, parts: list[Any]) -> of.Expression:
        operand, negation, sign, *choices = parts
        return self._negated(of.Operation("in", (operand, *choices), sign.start_pos), negation)

    def between(self, meta: Any, parts: list[Any]) -> of.Expression:
        operand, negation, sign, low, _, high = parts
        at = sign.start_pos
        found = of.Operation(
            "and", (of.Operation(">=", (operand, low), at), of.Operation("<=", (operand, high), at)), at
        )
        return self._negated(found, negation)

    def like(self, meta: Any, parts: list[Any]) -> of.Expression:
        operand, negation, sign, pattern, escape = parts
        if not isinstance(pattern, of.Constant) or not isinstance(pattern.value, str):
            raise self._bad(sign.start_pos, "LIKE needs a text", "such as name LIKE 'a%'")
        escape_text = "\\" if escape is None else _unquoted(escape)
        if len(escape_text) != 1:
            raise self._bad(escape.start_pos, "ESCAPE needs one character")
        operands = (operand, pattern, of.Constant(escape_text))
        return self._negated(of.Operation("like", operands, sign.start_pos), negation)

    def when(self, meta: Any, parts: list[Any]) -> tuple[Any, Any]:
        return parts[0], parts[1]

    def case(self, meta: Any, parts: list[Any]) -> of.Expression:
        sign, subject, *whens, otherwise = parts
        at = sign.start_pos
        operands: list[of.Expression] = []
        for condition, found in whens:
            if subject is not None:
                condition = of.Operation("=", (subject, condition), at)
            operands += [condition, found]
        operands.append(of.Constant(None, at) if otherwise is None else otherwise)
        return of.Operation("case", tuple(operands), at)

    def cast(self, meta: Any, parts: list[Any]) -> of.Expression:
        return of.Cast(parts[1], parts[2], parts[0].start_pos)

    def type_name(self, meta: Any, parts: list[Any]) -> str:
        name, *counts = (str(each) for each in parts if each is not None)
        return name.lower() + (f"({','.join(counts)})" if counts else "")

    def name_path(self, meta: Any, parts: list[Any]) -> of.Name:
        return of.Name(tuple(str(each) for each in parts), meta.start_pos)

    def arguments(self, meta: Any, parts: list[Any]) -> tuple[Any, ...]:
        return tuple(parts)

    def call(self, meta: Any, parts: list[Any]) -> of.Call:
        semantics, name, distinct, arguments = parts
        return of.Call(
            str(name).lower(),
            arguments or (),
            name.start_pos,
            semantics=None if semantics is None else semantics.lower(),
            is_distinct=distinct is not None,
        )

    def star_call(self, meta: Any, parts: list[Any]) -> of.Call:
        semantics, name, variable, _ = parts
        return of.Call(
            str(name).lower(),
            (),
            name.start_pos,
            semantics=None if semantics is None else semantics.lower(),
            star=() if variable is None else (str(variable),),
        )

    def number(self, meta: Any, parts: list[Any]) -> of.Constant:
        token = parts[0]
        value = int(token) if token.isdecimal() else float(token)
        if isinstance(value, int) and value >= 2**63:
            raise self._bad(
                token.start_pos, f"{token} does not fit in 64 bits", "write it with a decimal point"
            )
        return of.Constant(value, token.start_pos)

    def text(self, meta: Any, parts: list[Any]) -> of.Constant:
        return of.Constant(_unquoted(parts[0]), parts[0].start_pos)

    def truth(self, meta: Any, parts: list[Any]) -> of.Constant:
        return of.Constant(parts[0].upper() == "TRUE", parts[0].start_pos)

    def null(self, meta: Any, parts: list[Any]) -> of.Constant:
        return of.Constant(None, parts[0].start_pos)

    def timestamp(self, meta: Any, parts: list[Any]) -> of.Constant:
        try:
            found = datetime.fromisoformat(_unquoted(parts[1]))
        except ValueError:
            hint = "such as TIMESTAMP '2026-03-01 10:00:00'"
            raise self._bad(parts[1].start_pos, f"{parts[1]} is not a timestamp", hint) from None
        return of.Constant(found if found.tzinfo else found.replace(tzinfo=UTC), parts[0].start_pos)

    def date(self, meta: Any, parts: list[Any]) -> of.Constant:
        try:
            return of.Constant(date.fromisoformat(_unquoted(parts[1])), parts[0].start_pos)
        except ValueError:
            hint = "such as DATE '2026-03-01'"
            raise self._bad(parts[1].start_pos, f"{parts[1]} is not a date", hint) from None

    def interval(self, meta: Any, parts: list[Any]) -> of.Constant:
        word, sign, amount, unit, until = parts
        text = _unquoted(amount) if amount.type == "STRING" else str(amount)
        hint = "such as INTERVAL '10' MINUTE, or INTERVAL '1 02:00:00' DAY TO SECOND"
        for each in (unit, until):
            if each is not None and each.upper().startswith(("MONTH", "YEAR")):
                raise self._bad(each.start_pos, "a month has no fixed length", "write days")
        try:
            found_us = _interval_us(text, unit, until)
        except (BadDuration, ValueError):
            raise self._bad(amount.start_pos, f"{amount} is not an interval", hint) from None
        except OverflowError:
            found_us = INTERVAL_US_MAX + 1
        if abs(found_us) > INTERVAL_US_MAX:
            raise self._bad(amount.start_pos, f"{amount} is too large", "at most 10,000 years are possible")
        found = timedelta(microseconds=-found_us if sign == "-" else found_us)
        return of.Constant(found, word.start_pos)


def _unquoted(token: str) -> str:
    return token[1:-1].replace("''", "'")


def _interval_us(text: str, unit: str | None, until: str | None) -> int:
    if unit is None:
        return parse_duration_us(text)
    if until is None:
        one_us = parse_duration_us(f"1 {unit}")
        if text.strip().isdecimal():
            return int(text) * one_us
        return round(float(text) * one_us)
    parts = _DAY_TO_SECOND.fullmatch(text)
    if parts is None:
        raise ValueError(text)
    first, last = unit.upper().removesuffix("S"), until.upper().removesuffix("S")
    if (first, last) == ("MINUTE", "SECOND") and parts["days"] is None and parts["seconds"] is None:
        return (int(parts["hours"]) * 60 + int(parts["minutes"])) * 1_000_000
    if first not in ("DAY", "HOUR") or last not in ("MINUTE", "SECOND"):
        raise ValueError(text)
    whole = timedelta(
        days=int(parts["days"] or 0),
        hours=int(parts["hours"]),
        minutes=int(parts["minutes"]),
        seconds=float(parts["seconds"] or 0),
    )
    return whole // timedelta(microseconds=1)
