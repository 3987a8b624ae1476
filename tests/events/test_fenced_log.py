"""Compare-and-append on a small log of numbers: each record is one more than the last one."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from headrace.events import OutcomeUnknown, StoreUnavailable, WriterFenced
from headrace.events.fenced_log import FencedLog
from headrace.events.followed_log import LogSetup
from headrace.events.log_database import LogDatabase
from headrace.events.records import InRecord, OutRecord
from headrace.kafka.cluster import Cluster, Partition
from headrace.log.filesystem import DiskFileSystem
from headrace.protocol.api_keys import ApiKey
from headrace.testing.ports import free_ports
from tests.faults.faulty_broker import broker_on
from tests.faults.response_dropper import ResponseDropper

TIMEOUT_S = 30.0


class NumberDatabase(LogDatabase):
    def __init__(self) -> None:
        super().__init__("CREATE TABLE numbers (number INTEGER PRIMARY KEY, writer TEXT);")

    def add(self, number: int, writer: str) -> None:
        self._database.execute("INSERT OR IGNORE INTO numbers VALUES (?, ?)", (number, writer))

    def all(self) -> list[tuple[int, str]]:
        return self._database.execute("SELECT number, writer FROM numbers ORDER BY number").fetchall()


class Numbers:
    """The content of the log, and its draft."""

    def __init__(self, topic: str, writer: str) -> None:
        self.database = NumberDatabase()
        self.writer = writer
        self.topic = topic

    def draft(self) -> NumberDraft:
        return NumberDraft(self)

    def apply(self, record: InRecord) -> None:
        self.database.add(int(record.value or b""), (record.key or b"").decode())

    def on_committed(self, draft: NumberDraft, offsets: Sequence[int]) -> None:
        assert len(offsets) == len(draft.records)

    def has(self, draft: NumberDraft) -> bool:
        return (int(draft.records[0].value or b""), self.writer) in self.database.all()


class NumberDraft:
    def __init__(self, content: Numbers) -> None:
        self._content = content
        self.records: list[OutRecord] = []

    def add_next(self) -> int:
        number = len(self._content.database.all())
        self._content.database.add(number, self._content.writer)
        self.records.append(
            OutRecord(
                topic=self._content.topic,
                key=self._content.writer.encode(),
                value=str(number).encode(),
                headers=(),
                timestamp_ms=0,
            )
        )
        return number


class NumberLog(FencedLog[NumberDraft]):
    def __init__(self, cluster: Cluster, topic: str, writer: str, *, timeout_s: float = TIMEOUT_S) -> None:
        self.content = Numbers(topic, writer)
        setup = LogSetup(cluster=cluster, topics=(topic,), message_bytes_max=1_000_000, timeout_s=timeout_s)
        super().__init__(setup, 0, self.content)

    def append(self, **options: Any) -> int:
        return self.transact(lambda draft: draft.add_next(), **options)

    @property
    def numbers(self) -> list[tuple[int, str]]:
        return self.content.database.all()


@pytest.fixture
def open_log(cluster: Cluster, topic: str) -> Iterator[Callable[[str], NumberLog]]:
    cluster.create_topic(topic, partitions=1)
    opened = []

    def open_log(writer: str) -> NumberLog:
        opened.append(NumberLog(cluster, topic, writer))
        return opened[-1]

    yield open_log
    for log in opened:
        log.close()


OpenLog = Callable[[str], NumberLog]


def test_writers_take_turns_and_no_number_is_lost_or_doubled(open_log: OpenLog) -> None:
    logs = [open_log(name) for name in "abc"]
    with ThreadPoolExecutor() as threads:
        written = list(threads.map(lambda log: [log.append() for _ in range(10)], logs))
    logs[0].refresh()
    assert [number for number, _ in logs[0].numbers] == list(range(30))
    assert sorted(number for own in written for number in own) == list(range(30))
    for log, own in zip(logs, written, strict=True):
        assert [number for number, writer in logs[0].numbers if writer == log.content.writer] == own


def test_threads_of_one_process_share_a_log(open_log: OpenLog) -> None:
    log = open_log("a")
    with ThreadPoolExecutor(8) as threads:
        assert sorted(threads.map(lambda _: log.append(), range(40))) == list(range(40))


def test_without_takeover_a_fenced_log_stays_fenced(open_log: OpenLog) -> None:
    first, second = open_log("a"), open_log("b")
    assert first.append() == 0
    assert second.append() == 1
    for _ in range(2):
        with pytest.raises(WriterFenced, match="nothing was written"):
            first.append(takeover=False)
    assert second.append(takeover=False) == 2  # it was not fenced in return
    first.disown()
    assert first.append(takeover=False) == 3
    assert [writer for _, writer in first.numbers] == ["a", "b", "b", "a"]


def test_work_that_fails_leaves_nothing(open_log: OpenLog) -> None:
    log = open_log("a")

    def work(draft: NumberDraft) -> None:
        draft.add_next()
        raise KeyError

    with pytest.raises(KeyError):
        log.transact(work)
    assert log.numbers == []
    assert log.append() == 0


def test_work_without_records_writes_nothing(open_log: OpenLog, cluster: Cluster, topic: str) -> None:
    assert open_log("a").transact(lambda draft: "nothing") == "nothing"
    assert cluster.latest([Partition(topic, 0)]) == {Partition(topic, 0): 0}


def test_committed_records_behind_an_open_transaction_are_waited_for(
    open_log: OpenLog, cluster: Cluster, topic: str
) -> None:
    """The stable end is before them; a new owner that reads to there would decide from an old state."""
    other = Producer(cluster.client_config(transactional_id=f"{topic}-other"))
    other.init_transactions(TIMEOUT_S)
    first = open_log("a")
    first.own()
    other.begin_transaction()
    other.produce(topic, "99", "other", partition=0)
    other.flush(TIMEOUT_S)
    assert first.append() == 0
    second = open_log("b")
    second.refresh()
    assert second.numbers == []
    threading.Timer(0.5, lambda: other.abort_transaction(TIMEOUT_S)).start()
    assert second.append() == 1


# A response is lost on the way, by a proxy in front of a broker. This needs a broker with another address.


class Dropper(ResponseDropper):
    """Drops the response to a request of another kind."""

    def __init__(self, api_key: ApiKey) -> None:
        super().__init__()
        self._api_key = api_key

    def drops(self, api_key: int) -> bool:
        if not self._armed or api_key != self._api_key:
            return False
        self._armed = False
        return True

    def disconnect(self) -> None:
        """The broker is unavailable, until `serve` is called again."""
        (port,) = free_ports(1)
        self._target = ("127.0.0.1", port)
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


class Lossy:
    """Two logs with the proxy before them; the first one is slow to connect again."""

    def __init__(self, dropper: Dropper, direct: str) -> None:
        # A lost connection is tried again late enough for the other writer to open the partition before.
        slow = {"reconnect.backoff.ms": 1000, "reconnect.backoff.max.ms": 1000, "retry.backoff.ms": 300}
        self.dropper = dropper
        self.bootstrap = direct
        self.first = NumberLog(Cluster(dropper.address, timeout_s=TIMEOUT_S, config=slow), "t", "a")
        self.second = NumberLog(Cluster(dropper.address, timeout_s=TIMEOUT_S), "t", "b")

    def append_and_fence(self, **options: Any) -> int:
        """Append; while the response is missing, the other writer opens the partition."""
        assert self.first.append() == 0
        self.dropper.drop_next()
        with ThreadPoolExecutor() as threads:
            appended = threads.submit(self.first.append, **options)
            assert self.dropper.dropped.wait(TIMEOUT_S)
            self.second.own()
            return appended.result(TIMEOUT_S)


@pytest.fixture
def lossy(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lossy]:
    with (
        Dropper(request.param) as dropper,
        broker_on(DiskFileSystem(), tmp_path / "data", advertised=dropper.address) as server,
    ):
        dropper.serve(server.bootstrap)
        Cluster(server.bootstrap, timeout_s=TIMEOUT_S).create_topic("t", partitions=1)
        logs = Lossy(dropper, server.bootstrap)
        yield logs
        logs.first.close()
        logs.second.close()


@pytest.mark.parametrize("lossy", [ApiKey.END_TXN], indirect=True, ids=["commit"])
@pytest.mark.parametrize("takeover", [True, False])
def test_commit_whose_response_is_lost_is_found_in_the_log(lossy: Lossy, takeover: bool) -> None:
    assert lossy.append_and_fence(takeover=takeover) == 1
    assert lossy.second.numbers == [(0, "a"), (1, "a")]
    assert lossy.second.append() == 2


@pytest.mark.parametrize("lossy", [ApiKey.PRODUCE], indirect=True, ids=["produce"])
def test_writer_that_is_fenced_in_its_transaction_reports_it(lossy: Lossy) -> None:
    with pytest.raises(WriterFenced, match="nothing was written"):
        lossy.append_and_fence(takeover=False)
    assert lossy.second.append() == 1
    assert lossy.second.numbers == [(0, "a"), (1, "b")]


@pytest.mark.parametrize("lossy", [ApiKey.PRODUCE], indirect=True, ids=["produce"])
def test_writer_that_is_fenced_in_its_transaction_writes_again(lossy: Lossy) -> None:
    assert lossy.append_and_fence() == 1
    lossy.second.refresh()
    assert lossy.second.numbers == [(0, "a"), (1, "a")]


@pytest.mark.parametrize("lossy", [ApiKey.END_TXN], indirect=True, ids=["commit"])
def test_commit_whose_outcome_is_unknown_is_reported_and_found_out_later(lossy: Lossy) -> None:
    log = NumberLog(Cluster(lossy.dropper.address, timeout_s=1), "t", "a", timeout_s=1)
    assert log.append() == 0
    lossy.dropper.drop_next()
    with ThreadPoolExecutor() as threads:
        appended = threads.submit(log.append)
        assert lossy.dropper.dropped.wait(TIMEOUT_S)
        lossy.dropper.disconnect()
        with pytest.raises(OutcomeUnknown, match="whether the events are written is unknown"):
            appended.result(TIMEOUT_S)
    with pytest.raises(StoreUnavailable):
        log.append()
    assert log.numbers == [(0, "a")]
    lossy.dropper.serve(lossy.bootstrap)
    lossy.second.refresh()
    assert lossy.second.numbers == [(0, "a"), (1, "a")]
    assert lossy.second.append() == 2
    log.close()
