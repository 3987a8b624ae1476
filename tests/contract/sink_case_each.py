"""The `Each` sink against the contract: functions that keep their rows. It has no fence."""

from __future__ import annotations

from typing import Any

import pyarrow
from pyspark.sql.types import DataType, StructType

from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.each import Each
from tests.contract.sink_contract import Lab, Row, SinkCase, as_python, row, sink_case

REJECTED = row("nobody", 0, "reject me")


class Mailbox:
    """A target that is written by functions. They may be given a row twice, and the mailbox knows it when it is."""

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}

    def put(self, row: Row, _batch: Fence) -> None:
        if row.get("note") == REJECTED["note"]:
            raise ValueError("there is nobody of that name")
        self._rows[repr(row)] = row

    def put_all(self, table: pyarrow.Table, _batch: Fence) -> None:
        self._rows.update({repr(row): row for row in table.to_pylist()})

    def read(self, schema: StructType) -> list[Row]:
        return [
            {field.name: _value(row.get(field.name), field.dataType) for field in schema}
            for row in self._rows.values()
        ]


@sink_case("each-row")
def by_row(lab: Lab) -> SinkCase:
    box = Mailbox()
    return SinkCase(
        sink=lambda: Each(box.put),
        read=box.read,
        is_keyed=False,
        is_fenced=False,
        is_atomic=False,
        rejected=REJECTED,
    )


@sink_case("each-batch")
def by_batch(lab: Lab) -> SinkCase:
    box = Mailbox()
    return SinkCase(
        sink=lambda: Each(box.put_all, per="batch"),
        read=box.read,
        is_keyed=False,
        is_fenced=False,
        is_atomic=False,
    )


def _value(kept: Any, kind: DataType) -> Any:
    """Arrow gives a map as its pairs."""
    return dict(kept) if kind.typeName() == "map" and kept is not None else as_python(kept, kind)
