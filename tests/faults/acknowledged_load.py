"""Producers that continue while their broker is killed and restarted, and the list of their acknowledged records."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, Message, Producer

from headrace.records.record import Record
from headrace.testing.wire import Wire
from tests.broker.requests import read_all

# Unacknowledged records a producer may have: bounds what the retries after a kill must send again.
OUTSTANDING_MAX = 2_000
FLUSH_TIMEOUT_S = 60


@dataclass(slots=True, kw_only=True)
class Account:
    """The records that one producer sent, and their acknowledgements."""

    name: str
    is_idempotent: bool
    acknowledged: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    """Content -> partition and offset."""
    failed: list[tuple[bytes, KafkaError]] = field(default_factory=list)
    sent: int = 0


class AcknowledgedLoad:
    """Some producers, each in a thread, that write numbered records until they are stopped."""

    def __init__(self, bootstrap: str, topic: str, *, partitions: int, idempotent: int, plain: int) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._partitions = partitions
        self.accounts = [Account(name=f"i{n}", is_idempotent=True) for n in range(idempotent)]
        self.accounts += [Account(name=f"p{n}", is_idempotent=False) for n in range(plain)]
        self._ending = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(each,)) for each in self.accounts]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let every producer finish what it has sent; all of it is acknowledged or failed afterwards."""
        self._ending.set()
        for thread in self._threads:
            thread.join()

    @property
    def acknowledged(self) -> int:
        return sum(len(account.acknowledged) for account in self.accounts)

    def wait_for_acknowledgements(self, more: int) -> None:
        """Return when every producer got so many more acknowledgements: all of them are at work (again)."""
        wanted = [len(account.acknowledged) + more for account in self.accounts]
        deadline_s = time.monotonic() + FLUSH_TIMEOUT_S
        while any(len(a.acknowledged) < n for a, n in zip(self.accounts, wanted, strict=True)):
            assert time.monotonic() < deadline_s, "no more acknowledgements"
            time.sleep(0.005)

    def _write(self, account: Account) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "client.id": account.name,
                "enable.idempotence": account.is_idempotent,
                "acks": "all",
                "linger.ms": 1,
                # Small batches, many of them under way: more places for a kill to hit.
                "batch.size": 2_000,
                "message.timeout.ms": FLUSH_TIMEOUT_S * 1000,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "socket.connection.setup.timeout.ms": 5_000,
                # Lost connections are what the test is about.
                "log_level": 2,
            }
        )

        def delivered(error: KafkaError | None, message: Message) -> None:
            value = message.value()
            assert isinstance(value, bytes)
            partition, offset = message.partition(), message.offset()
            if error is not None:
                account.failed.append((value, error))
            else:
                assert partition is not None
                assert offset is not None
                account.acknowledged[value] = (partition, offset)

        while not self._ending.is_set():
            if len(producer) >= OUTSTANDING_MAX:
                producer.poll(0.05)
                continue
            value = b"%s:%d" % (account.name.encode(), account.sent)
            producer.produce(
                self._topic, value, partition=account.sent % self._partitions, on_delivery=delivered
            )
            account.sent += 1
            if account.sent % 50 == 0:
                producer.poll(0.002)
        producer.flush(FLUSH_TIMEOUT_S)


def check_accounts(load: AcknowledgedLoad, bootstrap: str, topic: str, *, partitions: int) -> int:
    """Compare the log with the acknowledged records; the number of them."""
    with Wire(bootstrap) as wire:
        logs = [read_all(wire, topic, partition=index) for index in range(partitions)]
    for index, log in enumerate(logs):
        assert [record.offset for record in log] == list(range(len(log))), f"partition {index} has a gap"
    for account in load.accounts:
        _check_account(account, logs)
    return load.acknowledged


def _check_account(account: Account, logs: list[list[Record]]) -> None:
    lost = [
        (value, partition, offset)
        for value, (partition, offset) in account.acknowledged.items()
        if offset >= len(logs[partition]) or logs[partition][offset].value != value
    ]
    assert not lost, f"{account.name}: {len(lost)} acknowledged records are not at their offset: {lost[:3]}"
    mine = [
        [record.value for record in log if (record.value or b"").startswith(account.name.encode() + b":")]
        for log in logs
    ]
    if not account.is_idempotent:
        return
    assert not account.failed, f"{account.name} failed: {account.failed[0]}"
    assert len(account.acknowledged) == account.sent, "every record is acknowledged in the end"
    repeated = [value for value, count in Counter(v for log in mine for v in log).items() if count > 1]
    assert not repeated, f"{account.name}: {len(repeated)} records are there twice: {repeated[:3]}"
    for index, values in enumerate(mine):
        numbers = [int((value or b"").partition(b":")[2]) for value in values]
        assert numbers == list(range(index, account.sent, len(logs))), f"{account.name} is out of order"
