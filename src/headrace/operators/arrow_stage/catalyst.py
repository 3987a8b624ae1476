"""Expressions of Spark's optimizer, Catalyst, as nodes that Spark itself has written as JSON.

A call of a method of the JVM takes 0.2 ms, so a list of expressions is read by one call. The JSON has no enumerations
no characters and no metadata: `setting` asks for one of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from pyspark import SparkContext

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

_PACKAGE = "org.apache.spark.sql.catalyst.expressions."

ExprId = tuple[int, str]
"""The identity of a column in a plan."""


class Node(Struct, frozen=True, eq=False):
    """One expression."""

    name: str
    """Of its class, without the package."""
    fields: Mapping[str, Any]
    children: tuple[Node, ...]
    number: int
    """Among the expressions that were read together, each before its children."""
    root: JavaObject

    def setting(self, *path: str) -> str | None:
        """The text of a value of the object itself, such as that of `evalContext().evalMode()`."""
        own = self.root.apply(self.number)
        if own.getClass().getSimpleName() != self.name:
            return None
        for each in path:
            own = getattr(own, each)()
        return str(own if isinstance(own, str | int) else own.toString())

    @property
    def expr_id(self) -> ExprId:
        return expr_id(self.fields["exprId"])


def expr_id(written: Mapping[str, Any]) -> ExprId:
    return written["id"], written["jvmId"]


def read_expressions(expressions: JavaObject) -> tuple[Node, ...]:
    """The nodes of a Seq of expressions."""
    if expressions.isEmpty():
        return ()
    return _read(_together(expressions)).children


def read_expression(expression: JavaObject) -> Node:
    return _read(expression)


def delay_ms(watermark: JavaObject) -> int:
    """The delay of an `EventTimeWatermark`."""
    return int(_catalyst().plans.logical.EventTimeWatermark.getDelayMs(watermark.delay()))


def _together(expressions: JavaObject) -> JavaObject:
    """One expression with all of them as children, which can be written by one call. It is never evaluated."""
    return _catalyst().expressions.Coalesce(expressions)


def _catalyst() -> Any:
    context: Any = SparkContext._active_spark_context
    return context._jvm.org.apache.spark.sql.catalyst


def _read(root: JavaObject) -> Node:
    return _node(enumerate(json.loads(root.toJSON())), root)


def _node(written: Iterator[tuple[int, dict[str, Any]]], root: JavaObject) -> Node:
    number, fields = next(written)
    children = tuple(_node(written, root) for _ in range(fields["num-children"]))
    name = fields["class"]
    return Node(
        name=name.removeprefix(_PACKAGE) if name.startswith(_PACKAGE) else name,
        fields=fields,
        children=children,
        number=number,
        root=root,
    )
