"""Expressions that may fail on a row, without stopping the batch: the row becomes a dead letter instead.

Spark has no `try(…)`, but the expression behind its `try_` functions takes any other one: it gives null where that
fails. A struct around the value tells a failure from a value that is null.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from headrace.operators.operator import column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FAILED = "headrace_failed"
"""The column of a plan with the row on which an expression failed, and the reason; null for all other rows."""

VALUE = "v"

_SAFE = frozenset(
    (
        "Alias",
        "AttributeReference",
        "Literal",
        "And",
        "Or",
        "Not",
        "IsNull",
        "IsNotNull",
        "EqualTo",
        "EqualNullSafe",
        "LessThan",
        "LessThanOrEqual",
        "GreaterThan",
        "GreaterThanOrEqual",
        "In",
        "InSet",
        "Coalesce",
        "CaseWhen",
        "If",
        "Upper",
        "Lower",
        "Concat",
        "Length",
        "StringTrim",
        "Like",
        "Contains",
        "StartsWith",
        "EndsWith",
        "GetStructField",
        "CreateNamedStruct",
        "Year",
        "Month",
        "DayOfMonth",
        "TruncDate",
        "TruncTimestamp",
    )
)
"""Spark's expressions that have a value for every input. A cast has one if it only widens a number."""

_WIDENING = ("tinyint", "smallint", "int", "bigint")


def can_fail(rows: DataFrame, sql: str) -> bool:
    from pyspark.sql import functions as F

    analyzed = rows.select(F.expr(sql).alias(VALUE))._jdf.queryExecution().analyzed()
    return not _is_safe(analyzed.expressions().head())


def _is_safe(expression: Any) -> bool:
    name = expression.getClass().getSimpleName()
    children = expression.children()
    parts = [children.apply(number) for number in range(children.size())]
    if name == "Cast":
        kinds = [expression.child().dataType().simpleString(), expression.dataType().simpleString()]
        is_wider = all(kind in _WIDENING for kind in kinds) and kinds == sorted(kinds, key=_WIDENING.index)
        return (is_wider or kinds[1] == "string") and _is_safe(parts[0])
    return name in _SAFE and all(map(_is_safe, parts))


def tried(rows: DataFrame, sql: str) -> Column:
    """A struct with the value, or null if the expression fails."""
    from pyspark.sql import Column
    from pyspark.sql import functions as F

    jvm: Any = rows.sparkSession._jvm
    utils = jvm.org.apache.spark.sql.classic.ExpressionUtils
    # Spark computes parts that occur several times in advance, outside of the attempt; but not those below a condition.
    guarded: Any = F.when(F.spark_partition_id() >= 0, F.struct(F.expr(sql).alias(VALUE)))
    attempt = jvm.org.apache.spark.sql.catalyst.expressions.TryEval(utils.expression(guarded._jc))
    return Column(utils.column(attempt))


def failure(rows: Iterable[str], shown: Mapping[str, str], sql: str) -> Column:
    """The content of `FAILED`: the row, and the reason."""
    from pyspark.sql import functions as F

    reason = f"{sql} cannot be computed: a division by zero, an overflow, or a value that cannot be cast"
    content = F.struct(*(column(name).alias(shown.get(name, name)) for name in rows))
    return F.to_json(
        F.struct(F.lit(reason).alias("reason"), content.alias("row")), {"ignoreNullFields": "false"}
    )
