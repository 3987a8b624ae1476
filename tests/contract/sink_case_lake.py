"""The `Lake` sink against the contract: upserts and appends."""

from __future__ import annotations

from pyspark.sql.types import StructType

from headrace.pipeline.sinks.lake import Lake
from tests.contract.sink_contract import Lab, Row, SinkCase, row, sink_case


@sink_case("lake")
def lake(lab: Lab) -> SinkCase:
    without_key = row(None)  # type: ignore[arg-type]
    return _case(Lake("contract", key="id", at=lab.folder / "lake"), refused=without_key)


@sink_case("lake-append")
def lake_append(lab: Lab) -> SinkCase:
    return _case(Lake("contract", at=lab.folder / "lake"))


def _case(sink: Lake, refused: Row | None = None) -> SinkCase:
    return SinkCase(
        sink=lambda: sink,
        read=lambda schema: _rows(sink, schema),
        is_keyed=bool(sink.key),
        refused=refused,
        left_out=frozenset({"INTERVAL DAY TO SECOND"}),  # Delta has no such type
    )


def _rows(sink: Lake, schema: StructType) -> list[Row]:
    from deltalake.exceptions import TableNotFoundError

    try:
        table = sink.table()
    except TableNotFoundError:
        return []
    return list(table.to_pyarrow_table().select(schema.names).to_pylist(maps_as_pydicts="strict"))
