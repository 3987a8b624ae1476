"""`Discard`: rows that go nowhere, for measuring a job and for trying one out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headrace.pipeline.errors import BadSink
from headrace.pipeline.sinks.sink import NativeSink, Sink, SinkWriter

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


@dataclass(frozen=True, slots=True)
class Discard(Sink):
    """Spark computes every row and discards it."""

    kind: ClassVar[str] = "discard"
    guarantee = "none"

    def target(self) -> str:
        return "nothing"

    def open(self, job: str, schema: StructType) -> SinkWriter:
        raise BadSink("Discard has no writer: Spark writes it natively", hint="use native()")

    def native(self) -> NativeSink:
        return NativeSink(format="noop", options={})
