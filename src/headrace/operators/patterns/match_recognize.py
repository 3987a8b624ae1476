"""Row patterns of SQL:2016 on streams and bounded rows."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec.structs import replace

from headrace.operators.emitted_times import (
    EmittedTime,
    emitted_time,
    require_final_rows,
    with_emitted_time,
)
from headrace.operators.late import DropLate, SideOutput
from headrace.operators.operator import (
    BadOperator,
    Operator,
    column,
    event_time_column,
    require_kind,
    require_text,
    require_watermark,
    time_us,
)
from headrace.operators.patterns import syntax as of
from headrace.operators.patterns.automaton import Automaton, TooLarge
from headrace.operators.patterns.binding import Bound, bind, check_types, walk
from headrace.operators.patterns.matching import Rules
from headrace.operators.patterns.parsing import parse, too_deep
from headrace.operators.patterns.pattern_step import (
    ORIGINAL,
    TIE,
    TIME,
    PatternLift,
    PatternShape,
    PatternStep,
)
from headrace.operators.patterns.place import OPERATOR, BadPattern
from headrace.operators.windows.skipped_rows import has_no_time, is_before_1970, skip_rows
from headrace.plan_names import EVENT_TIME, WATERMARK_DELAY

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

STEPS_MAX = 1_000_000
"""About a second. A pattern that takes more at one row tries a number of paths that grows exponentially."""

DEPTH_MAX = 100
"""Of expressions. Python's stack, on which they are evaluated, has a limit."""

OFFSET = "_offset"
"""The column of `read_topic` with the offset of the record, which orders rows of equal time."""

PatternLate = DropLate | SideOutput


@dataclass(frozen=True, slots=True)
class MatchRecognize(Operator):
    """Find sequences of rows that match a pattern, by the clauses of MATCH_RECOGNIZE of SQL:2016.

        payments.transform(op.MatchRecognize('''
            PARTITION BY card ORDER BY at
            MEASURES FIRST(small.amount) AS probe, LAST(big.amount) AS loss
            PATTERN (small{2,} big) WITHIN INTERVAL '10' MINUTE
            DEFINE small AS amount < 1, big AS amount > 500'''))

    On a stream, rows are ordered by their event time, and a match is emitted when the watermark has passed its last row
    and no row to come can change it. `RowPattern` makes the same in Python.

    text        the clauses, with MATCH_RECOGNIZE (…) around them or without
    rows_max    the most rows of a match. A stream needs this or WITHIN, unless the pattern itself has a bound
    steps_max   the most steps at one row, if conditions depend on the path of the match; more are an error
    late        what happens to late rows: `DropLate` or `SideOutput`
    """

    text: str
    rows_max: int | None = field(default=None, kw_only=True)
    steps_max: int = field(default=STEPS_MAX, kw_only=True)
    late: PatternLate | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        require_text(self.text, operator=OPERATOR, field="text", hint="write PATTERN (…) DEFINE …")
        for name in ("rows_max", "steps_max"):
            kinds = int | None if name == "rows_max" else int
            given = getattr(self, name)
            require_kind(given, kinds, operator=OPERATOR, field=name, hint="set a number")
            if given is not None and given < 1:
                raise BadOperator(OPERATOR, name, f"is {given}", hint="set a number of at least 1")
        require_kind(
            self.late,
            PatternLate | None,
            operator=OPERATOR,
            field="late",
            problem=", which is neither DropLate nor SideOutput: a match is final",
            hint='set late=op.SideOutput("topic") to keep late rows',
        )
        check_pattern(self.text)

    def __call__(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        from headrace.operators.state.keys import arrow_type, hash_columns
        from headrace.operators.state.spark import run_step
        from headrace.operators.tables.columns import row_parts

        require_final_rows(rows, operator=OPERATOR)
        time = self._time(rows)
        clauses = check_pattern(self.text)
        if not clauses.order_by and time is not None:
            clauses = replace(clauses, order_by=(of.SortTerm(time),))
        bound = bind(self.text, clauses, rows.columns)
        if rows.isStreaming:
            self._require_bound(bound)
        types = {each.name: arrow_type(each.dataType) for each in rows.schema.fields}
        ties = [_offset(rows)] if OFFSET in rows.columns and OFFSET not in _ordered(bound) else []
        shape = self._shape(bound, types, time, ties=len(ties) + 1, is_streaming=rows.isStreaming)
        if time is not None:
            reasons = {"no_time": has_no_time(time)}
            reasons |= {"before_1970": is_before_1970(time)} if rows.isStreaming else {}
            rows = skip_rows(rows, reasons, name=OPERATOR.lower())
        step = PatternStep(shape)
        parts = row_parts(rows, list(shape.columns))
        selected = rows.select(
            *hash_columns(rows, bound.keys, operator=OPERATOR),
            (F.lit(0).cast("bigint") if time is None else time_us(time)).alias(TIME),
            *(each.alias(f"{TIE}{number}") for number, each in enumerate([*ties, F.xxhash64(*parts)])),
            *(column(name).alias(shape.place(name), metadata={}) for name in shape.sent),
            *([_original(rows)] if shape.keeps_late else []),
        )
        lag_us = 0 if time is None else emitted_time(rows, time).lag_us
        results = run_step(
            selected,
            PatternLift(step.input_schema),
            step,
            name=OPERATOR.lower(),
            kept_for=self._kept_for(shape),
            late_topic=self.late.topic if isinstance(self.late, SideOutput) else None,
            alarm_above=self.late.alarm_above if isinstance(self.late, DropLate) else None,
            lag_us=lag_us,
        )
        return self._with_time(results, rows, shape, lag_us)

    def _time(self, rows: DataFrame) -> str | None:
        """The column with the event time; None for bounded rows that are not ordered by one."""
        from pyspark.sql.types import TimestampNTZType, TimestampType

        clauses = check_pattern(self.text)
        if not clauses.order_by:
            return event_time_column(rows, None, operator=OPERATOR, field="ORDER BY")
        term = bind(self.text, clauses, rows.columns).clauses.order_by[0]
        kind, metadata = rows.schema[term.column].dataType, rows.schema[term.column].metadata
        is_time = isinstance(kind, TimestampType | TimestampNTZType) and not term.is_descending
        measures = [each.expression for each in clauses.measures]
        needs_time = (
            rows.isStreaming
            or clauses.within_us is not None
            or any(
                isinstance(node, of.Call) and node.function == "match_rowtime"
                for each in measures
                for node in walk(each)
            )
        )
        if needs_time and not is_time:
            where = "a stream" if rows.isStreaming else "WITHIN and MATCH_ROWTIME()"
            shown = f"{term.column!r} is {kind.simpleString()}"
            problem = f"{where} must be ordered by a timestamp first, ascending; {shown}"
            raise BadPattern(self.text, term.at, problem, hint="ORDER BY the event time")
        if rows.isStreaming:
            require_watermark(rows, term.column, operator=OPERATOR, field="ORDER BY")
        is_declared = bool(metadata.get(EVENT_TIME)) or WATERMARK_DELAY in metadata
        return term.column if is_time and (needs_time or is_declared) else None

    def _require_bound(self, bound: Bound) -> None:
        """Raise if the state of a stream would have no bound, or its end would be needed."""
        is_bounded = bound.clauses.within_us is not None or self.rows_max is not None
        for part in of.walk_pattern(bound.clauses.pattern):
            if isinstance(part, of.Anchor) and not part.is_start:
                problem = "a stream has no last row, so $ never matches"
                raise BadPattern(self.text, part.at, problem, hint="remove it; WITHIN ends a match")
            if isinstance(part, of.Repetition) and part.most is None and not is_bounded:
                raise BadPattern(
                    self.text,
                    part.at,
                    "a match may have any number of rows, so the state of a stream would have no bound",
                    hint="add WITHIN INTERVAL '10' MINUTE after the pattern, or set rows_max=",
                )

    def _shape(
        self,
        bound: Bound,
        types: Mapping[str, pa.DataType],
        time: str | None,
        *,
        ties: int,
        is_streaming: bool,
    ) -> PatternShape:
        return pattern_shape(
            self.text,
            bound,
            types,
            time,
            rows_max=self.rows_max,
            steps_max=self.steps_max,
            ties=ties,
            keeps_late=is_streaming and isinstance(self.late, SideOutput),
        )

    def _kept_for(self, shape: PatternShape) -> str:
        columns = ", ".join(f"{name} {kind}" for name, kind in shape.columns.items())
        return f"MatchRecognize({' '.join(self.text.split())}; rows_max={self.rows_max}; time={shape.time}; {columns})"

    def _with_time(self, results: DataFrame, rows: DataFrame, shape: PatternShape, lag_us: int) -> DataFrame:
        """The results with their event time: that of the rows, or MATCH_ROWTIME()."""
        clauses = shape.bound.clauses
        if shape.time is None:
            return results
        if clauses.rows_per_match == "one":
            name = next((name for name, each in shape.bound.measures if isinstance(each, of.MatchTime)), None)
        else:
            name = shape.time
        is_in_time = clauses.within_us is not None and shape.lookahead == 0
        if name is None or (rows.isStreaming and not is_in_time):
            return results
        emitted = EmittedTime(lag_us=lag_us + (clauses.within_us or 0))
        return with_emitted_time(results, name, rows.schema[shape.time], emitted)


@functools.lru_cache(maxsize=100)
def check_pattern(text: str) -> of.Clauses:
    """The clauses of a text. Raises with the place in the text if it is invalid, as far as that is known without
    columns."""
    clauses = parse(text)
    try:
        bound = bind(text, clauses)
        for each in bound.expressions():
            _require_shallow(text, each)
        Automaton(clauses.pattern, {name: number for number, name in enumerate(bound.variables)})
    except TooLarge:
        raise BadPattern(
            text,
            clauses.pattern_at,
            "the pattern is too large when its repetitions are written out",
            hint="shorten it",
        ) from None
    except RecursionError:
        raise too_deep(text, clauses.pattern_at) from None
    return clauses


def _require_shallow(text: str, node: of.Expression, depth: int = 0) -> None:
    if depth > DEPTH_MAX:
        raise too_deep(text, node.at)
    for each in of.children(node):
        _require_shallow(text, each, depth + 1)


def pattern_shape(
    text: str,
    bound: Bound,
    types: Mapping[str, pa.DataType],
    time: str | None,
    *,
    rows_max: int | None = None,
    steps_max: int = STEPS_MAX,
    ties: int = 0,
    keeps_late: bool = False,
) -> PatternShape:
    """The columns that a pattern needs and emits."""
    kinds = check_types(text, bound, types, time)
    measures = {name: pa.string() if pa.types.is_null(kind) else kind for name, kind in kinds.items()}
    ordered = [each.column for each in bound.clauses.order_by]
    if bound.clauses.rows_per_match == "one":
        output, carried = list(bound.keys), [*bound.keys, *ordered, *bound.columns()]
    else:
        output, carried = list(dict.fromkeys([*bound.keys, *ordered])), list(types)
    if time is not None:
        carried.append(time)
    for each in bound.clauses.measures:
        taken = output if bound.clauses.rows_per_match == "one" else carried
        if each.name in taken:
            raise BadPattern(
                text, each.at, f"measure {each.name!r} has the name of a column", hint="choose another name"
            )
    output += [*measures]
    if bound.clauses.rows_per_match != "one":
        output += [name for name in types if name not in output]
    return PatternShape(
        rules=Rules(bound=bound, text=text, rows_max=rows_max, steps_max=steps_max),
        columns={name: types[name] for name in dict.fromkeys(carried)},
        output=output,
        measures=measures,
        time=time,
        ties=ties,
        keeps_late=keeps_late,
    )


def _ordered(bound: Bound) -> list[str]:
    return [each.column for each in bound.clauses.order_by]


def _offset(rows: DataFrame) -> Column:
    from pyspark.sql import functions as F

    return F.coalesce(F.col(OFFSET).cast("bigint"), F.lit(0).cast("bigint"))


def _original(rows: DataFrame) -> Column:
    from headrace.operators.late_rows import original_row

    return original_row(rows).alias(ORIGINAL)
