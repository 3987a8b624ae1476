"""The plan of a job in the output mode `append`: parts of it are replaced by faster ones (`operators.append_plans`)."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from headrace.operators.append_plans import append_plan
from headrace.operators.spark_plans import (
    Node,
    analyzed,
    children_of,
    frame_of,
    kind_of,
    with_children,
    with_columns_of,
)

_STATELESS = frozenset(
    {"CollectMetrics", "Filter", "Generate", "MapInArrow", "MapInPandas", "Project", "SubqueryAlias", "Union"}
)
"""Steps below which a part is replaced. A step with state is planned for the watermark of the rows as they are."""


def for_append(rows: DataFrame) -> DataFrame:
    """The same rows for a job in the mode `append`."""
    replaced = _Replacement(rows.sparkSession).of(analyzed(rows))
    return rows if replaced is None else frame_of(replaced, rows.sparkSession)


class _Replacement:
    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._built: dict[str, DataFrame | None] = {}

    def of(self, node: Node) -> Node | None:
        """The node with parts replaced; None if it has none."""
        kind = kind_of(node)
        if kind not in _STATELESS:
            return None
        other = self._other(node.alias()) if kind == "SubqueryAlias" else None
        if other is not None:
            return with_columns_of(node, analyzed(other), self._spark)
        children = children_of(node)
        replaced = [self.of(child) for child in children]
        if not any(replaced):
            return None
        both = [new or child for new, child in zip(replaced, children, strict=True)]
        return with_children(node, both, self._spark)

    def _other(self, alias: str) -> DataFrame | None:
        if alias not in self._built:
            self._built[alias] = append_plan(alias)
        return self._built[alias]
