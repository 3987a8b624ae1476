"""What a task of Spark does for the `Topic` sink, without Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark import TaskContext

from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.fenced_producer import Target
from headrace.pipeline.sinks.topic_task import TaskPlan, task_writer, write_part
from headrace.protocol.messages.describe_transactions import DescribeTransactionsRequest
from headrace.testing.wire import Wire
from tests.broker.requests import create_topic
from tests.compatibility.topic_contents import read_committed

TASK = 3


@pytest.fixture(autouse=True)
def task_context(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Spark's worker sets it before it calls the function of a task."""
    context = TaskContext()
    monkeypatch.setattr(context, "_partitionId", TASK)
    monkeypatch.setattr(TaskContext, "_taskContext", context)


def test_producer_that_has_aborted_rejected_rows_is_not_used_again(bootstrap: str, name: str) -> None:
    with Wire(bootstrap) as wire:
        create_topic(wire, name)
    values = [b"fits", b"x" * 2_000]
    rows = [pa.RecordBatch.from_pylist([{"value": value} for value in values])]

    def write(*, skips_rejected: bool, batch_id: int = 0) -> list[dict[str, object]]:
        plan = TaskPlan(
            writer=name,
            target=Target(topic=name, bootstrap=bootstrap, message_bytes_max=1_000),
            fence=Fence(job="job", checkpoint="first", batch_id=batch_id),
            skips_rejected=skips_rejected,
        )
        return [row for batch in write_part(plan, rows) for row in batch.to_pylist()]

    def epoch() -> int:
        with Wire(bootstrap) as wire:
            asked = DescribeTransactionsRequest(transactional_ids=(task_writer(name, TASK),))
            (state,) = wire.request(asked).transaction_states
            assert state.error_code == 0
            return int(state.producer_epoch)

    (rejected,) = write(skips_rejected=False)
    assert rejected["value"] == values[1]
    first_epoch = epoch()
    (written,) = write(skips_rejected=True)
    assert written["written"] == 1
    assert epoch() > first_epoch, "another producer wrote them"
    second_epoch = epoch()
    write(skips_rejected=True, batch_id=1)
    assert epoch() == second_epoch, "one that has committed stays open"
    assert [message.value() for message in read_committed(bootstrap, name)] == [b"fits", b"fits"]
