"""The `Delta` sink against the contract: upserts and appends."""

from __future__ import annotations

from pyspark.sql.types import StructType

from headrace.pipeline.sinks.delta import Delta
from tests.contract.sink_contract import Lab, Row, SinkCase, row, sink_case


@sink_case("delta")
def delta(lab: Lab) -> SinkCase:
    without_key = row(None)  # type: ignore[arg-type]
    return _case(Delta("contract", key="id", at=lab.folder / "delta"), rejected=without_key)


@sink_case("delta-append")
def delta_append(lab: Lab) -> SinkCase:
    return _case(Delta("contract", at=lab.folder / "delta"))


@sink_case("delta-append-by-tasks")
def delta_append_by_tasks(lab: Lab) -> SinkCase:
    return _case(Delta("contract", at=lab.folder / "delta", driver_rows_max=0))


def _case(sink: Delta, rejected: Row | None = None) -> SinkCase:
    return SinkCase(
        sink=lambda: sink,
        read=lambda schema: _rows(sink, schema),
        is_keyed=bool(sink.key),
        rejected=rejected,
        left_out=frozenset({"INTERVAL DAY TO SECOND"}),  # Delta has no such type
    )


def _rows(sink: Delta, schema: StructType) -> list[Row]:
    from deltalake.exceptions import TableNotFoundError

    try:
        table = sink.table()
    except TableNotFoundError:
        return []
    return list(table.to_pyarrow_table().select(schema.names).to_pylist(maps_as_pydicts="strict"))
