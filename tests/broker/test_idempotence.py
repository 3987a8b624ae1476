"""Idempotent producers over the wire: a retry is neither stored twice nor lost, also across restarts."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.protocol.error_codes import ErrorCode
from headrace.testing.wire import Wire
from tests.broker.conftest import Connect, StartBroker
from tests.broker.requests import batch, create_topic, new_producer_id, produce, read_all
from tests.faults.broker_process import BrokerProcess


def sequenced(producer_id: int, sequence: int, *values: bytes, epoch: int = 0) -> bytes:
    return batch(
        *(values or (b"%d" % sequence,)),
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


def test_resent_batch_gets_its_first_offset_and_is_stored_once(wire: Wire, topic: str) -> None:
    producer_id = new_producer_id(wire)
    for sequence in range(5):
        assert produce(wire, topic, sequenced(producer_id, sequence)).base_offset == sequence
    # The last five are remembered, as many as a client keeps under way.
    for sequence in range(5):
        again = produce(wire, topic, sequenced(producer_id, sequence))
        assert (again.error_code, again.base_offset) == (0, sequence)
    assert len(read_all(wire, topic)) == 5


def test_resent_batch_from_another_connection_is_recognised(wire: Wire, topic: str, connect: Connect) -> None:
    producer_id = new_producer_id(wire)
    produce(wire, topic, sequenced(producer_id, 0, b"a", b"b"))
    other = connect(f"{wire.socket.getpeername()[0]}:{wire.socket.getpeername()[1]}")
    assert produce(other, topic, sequenced(producer_id, 0, b"a", b"b")).base_offset == 0
    assert len(read_all(wire, topic)) == 2


def test_batch_older_than_the_kept_ones_is_a_duplicate_without_offset(wire: Wire, topic: str) -> None:
    producer_id = new_producer_id(wire)
    for sequence in range(8):
        produce(wire, topic, sequenced(producer_id, sequence))
    response = produce(wire, topic, sequenced(producer_id, 0))
    assert response.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER
    assert len(read_all(wire, topic)) == 8


def test_gap_is_out_of_order_until_the_missing_batch_arrives(wire: Wire, topic: str) -> None:
    producer_id = new_producer_id(wire)
    assert produce(wire, topic, sequenced(producer_id, 0)).error_code == 0
    assert (
        produce(wire, topic, sequenced(producer_id, 2)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    )
    assert produce(wire, topic, sequenced(producer_id, 1)).base_offset == 1
    assert produce(wire, topic, sequenced(producer_id, 2)).base_offset == 2


def test_pipelined_batches_after_a_gap_are_rejected_until_it_is_filled(wire: Wire, topic: str) -> None:
    producer_id = new_producer_id(wire)
    codes = [
        produce(wire, topic, sequenced(producer_id, sequence)).error_code for sequence in (0, 2, 3, 1, 2, 3)
    ]
    rejected = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert codes == [0, rejected, rejected, 0, 0, 0]
    assert [record.value for record in read_all(wire, topic)] == [b"0", b"1", b"2", b"3"]


def test_old_epoch_is_fenced_and_a_new_one_starts_at_zero(wire: Wire, topic: str) -> None:
    producer_id = new_producer_id(wire)
    produce(wire, topic, sequenced(producer_id, 0))
    late = produce(wire, topic, sequenced(producer_id, 5, epoch=1))
    assert late.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(wire, topic, sequenced(producer_id, 0, b"new", epoch=1)).base_offset == 1
    old = produce(wire, topic, sequenced(producer_id, 1, epoch=0))
    assert old.error_code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_sequence_wraps_around_after_its_largest_number(wire: Wire, topic: str) -> None:
    producer_id = new_producer_id(wire)
    # An unknown producer may start at any sequence.
    assert produce(wire, topic, sequenced(producer_id, 2**31 - 2, b"a", b"b")).base_offset == 0
    assert produce(wire, topic, sequenced(producer_id, 0)).base_offset == 2
    assert produce(wire, topic, sequenced(producer_id, 2**31 - 2, b"a", b"b")).base_offset == 0


def test_partitions_count_their_sequences_separately(wire: Wire) -> None:
    create_topic(wire, name := f"apart-{new_producer_id(wire)}", partitions=2)
    producer_id = new_producer_id(wire)
    assert produce(wire, name, sequenced(producer_id, 0), partition=0).base_offset == 0
    assert produce(wire, name, sequenced(producer_id, 0), partition=1).base_offset == 0


@pytest.mark.parametrize(("ending", "durability"), [("stop", "os"), ("kill", "os"), ("kill", "fsync")])
def test_resent_batch_is_recognised_after_a_restart(tmp_path: Path, ending: str, durability: str) -> None:
    broker = BrokerProcess(tmp_path / "data", durability=durability)
    with broker:
        with Wire(broker.bootstrap) as wire:
            create_topic(wire, "t")
            producer_id = new_producer_id(wire)
            for sequence in range(6):
                produce(wire, "t", sequenced(producer_id, sequence))
        if ending == "stop":
            assert broker.stop() == 0
        else:
            broker.kill()
        broker.start()
        with Wire(broker.bootstrap) as wire:
            for sequence in range(1, 6):
                again = produce(wire, "t", sequenced(producer_id, sequence))
                assert (again.error_code, again.base_offset) == (0, sequence)
            gap = produce(wire, "t", sequenced(producer_id, 7))
            assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            assert produce(wire, "t", sequenced(producer_id, 6)).base_offset == 6
            assert new_producer_id(wire) > producer_id, "an id is never given out twice"
            assert [record.value for record in read_all(wire, "t")] == [b"%d" % n for n in range(7)]


def test_idle_producer_expires(start_broker: StartBroker, connect: Connect) -> None:
    wire = connect(start_broker(durability="os", producer_id_expiration_ms=1, checkpoint_interval_ms=100))
    create_topic(wire, "t")
    producer_id = new_producer_id(wire)
    produce(wire, "t", sequenced(producer_id, 0))
    other = new_producer_id(wire)
    # A gap is rejected for as long as the producer is known, so the first acceptance shows that it was forgotten.
    sequence = 5
    for attempt in range(3000):
        produce(wire, "t", sequenced(other, attempt))
        if produce(wire, "t", sequenced(producer_id, sequence)).error_code == 0:
            return
    pytest.fail("the producer was never forgotten")


def test_number_of_producers_is_bounded(start_broker: StartBroker, connect: Connect) -> None:
    wire = connect(start_broker(durability="os", producer_ids_max=8))
    create_topic(wire, "t")
    first = new_producer_id(wire)
    produce(wire, "t", sequenced(first, 0))
    for _ in range(20):
        assert produce(wire, "t", sequenced(new_producer_id(wire), 0)).error_code == 0
    # It is no longer known, so that its gap cannot be noticed any more.
    assert produce(wire, "t", sequenced(first, 5)).error_code == 0
