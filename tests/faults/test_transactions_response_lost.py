"""The response to a produce request is lost, and the client aborts: its next transaction is complete."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headrace.log.filesystem import DiskFileSystem
from headrace.records.batch import iterate_headers
from headrace.testing.wire import Wire
from tests.broker.requests import create_topic, fetch
from tests.broker.transaction_requests import committed_values
from tests.faults.faulty_broker import broker_on
from tests.faults.response_dropper import TIMEOUT_S, ResponseDropper
from tests.faults.transaction_load import abort


@pytest.mark.parametrize("kept_count", [1, 2, 3], ids=["shorter", "as long", "longer"])
def test_a_transaction_after_an_aborted_one_whose_response_was_lost_is_complete(
    tmp_path: Path, kept_count: int
) -> None:
    with (
        ResponseDropper() as dropper,
        broker_on(DiskFileSystem(), tmp_path / "data", advertised=dropper.address) as server,
        Wire(server.bootstrap) as wire,
    ):
        dropper.serve(server.bootstrap)
        create_topic(wire, "t")
        producer = Producer(
            {
                "bootstrap.servers": dropper.address,
                "transactional.id": "tx",
                "log_level": 0,
                "linger.ms": 0,
                # The client must abort before it sends the batch again.
                "retry.backoff.ms": 300,
                "reconnect.backoff.ms": 10,
            }
        )
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        producer.produce("t", "before")
        producer.flush(TIMEOUT_S)
        dropper.drop_next()
        _produce_as_one(producer, [f"aborted {number}" for number in range(2)])
        assert dropper.dropped.wait(TIMEOUT_S)
        abort(producer)

        kept = [f"kept {number}" for number in range(kept_count)]
        producer.begin_transaction()
        _produce_as_one(producer, kept)
        producer.flush(TIMEOUT_S)
        producer.produce("t", "last")
        producer.commit_transaction(TIMEOUT_S)

        assert committed_values(wire, "t") == [one.encode() for one in (*kept, "last")]
        stored = bytes(fetch(wire, "t").records or b"")
        uses = Counter(header.base_sequence for _, header in iterate_headers(stored) if not header.is_control)
        assert uses[1] == 2, "the client used the numbers again; otherwise this shows nothing"


def _produce_as_one(producer: Producer, values: list[str]) -> None:
    assert producer.produce_batch("t", [{"value": value} for value in values], partition=0) == len(values)
