"""A plan as a DataFrame: each node becomes an operator, and each expression one of Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.errors import HeadraceError
from headrace.operators.operator import column
from headrace.plan_names import FAILED_ROW
from headrace.views.definition import Definition
from headrace.views.errors import BadView
from headrace.views.sql.failures import FAILED, VALUE, can_fail, failure, tried
from headrace.views.sql.plan import Group, Join, Node, Output, Plan, Project, Scan, Top, Union
from headrace.views.sql.planning import parse
from headrace.views.sql.scan import OFFSET, OP, Read, changelog, changes
from headrace.views.topic_columns import TopicColumns, columns_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headrace.kafka.cluster import Cluster

_CONDITION = "headrace_condition"
_HERE = "headrace_here"


def rows_of(
    definition: Definition,
    spark: SparkSession,
    cluster: Cluster,
    *,
    columns: Mapping[str, TopicColumns] | None = None,
    bounded: bool = False,
) -> DataFrame:
    """The changes of the view's rows. Written by key to a sink that understands `op`, they are the result of the SQL
    over the current tables after each batch.

    A row on which the SQL fails has the reason in `_failed`, and becomes a dead letter.
    """
    from headrace.pipeline import read_topic

    def read(scan: Scan, fields: StructType) -> DataFrame:
        is_change = scan.topic.kind == "changes"
        return read_topic(
            spark,
            scan.topic.topic,
            format="changes" if is_change else "json",
            schema=fields,
            tombstones=is_change,
            bounded=bounded,
            bootstrap=cluster.bootstrap,
        )

    return rows_of_plan(parse(definition, columns or columns_of(definition, cluster)), read)


def rows_of_plan(plan: Plan, read: Read) -> DataFrame:
    from pyspark.errors import AnalysisException

    try:
        return _Rows(plan, read).result()
    except AnalysisException as error:
        problem = str(error).split("SQLSTATE")[0].splitlines()[0]
        raise BadView(
            f"view {plan.view}: Spark rejects its SQL: {problem}",
            hint="check the types: CAST(… AS …) converts a value",
        ) from error
    except HeadraceError as error:
        if isinstance(error, BadView):
            raise
        raise BadView(f"view {plan.view}: {error.message}", hint=error.hint) from error


class _Rows:
    def __init__(self, plan: Plan, read: Read) -> None:
        self._plan = plan
        self._read = read

    def result(self) -> DataFrame:
        from pyspark.sql import functions as F

        plan = self._plan
        rows = self._node(plan.root)
        if not plan.is_unique and not plan.is_stateless:
            rows = self._one_of_each_key(rows)
        more = [column(OFFSET)] if plan.is_stateless else []
        if FAILED in rows.columns:
            if not plan.is_stateless:
                rows = rows.where((F.col(OP) == "+") | column(FAILED).isNull())
            more.append(column(FAILED).alias(FAILED_ROW))
        return rows.select(
            *(column(name).alias(shown) for shown, name in plan.columns.items()), column(OP), *more
        )

    def _node(self, node: Node) -> DataFrame:
        match node:
            case Scan():
                return self._scan(node)
            case Project():
                return self._project(node)
            case Join():
                return self._join(node)
            case Group():
                return self._group(node)
            case Top():
                return self._top(node)
            case Union():
                return self._union(node)

    def _scan(self, node: Scan) -> DataFrame:
        if not self._plan.is_stateless:
            return changelog(node, self._read)
        rows = changes(node, self._read)
        return _failed_deleted(rows) if FAILED in rows.columns else rows

    # Expressions

    def _project(self, node: Project) -> DataFrame:
        rows = self._node(node.input)
        if node.where is not None:
            rows = self._where(rows, node.where)
        rows, values = self._values(rows, node.outputs)
        kept = [column(name) for name in (OP, OFFSET, FAILED) if name in rows.columns]
        return rows.select(*values, *kept)

    def _where(self, rows: DataFrame, where: Output) -> DataFrame:
        """The rows that meet the condition. In a stateless view, the others are deletes."""
        from pyspark.sql import functions as F

        columns = rows.columns
        if can_fail(rows, where.sql):
            before = self._own(rows)
            rows = rows.withColumn(_CONDITION, tried(rows, where.sql))
            rows = self._with_failure(rows, column(_CONDITION).isNull(), before, where)
            is_met = F.coalesce(column(_CONDITION).getField(VALUE), F.lit(False))
        else:
            is_met = F.coalesce(F.expr(where.sql), F.lit(False))
        if self._plan.is_stateless:
            rows = rows.withColumn(OP, F.when(is_met, F.col(OP)).otherwise("d"))
        else:
            rows = rows.where(is_met | column(FAILED).isNotNull() if FAILED in rows.columns else is_met)
        return rows.select(*(column(name) for name in dict.fromkeys([*columns, *_failed(rows)])))

    def _values(self, rows: DataFrame, outputs: Sequence[Output]) -> tuple[DataFrame, list[Column]]:
        from pyspark.sql import functions as F

        before = self._own(rows)
        attempts: dict[str, Output] = {}
        values: list[Column] = []
        for each in outputs:
            if each.sql == "*":
                values += [column(name) for name in before]
            elif can_fail(rows, each.sql):
                attempts[each.name] = each
                values.append(column(f"try_{each.name}").getField(VALUE).alias(each.name))
            else:
                values.append(F.expr(each.sql).alias(each.name))
        if attempts:
            tries = [tried(rows, each.sql).alias(f"try_{name}") for name, each in attempts.items()]
            rows = rows.select("*", *tries)
        for name, each in attempts.items():
            rows = self._with_failure(rows, column(f"try_{name}").isNull(), before, each)
        return rows, values

    def _with_failure(
        self, rows: DataFrame, is_failed: Column, before: Sequence[str], output: Output
    ) -> DataFrame:
        """A row on which an expression fails is none of the result: it becomes a dead letter. Where each record is a
        change of the view, it deletes the row of its key too; a delete itself cannot fail."""
        from pyspark.sql import functions as F

        reason = F.when(is_failed & (F.col(OP) != "d"), failure(before, self._plan.shown, output.shown))
        if FAILED in rows.columns:
            reason = F.coalesce(column(FAILED), reason)
        rows = rows.withColumn(FAILED, reason)
        return _failed_deleted(rows) if self._plan.is_stateless else rows

    def _own(self, rows: DataFrame) -> list[str]:
        return [name for name in rows.columns if name not in (OP, OFFSET, FAILED, _CONDITION)]

    # Operators

    def _group(self, node: Group) -> DataFrame:
        from headrace.operators.tables.group_changes import GroupChanges

        rows = self._node(node.input)
        by = (*node.by, *_failed(rows))
        aggregates = dict(node.aggregates) or {"headrace_count": "count(*)"}
        groups = rows.transform(GroupChanges(by=by, aggregate=aggregates))
        return groups if node.aggregates else groups.drop("headrace_count")

    def _top(self, node: Top) -> DataFrame:
        from headrace.operators.tables.newest import Newest

        rows = self._node(node.input)
        by = (*node.by, *_failed(rows))
        return rows.transform(Newest(node.count, by=by, order=dict(node.order), rank=node.rank))

    def _one_of_each_key(self, rows: DataFrame) -> DataFrame:
        """The key does not distinguish the rows: the greatest of each key."""
        from pyspark.sql.types import ArrayType, MapType, StructType

        from headrace.operators.tables.newest import Newest

        key = [self._plan.columns[name] for name in self._plan.key]
        order = [
            field.name
            for field in rows.schema
            if field.name not in (OP, FAILED)
            and not isinstance(field.dataType, ArrayType | MapType | StructType)
        ]
        return rows.transform(Newest(1, by=(*key, *_failed(rows)), order=order))

    def _union(self, node: Union) -> DataFrame:
        from headrace.operators.tables.columns import as_changelog

        inputs = [self._node(each) for each in node.inputs]
        rows = inputs[0]
        for other in inputs[1:]:
            rows = rows.unionByName(other, allowMissingColumns=True)
        return as_changelog(rows)

    def _join(self, node: Join) -> DataFrame:
        from pyspark.sql import functions as F

        from headrace.operators.join_tables import HOW, JoinTables

        left, right = _like(self._node(node.left), self._node(node.right), node)
        failed = [bool(_failed(side)) for side in (left, right)]
        if not any(failed):
            return left.transform(JoinTables(right, on=dict(node.pairs), how=node.how))
        # A row on which an expression failed matches nothing. So that it is not lost, it is kept as by an outer join.
        wanted = HOW[node.how]
        how = "full" if failed[1] or wanted[1] else "left"
        left = left.withColumn(f"{_HERE}_left", F.lit(True)).withColumnRenamed(FAILED, f"{FAILED}_left")
        right = right.withColumn(f"{_HERE}_right", F.lit(True)).withColumnRenamed(FAILED, f"{FAILED}_right")
        rows = left.transform(JoinTables(right, on=dict(node.pairs), how=how))  # type: ignore[arg-type]
        reasons = [column(name) for name in (f"{FAILED}_left", f"{FAILED}_right") if name in rows.columns]
        rows = rows.withColumn(FAILED, F.coalesce(*reasons))
        is_left, is_right = (column(f"{_HERE}_{side}").isNotNull() for side in ("left", "right"))
        is_kept = (is_left & is_right) | column(FAILED).isNotNull()
        for is_wanted, is_here in zip(wanted, (is_left, is_right), strict=True):
            is_kept = is_kept | is_here if is_wanted else is_kept
        names = [f"{_HERE}_left", f"{_HERE}_right", f"{FAILED}_left", f"{FAILED}_right"]
        return rows.where(is_kept).drop(*names)


def _failed_deleted(rows: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    return rows.withColumn(OP, F.when(column(FAILED).isNotNull(), "d").otherwise(F.col(OP)))


def _failed(rows: DataFrame) -> list[str]:
    return [FAILED] if FAILED in rows.columns else []


def _like(left: DataFrame, right: DataFrame, node: Join) -> tuple[DataFrame, DataFrame]:
    """The sides with the same types in the columns that are compared: numbers are widened."""
    from pyspark.sql.types import NumericType

    for one, other in node.pairs:
        kinds = left.schema[one].dataType, right.schema[other].dataType
        if kinds[0] != kinds[1] and all(isinstance(kind, NumericType) for kind in kinds):
            wide = _wide(*(kind.simpleString() for kind in kinds))
            left = left.withColumn(one, column(one).cast(wide))
            right = right.withColumn(other, column(other).cast(wide))
    return left, right


def _wide(one: str, other: str) -> str:
    integers = ("tinyint", "smallint", "int", "bigint")
    if one in integers and other in integers:
        return "bigint"
    return "double" if {"double", "float"} & {one, other} else "decimal(38,10)"
