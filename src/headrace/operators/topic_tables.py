"""Topics that operators name: who reads them.

Operators have no access to brokers. The package that reads topics puts its reader here when it is imported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.operators.operator import BadOperator

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Reader = Callable[["DataFrame", str], "DataFrame"]
"""From rows and the name of a topic to its records, as a stream if the rows are one: `value` as bytes, and the columns
of the record."""

_readers: list[Reader] = []


def set_reader(reader: Reader) -> None:
    _readers[:] = [reader]


def read_topic_beside(rows: DataFrame, topic: str, *, operator: str, field: str) -> DataFrame:
    """The records of a topic of the session's broker, to be read beside these rows."""
    if not _readers:
        raise BadOperator(
            operator,
            field,
            f"is topic {topic!r}, and nothing that reads topics is imported",
            hint="import headrace.pipeline, or pass a DataFrame",
        )
    return _readers[0](rows, topic)
