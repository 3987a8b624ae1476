"""The plan of a job in the output mode `append`: parts of it are replaced by faster ones (`operators.append_plans`)."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from headrace.operators.append_plans import append_plan

_STATELESS = frozenset(
    {"CollectMetrics", "Filter", "Generate", "MapInArrow", "MapInPandas", "Project", "SubqueryAlias", "Union"}
)
"""Steps below which a part is replaced. A step with state is planned for the watermark of the rows as they are."""


def for_append(rows: DataFrame) -> DataFrame:
    """The same rows for a job in the mode `append`."""
    spark = rows.sparkSession
    top = rows._jdf.queryExecution().analyzed()
    replaced = _Replacement(spark).of(top)
    if replaced is None:
        return rows
    jvm: Any = spark._jvm
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, replaced), spark)


class _Replacement:
    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._catalyst = jvm.org.apache.spark.sql.catalyst
        self._built: dict[str, DataFrame | None] = {}

    def of(self, node: Any) -> Any | None:
        """The node with parts replaced; None if it has none."""
        kind = node.getClass().getSimpleName()
        if kind not in _STATELESS:
            return None
        if kind == "SubqueryAlias":
            other = self._other(node.alias())
            if other is not None:
                return self._with_columns_of(node, other._jdf.queryExecution().analyzed())
        children = _list(node.children())
        replaced = [self.of(child) for child in children]
        if not any(replaced):
            return None
        both = [new or child for new, child in zip(replaced, children, strict=True)]
        return node.withNewChildren(self._jvm.PythonUtils.toSeq(both).toIndexedSeq())

    def _other(self, alias: str) -> DataFrame | None:
        if alias not in self._built:
            self._built[alias] = append_plan(alias)
        return self._built[alias]

    def _with_columns_of(self, node: Any, other: Any) -> Any | None:
        """The other plan, whose columns have the identities and the metadata of those of the node; None if a column has
        another type."""
        columns, others = _list(node.output()), _list(other.output())
        if [each.name() for each in columns] != [each.name() for each in others]:
            return None
        if any(a.dataType().json() != b.dataType().json() for a, b in zip(columns, others, strict=True)):
            return None
        nothing = self._jvm.PythonUtils.toSeq([])
        named = [
            self._catalyst.expressions.Alias(
                new,
                old.name(),
                old.exprId(),
                nothing,
                self._jvm.scala.Option.apply(old.metadata()),
                nothing,
            )
            for old, new in zip(columns, others, strict=True)
        ]
        return self._catalyst.plans.logical.Project(self._jvm.PythonUtils.toSeq(named), other)


def _list(scala_seq: Any) -> list[Any]:
    return [scala_seq.apply(position) for position in range(scala_seq.size())]
