"""Sources whose records are read by whole columns, in the Python step that also packs them for an operator.

Operators have no access to brokers. The package that reads records registers a source here when it creates one, and
puts an alias with the id of the source around its rows, by which an operator finds it in the plan.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
from msgspec import Struct

from headrace.operators.state.ids import Ints

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SOURCES_MAX = 1_000
"""Sources that are known at the same time; the oldest are forgotten, and are read in Spark's way."""


class ReadRows(Struct, frozen=True, kw_only=True):
    """What was read of some records."""

    rows: pa.Table
    """The good records, in the columns of the source that are needed."""
    bad: int
    ages_ms: Ints
    """Of a sample of the records: processing time minus event time."""
    doubtful: pa.Table | None = None
    """Records that Spark has to parse, as the source gives them; None if there are none."""


class ColumnReader(Protocol):
    """Reads records by columns, in a task: it is picklable."""

    raw_schema: pa.Schema
    """The columns of a record that are needed, as the source gives them."""

    def read(self, records: pa.Table) -> ReadRows: ...

    def read_parsed(self, parsed: pa.Table) -> ReadRows:
        """The same of the columns that `ColumnSource.parsed` gives: Spark has parsed them."""


class ColumnSource(Protocol):
    """A source that can be read by columns."""

    @property
    def id(self) -> str: ...

    def has(self, needed: Sequence[str]) -> bool:
        """Whether these columns of the source can be read by columns."""

    def records(self, needed: Sequence[str]) -> DataFrame:
        """The records, with what is needed for these columns of the source."""

    def reader(self, needed: Sequence[str]) -> ColumnReader: ...

    def parsed(self, records: DataFrame, needed: Sequence[str]) -> tuple[DataFrame, Sequence[Column]]:
        """The rows with columns of records that Spark parses, and what `read_parsed` wants of them."""

    def observed(self, rows: DataFrame, use: str, *, bad: str, age_ms: str) -> DataFrame:
        """The rows with the metrics of this use of the source: the sum of one column, and the percentiles of
        another."""


_sources: OrderedDict[str, ColumnSource] = OrderedDict()


def register(source: ColumnSource) -> None:
    _sources[source.id] = source
    while len(_sources) > SOURCES_MAX:
        _sources.popitem(last=False)


def find(id: str) -> ColumnSource | None:
    return _sources.get(id)
