"""The coordinator without requests: expiration, its bounds, and a disk that fails while a transaction ends."""

from __future__ import annotations

import time
from pathlib import Path

from headrace.log.filesystem import DiskFileSystem
from headrace.protocol.error_codes import ErrorCode
from headrace.protocol.messages.init_producer_id import InitProducerIdRequest
from headrace.protocol.messages.list_transactions import ListTransactionsRequest
from headrace.testing.failing_filesystem import FailingFileSystem
from headrace.testing.manual_clock import ManualClock
from headrace.testing.wire import Wire
from tests.broker.conftest import Connect, StartBroker
from tests.broker.requests import create_topic
from tests.broker.transaction_requests import (
    TransactionalProducer,
    committed_values,
    eventually,
    last_stable_offset,
)
from tests.faults.faulty_broker import broker_on

EXPIRATION_MS = 60_000


def listed(wire: Wire) -> list[str]:
    return [one.transactional_id for one in wire.request(ListTransactionsRequest()).transaction_states]


def test_unused_id_expires_and_one_with_an_open_transaction_does_not(
    tmp_path: Path,
) -> None:
    folder, clock = tmp_path / "data", ManualClock(round(time.time() * 1000))
    settings = {"transactional_id_expiration_ms": EXPIRATION_MS, "housekeeping_interval_ms": 20}
    with (
        broker_on(DiskFileSystem(), folder, clock, **settings) as server,
        Wire(server.bootstrap) as wire,
    ):
        create_topic(wire, "t")
        busy = TransactionalProducer(wire, "busy", timeout_ms=2 * EXPIRATION_MS)
        busy.init()
        busy.write("t", b"a")
        TransactionalProducer(wire, "idle").init()
        assert sorted(listed(wire)) == ["busy", "idle"]
        clock.advance_ms(EXPIRATION_MS)
        assert eventually(lambda: listed(wire), ["busy"])
    with broker_on(DiskFileSystem(), folder) as server, Wire(server.bootstrap) as wire:
        assert eventually(lambda: listed(wire), ["busy"])


def test_there_is_a_bound_on_ids(start_broker: StartBroker, connect: Connect) -> None:
    wire = connect(start_broker(transactional_ids_max=2))
    codes = [TransactionalProducer(wire, name).init().error_code for name in ("a", "b", "c", "a")]
    assert codes == [0, 0, ErrorCode.POLICY_VIOLATION, 0]


def test_prepared_transaction_ends_when_the_disk_works_again(tmp_path: Path) -> None:
    files = FailingFileSystem()
    with broker_on(files, tmp_path / "data") as server, Wire(server.bootstrap) as wire:
        create_topic(wire, "t", partitions=2)
        writer = TransactionalProducer(wire, "tx")
        writer.init()
        writer.write("t", b"a")
        writer.write("t", b"b", partition=1)
        files.fail("sync", path_pattern="*/t-1/*", times=None)
        assert writer.end(committed=True).error_code == 0, "it is decided"
        assert committed_values(wire, "t") == [b"a"]
        assert last_stable_offset(wire, "t", partition=1) <= 1
        busy = wire.request(InitProducerIdRequest(transactional_id="tx"))
        assert busy.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    with broker_on(DiskFileSystem(), tmp_path / "data") as server, Wire(server.bootstrap) as wire:
        assert eventually(lambda: committed_values(wire, "t", partition=1), [b"b"])
        assert committed_values(wire, "t") == [b"a"]
