"""What tasks send to the driver: rejected rows as they were, and errors of their kind."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from headrace.pipeline.errors import BadSink, SinkUnavailable
from headrace.pipeline.sinks.sink import RejectedRow
from headrace.pipeline.sinks.task_response import TaskResponse, responses_of, too_many_rejected


def test_counts_and_rejected_rows_arrive() -> None:
    rejected = RejectedRow(row={"id": "a", "raw": b"\0"}, reason="too long")
    sent = TaskResponse(written=3, rejected=[pickle.dumps([rejected])])
    (found,) = responses_of([sent.to_arrow()])
    assert found.written == 3
    assert list(found.rejected_rows()) == [rejected]


def test_error_of_a_task_is_raised_on_the_driver_a_permanent_one_first() -> None:
    rows = iter([pa.record_batch({"n": [1]})])
    away = TaskResponse.of_error(SinkUnavailable("no response", hint="wait"), rows)
    assert next(rows, None) is None, "Spark's worker has read all rows"
    bad = TaskResponse.of_error(BadSink("no right", hint="grant it"), [])
    with pytest.raises(SinkUnavailable, match="no response") as failed:
        responses_of([TaskResponse(written=1).to_arrow(), away.to_arrow()])
    assert failed.value.hint == "wait"
    with pytest.raises(BadSink, match="no right"):
        responses_of([away.to_arrow(), bad.to_arrow()])


def test_too_many_rejected_rows_are_an_error_with_the_reason() -> None:
    assert "the key id is null" in str(too_many_rejected("redis users", "the key id is null"))
