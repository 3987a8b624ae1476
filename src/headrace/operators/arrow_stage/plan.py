"""The stage between a source and an operator: the filters, projections and counts of Spark's analyzed plan, on Arrow.

`find_stage` reads the plan of rows down to the alias of their source. Columns that nothing needs are not translated, as
Spark does not evaluate them either.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from pyspark.sql.pandas.types import to_arrow_schema

from headrace.operators.arrow_stage.catalyst import ExprId, Node, delay_ms, read_expression, read_expressions
from headrace.operators.arrow_stage.expressions import (
    And,
    Column,
    Constant,
    Defined,
    Doubtful,
    Expression,
    IsNull,
    Not,
    Rows,
    columns_of,
)
from headrace.operators.arrow_stage.translate import NotTranslated, Translation, Typed, arrow_type
from headrace.operators.spark_plans import analyzed, kind_of
from headrace.plan_names import COLUMNS_ALIAS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log = logging.getLogger(__name__)

Counts = dict[str, dict[str, int]]
"""Rows by the name of a metric and the name of its value."""


class Filter(Struct, frozen=True, tag=True):
    """Only rows for which the condition is true."""

    condition: Expression


class Observe(Struct, frozen=True, tag=True):
    """A metric: for each of its values, by name, the number of rows for which a condition is true."""

    metric: str
    conditions: tuple[tuple[str, Expression], ...]


class Watermark(Struct, frozen=True, tag=True):
    """The watermark is declared here: it follows the largest time of the rows that reach this step."""

    time: Expression
    delay_ms: int


StageStep = Filter | Observe | Watermark


class Applied(NamedTuple):
    """What a stage makes of a table."""

    table: pa.Table
    counts: Counts
    newest_us: int | None
    """The largest time at the `Watermark`, in microseconds; None without a time."""


class StagePlan(Struct, frozen=True, kw_only=True):
    """Steps on the columns of a source, in their order, and the columns of the result."""

    source: str
    """The id of the source."""
    columns: dict[str, pa.DataType]
    """The columns of the source that are needed, in its order."""
    definitions: tuple[Expression, ...]
    """What `Defined` stands for. A definition refers to earlier ones only."""
    steps: tuple[StageStep, ...]
    results: tuple[tuple[str, Expression], ...]
    schema: pa.Schema
    """Of the result; its names may occur twice."""

    @property
    def columns_needed(self) -> tuple[str, ...]:
        return tuple(self.columns)

    @property
    def watermark(self) -> Watermark | None:
        return next((each for each in self.steps if isinstance(each, Watermark)), None)

    @property
    def metrics(self) -> dict[str, tuple[str, ...]]:
        """The names of the values of each metric."""
        return {
            each.metric: tuple(name for name, _ in each.conditions)
            for each in self.steps
            if isinstance(each, Observe)
        }

    @property
    def can_fail(self) -> bool:
        """Whether Spark fails with some rows, such as for a sum that overflows."""
        expressions = [*(each for _, each in self.results), *_expressions_of(self.steps)]
        return any(each.can_fail for each in expressions)

    def _columns_after(self, number: int) -> list[str]:
        """The columns that the steps behind this one and the results need; at least one."""
        expressions = [*_expressions_of(self.steps[number + 1 :]), *(each for _, each in self.results)]
        names = columns_of(expressions, self.definitions)
        return [name for name in self.columns if name in names] or list(self.columns)[:1]

    def apply(self, table: pa.Table) -> Applied:
        """The rows that pass, and the counts. Raises `Doubtful` if Spark has to evaluate these rows itself."""
        rows = Rows(table.select(list(self.columns)), kinds_of=self.columns, definitions=self.definitions)
        counts: Counts = {}
        newest_us = None
        for number, step in enumerate(self.steps):
            if isinstance(step, Filter):
                rows = _filtered(rows, step.condition, self._columns_after(number))
            elif isinstance(step, Observe):
                counts[step.metric] = {name: _count(rows, condition) for name, condition in step.conditions}
            else:
                newest_us = _newest_us(rows, step.time)
        arrays = [rows.array(each) for _, each in self.results]
        return Applied(pa.Table.from_arrays(arrays, schema=self.schema), counts, newest_us)


def _parts(condition: Expression) -> list[Expression]:
    """The conditions that are joined by AND."""
    if not isinstance(condition, And):
        return [condition]
    return [part for side in condition.inputs for part in _parts(side)]


def _filtered(rows: Rows, condition: Expression, columns: list[str]) -> Rows:
    """The rows with a true condition, and those columns that are needed further."""
    mask = rows.value(condition)
    if isinstance(mask, pa.Scalar):
        mask = pa.repeat(pa.scalar(mask.as_py() is True), rows.count)
    if mask.null_count == 0 and pc.all(mask, min_count=0).as_py():
        return rows
    return rows.where(mask, columns)


def _count(rows: Rows, condition: Expression) -> int:
    found = rows.value(condition)
    if isinstance(found, pa.Scalar):
        return rows.count if found.as_py() is True else 0
    return int(found.true_count)


def _newest_us(rows: Rows, time: Expression) -> int | None:
    newest = pc.max(rows.array(time))
    return int(newest.value) if newest.is_valid else None


def find_stage(rows: DataFrame) -> StagePlan | None:
    """The stage that evaluates these rows from the columns of their source; None if Spark has to."""
    try:
        stage = _Reading(rows).stage()
        _try_out(stage)
    except NotTranslated as reason:
        _log.debug("Spark evaluates the rows itself: %s", reason)
        return None
    return stage


def _try_out(stage: StagePlan) -> None:
    """Evaluate the stage on no rows, and on a row of nulls, so that Arrow has all functions that it needs."""
    for count in (0, 1):
        nothing = pa.table({name: pa.nulls(count, kind) for name, kind in stage.columns.items()})
        try:
            stage.apply(nothing)
        except Doubtful:
            continue
        except (pa.ArrowException, TypeError) as error:
            raise NotTranslated(str(error)) from error


class _Reading:
    """One plan that is read. Its nodes are objects of the JVM."""

    def __init__(self, rows: DataFrame) -> None:
        self._rows = rows
        self._defined: dict[ExprId, Node] = {}
        """Expressions of projections, by the id of their column."""
        self._columns: dict[ExprId, Typed] = {}
        """Columns that are translated."""
        self._definitions: list[Expression] = []
        self._translation = Translation(self._resolved)

    def stage(self) -> StagePlan:
        top = analyzed(self._rows)
        results = [each.expr_id for each in read_expressions(top.output())]
        source, translations = self._read(top)
        source_columns = self._source_columns(source)
        schema = to_arrow_schema(self._rows.schema, timezone="UTC")
        steps = self._as_optimized([each() for each in reversed(translations)])
        if sum(isinstance(each, Watermark) for each in steps) > 1:
            raise NotTranslated("two watermarks")
        named = []
        for wanted, field in zip(results, schema, strict=True):
            expression, kind = self._resolved(wanted)
            if kind != field.type:
                raise NotTranslated(f"{field.name} {kind}")
            named.append((field.name, expression))
        expressions = [*_expressions_of(steps), *(each for _, each in named)]
        names = columns_of(expressions, self._definitions)
        # A table without columns does not know the number of its rows.
        names = names or [_smallest(source_columns)]
        return StagePlan(
            source=source.alias().removeprefix(COLUMNS_ALIAS),
            columns={name: kind for name, kind in source_columns.items() if name in names},
            definitions=tuple(self._definitions),
            steps=steps,
            results=tuple(named),
            schema=schema,
        )

    def _as_optimized(self, steps: list[StageStep]) -> tuple[StageStep, ...]:
        """Spark's optimizer moves conditions that do not use the time below the watermark, up to the next metric: rows
        that they drop do not move the watermark."""
        place = next((n for n, each in enumerate(steps) if isinstance(each, Watermark)), None)
        if place is None:
            return tuple(steps)
        watermark = steps[place]
        end = next((n for n in range(place + 1, len(steps)) if not isinstance(steps[n], Filter)), len(steps))
        conditions = [part for each in steps[place + 1 : end] for part in _parts(*_expressions_of((each,)))]
        times = set(columns_of(_expressions_of((watermark,)), self._definitions))
        uses_time = [not times.isdisjoint(columns_of([each], self._definitions)) for each in conditions]
        below = [Filter(each) for each, is_above in zip(conditions, uses_time, strict=True) if not is_above]
        above = [Filter(each) for each, is_above in zip(conditions, uses_time, strict=True) if is_above]
        return (*steps[:place], *below, watermark, *above, *steps[end:])

    def _read(self, node: Any) -> tuple[Any, list[Callable[[], StageStep]]]:
        """The node of the source, and how to translate the steps above it, from the top."""
        found: list[Callable[[], StageStep]] = []
        while True:
            kind = kind_of(node)
            if kind == "SubqueryAlias":
                if node.alias().startswith(COLUMNS_ALIAS):
                    return node, found
            elif kind == "Project":
                self._define(read_expressions(node.projectList()))
            elif kind == "Filter":
                found.append(self._filter(read_expression(node.condition())))
            elif kind == "CollectMetrics":
                found.append(self._observe(node.name(), read_expressions(node.metrics())))
            elif kind == "EventTimeWatermark":
                found.append(self._watermark(node))
            elif kind != "View":
                raise NotTranslated(kind)
            node = node.child()

    def _define(self, listed: tuple[Node, ...]) -> None:
        for each in listed:
            if each.name == "Alias":
                if each.expr_id in self._defined:
                    raise NotTranslated("a column with two definitions")
                self._defined[each.expr_id] = each
            elif each.name != "AttributeReference":
                raise NotTranslated(each.name)

    def _source_columns(self, source: Any) -> dict[str, pa.DataType]:
        kinds: dict[str, pa.DataType] = {}
        for each in read_expressions(source.output()):
            name = each.fields["name"]
            if name in kinds or each.expr_id in self._defined:
                raise NotTranslated(f"two columns {name}")
            try:
                kinds[name] = arrow_type(each.fields["dataType"])
            except NotTranslated:
                continue  # unless it is needed
            self._columns[each.expr_id] = Typed(Column(name), kinds[name])
        return kinds

    def _resolved(self, wanted: ExprId) -> Typed:
        found = self._columns.get(wanted)
        if found is None:
            node = self._defined.get(wanted)
            if node is None:
                raise NotTranslated("a column that is not defined")
            found = self._columns[wanted] = self._translated(node)
        return found

    def _translated(self, node: Node) -> Typed:
        expression, kind = Translation(self._resolved).typed(node)
        if isinstance(expression, Column | Constant | Defined):
            return Typed(expression, kind)
        self._definitions.append(expression)
        return Typed(Defined(len(self._definitions) - 1, expression.can_fail), kind)

    def _filter(self, condition: Node) -> Callable[[], StageStep]:
        return lambda: Filter(self._translation.expression(condition))

    def _observe(self, metric: str, listed: tuple[Node, ...]) -> Callable[[], StageStep]:
        return lambda: Observe(metric, tuple((each.fields["name"], self._counted(each)) for each in listed))

    def _counted(self, node: Node) -> Expression:
        """The condition of `count_if` or `count`."""
        (aggregate,) = node.children
        if node.name != "Alias" or aggregate.name != _AGGREGATE or len(aggregate.children) != 1:
            raise NotTranslated(node.name)
        (function,) = aggregate.children
        if len(function.children) != 1:
            raise NotTranslated(function.name)
        condition = self._translation.expression(function.children[0])
        if function.name == "aggregate.CountIf":
            return condition
        if function.name == "aggregate.Count":
            return Not(IsNull(condition))
        raise NotTranslated(function.name)

    def _watermark(self, node: Any) -> Callable[[], StageStep]:
        def translated() -> Watermark:
            expression, kind = self._translation.typed(read_expression(node.eventTime()))
            if not pa.types.is_timestamp(kind):
                raise NotTranslated(str(kind))
            return Watermark(expression, delay_ms(node))

        return translated


_AGGREGATE = "aggregate.AggregateExpression"


def _expressions_of(steps: tuple[StageStep, ...]) -> list[Expression]:
    found: list[Expression] = []
    for each in steps:
        if isinstance(each, Filter):
            found.append(each.condition)
        elif isinstance(each, Observe):
            found += [condition for _, condition in each.conditions]
        else:
            found.append(each.time)
    return found


def _smallest(columns: Mapping[str, pa.DataType]) -> str:
    """A column of fixed width, if there is one."""
    fixed = [name for name, kind in columns.items() if pa.types.is_primitive(kind)]
    return next(iter([*fixed, *columns]))
