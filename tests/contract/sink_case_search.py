"""The `Search` sink against the contract, with keys and without."""

from __future__ import annotations

from pyspark.sql.types import StructType

from headrace.pipeline.errors import BadSink
from headrace.pipeline.sinks.search import Search
from headrace.pipeline.sinks.search_layout import TERM_BYTES_MAX
from headrace.pipeline.sinks.search_reader import HITS_MAX
from tests.contract.sink_contract import Lab, Row, SinkCase, row, sink_case


@sink_case("search")
def search(lab: Lab) -> SinkCase:
    return _case(Search("contract", key="id", at=lab.folder / "index"), rejected=row("x" * TERM_BYTES_MAX))


@sink_case("search-append")
def search_append(lab: Lab) -> SinkCase:
    return _case(Search("contract", at=lab.folder / "index"))


def _case(sink: Search, rejected: Row | None = None) -> SinkCase:
    return SinkCase(
        sink=lambda: sink, read=lambda schema: _rows(sink, schema), is_keyed=bool(sink.key), rejected=rejected
    )


def _rows(sink: Search, schema: StructType) -> list[Row]:
    try:
        reader = sink.reader()
    except BadSink:
        return []
    found: list[Row] = []
    while hits := reader.search("*", limit=HITS_MAX, offset=len(found)):
        found.extend(dict(hit.row) for hit in hits)
    return found
