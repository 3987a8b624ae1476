"""`Discard`: rows are computed, and not written."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StructType

from headrace.pipeline.errors import BadSink
from headrace.pipeline.sinks import Discard


def test_spark_discards_the_rows_without_a_guarantee() -> None:
    native = Discard().native()
    assert (native.format, native.options, Discard().guarantee) == ("noop", {}, "none")


def test_there_is_no_writer_to_open() -> None:
    with pytest.raises(BadSink, match="Discard has no writer"):
        Discard().open("job", StructType())
