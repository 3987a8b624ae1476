"""What Produce and Fetch have moved since the start."""

from __future__ import annotations

from tests.broker.conftest import Connect, StartBroker
from tests.broker.observing import metrics
from tests.broker.requests import batch, create_topic, fetch, produce


def test_bytes_of_batches_are_counted(start_broker: StartBroker, connect: Connect) -> None:
    broker = start_broker(metrics_port=0)
    wire = connect(broker)
    create_topic(wire, "t")
    one = batch(b"x" * 1000)
    for _ in range(3):
        produce(wire, "t", one)
    fetch(wire, "t")
    counted = metrics(broker)
    assert counted["headrace_produced_bytes_total"] == 3 * len(one)
    assert counted["headrace_fetched_bytes_total"] == 3 * len(one)
    assert counted["headrace_storage_failures_total"] == 0
