"""The `Parquet` sink against the contract: upserts and appends."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql.types import StructType

from headrace.pipeline.sinks.parquet import Parquet
from headrace.pipeline.sinks.parquet_layout import newest_snapshot, open_dataset
from tests.contract.sink_contract import Lab, Row, SinkCase, row, sink_case


@sink_case("parquet")
def parquet(lab: Lab) -> SinkCase:
    without_key = row(None)  # type: ignore[arg-type]
    return _case(Parquet("contract", key="id", at=lab.folder / "table"), rejected=without_key)


@sink_case("parquet-append")
def parquet_append(lab: Lab) -> SinkCase:
    return _case(Parquet("contract", at=lab.folder / "table"))


def _case(sink: Parquet, rejected: Row | None = None) -> SinkCase:
    return SinkCase(
        sink=lambda: sink,
        read=lambda schema: _rows(sink.path, schema),
        is_keyed=bool(sink.key),
        rejected=rejected,
        left_out=frozenset({"INTERVAL DAY TO SECOND"}),  # Parquet has no such type
    )


def _rows(path: Path, schema: StructType) -> list[Row]:
    snapshot = newest_snapshot(path)
    if snapshot is None:
        return []
    table = open_dataset(snapshot).to_table(columns=schema.names)
    return list(table.to_pylist(maps_as_pydicts="strict"))
