"""The topic of a registry: read by a thread, written by one process at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer

from headrace.clock import SystemClock
from headrace.events.records import InRecord
from headrace.gateway.registry.log import Change, Decision, RegistryLog, StoreFailed
from headrace.kafka.cluster import Cluster
from tests.gateway.registry.conftest import TIMEOUT_S

pytestmark = pytest.mark.timeout(120)


class Counter:
    """A log whose state is its last number; `next` writes the number after it."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.numbers: list[int] = []
        self.log = RegistryLog(cluster, topic, self._apply, clock=SystemClock(), timeout_s=TIMEOUT_S)
        self.log.start()

    def _apply(self, record: InRecord) -> None:
        self.numbers.append(int(record.value or b"0"))

    def next(self) -> int:
        def decide() -> Decision[int]:
            with self.log.reading():
                number = max(self.numbers, default=0) + 1
            return Decision([Change(str(number).encode(), str(number).encode())], number)

        return self.log.write(decide)


@pytest.fixture
def open_counter(cluster: Cluster, topic: str) -> Iterator[Callable[[], Counter]]:
    opened: list[Counter] = []

    def open_counter() -> Counter:
        opened.append(Counter(cluster, topic))
        return opened[-1]

    yield open_counter
    for each in opened:
        each.log.close()


def test_a_write_is_read_back_before_it_returns(open_counter: Callable[[], Counter]) -> None:
    counter = open_counter()
    assert counter.next() == 1
    assert counter.numbers == [1]


def test_a_restart_reads_all_records(open_counter: Callable[[], Counter]) -> None:
    first = open_counter()
    assert [first.next() for _ in range(3)] == [1, 2, 3]
    assert open_counter().numbers == [1, 2, 3]


def test_two_writers_at_once_decide_on_all_records_of_each_other(open_counter: Callable[[], Counter]) -> None:
    counters = [open_counter(), open_counter()]
    written: list[int] = []
    failures: list[Exception] = []

    def write(counter: Counter) -> None:
        try:
            written.extend([counter.next() for _ in range(10)])
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=[each]) for each in counters]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sorted(written) == list(range(1, 21))
    for each in counters:
        each.log.catch_up()
        assert each.numbers == list(range(1, 21))


def test_a_decision_without_changes_sees_what_others_wrote(open_counter: Callable[[], Counter]) -> None:
    one, two = open_counter(), open_counter()
    one.next()
    two.next()
    assert one.log.write(lambda: Decision((), list(one.numbers))) == [1, 2]


def test_an_error_of_a_decision_is_raised_after_reading_what_others_wrote(
    open_counter: Callable[[], Counter],
) -> None:
    one, two = open_counter(), open_counter()
    one.next()
    two.next()

    def decide() -> Decision[str]:
        if len(one.numbers) < 2:
            raise LookupError("not there yet")
        return Decision((), "found")

    assert one.log.write(decide) == "found"


def test_a_decision_that_fails_writes_nothing(open_counter: Callable[[], Counter]) -> None:
    counter = open_counter()

    def decide() -> Decision[None]:
        raise LookupError("no")

    with pytest.raises(LookupError):
        counter.log.write(decide)
    counter.log.catch_up()
    assert counter.numbers == []
    assert counter.next() == 1


def test_a_record_that_is_too_large_is_rejected_and_the_next_write_works(
    open_counter: Callable[[], Counter],
) -> None:
    counter = open_counter()
    with pytest.raises(Exception, match="bytes"):
        counter.log.write(lambda: Decision([Change(b"k", b"x" * 2_000_000)], None))
    assert counter.next() == 1


def test_records_of_a_program_without_transactions_are_read(
    open_counter: Callable[[], Counter], cluster: Cluster, topic: str
) -> None:
    counter = open_counter()
    producer = Producer(cluster.client_config())
    producer.produce(topic, b"41", b"41")
    assert producer.flush(TIMEOUT_S) == 0
    counter.log.catch_up()
    assert counter.next() == 42


@pytest.mark.parametrize(
    ("partitions", "config", "problem"),
    [
        (2, {"cleanup.policy": "compact"}, "2 partitions"),
        (1, {"cleanup.policy": "delete"}, "deletes schemas"),
    ],
)
def test_a_topic_that_would_lose_schemas_is_rejected(
    cluster: Cluster, topic: str, partitions: int, config: dict[str, str], problem: str
) -> None:
    cluster.create_topic(topic, partitions=partitions, config=config)
    cluster.require_topics([topic], appear_s_max=TIMEOUT_S)
    with pytest.raises(StoreFailed, match=problem) as raised:
        Counter(cluster, topic)
    assert raised.value.hint


def test_a_broker_that_is_not_there_is_an_error(topic: str) -> None:
    with pytest.raises(StoreFailed, match="no broker"):
        Counter(Cluster("127.0.0.1:1", timeout_s=1), topic)
