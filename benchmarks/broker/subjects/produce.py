"""Produce throughput: records of 100 B and 1 KB, both clients, acks=all, one partition."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.bench import measured_load
from benchmarks.broker.bench import Bench, Sizes, Subject
from benchmarks.broker.brokers import Durability, RunningBroker, running_broker
from benchmarks.broker.load import check_end_offset, confluent, create_topic, java_produce
from benchmarks.measurements import Goal, Row, Sample, Side, Unit

CLIENTS = {"java": "Java ProducerPerformance", "confluent": "confluent-kafka"}
RECORD_BYTES = (100, 1000)


class Produce(Subject):
    def __init__(self, durability: Durability, goal: Goal, *, java_1000: Goal) -> None:
        """`java_1000` is the goal of the row of large records in small batches, instead of the goal of all others."""
        self.durability = durability
        self.goal = goal
        self.java_1000 = java_1000

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple(
            Row(
                key=f"produce-{self.durability}-{client}-{record_bytes}",
                what=f"produce {record_bytes} B, {CLIENTS[client]}",
                unit=Unit.RECORDS_PER_S,
                goals=(self.java_1000 if (client, record_bytes) == ("java", 1000) else self.goal,),
            )
            for client in CLIENTS
            for record_bytes in RECORD_BYTES
        )

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        with bench.folder() as folder, running_broker(side, folder, self.durability) as broker:
            bench.warm_up(broker)
            for row in filter(lambda row: bench.wants(row.key), self.rows):
                _, _, client, record_bytes = row.key.split("-")
                bench.show_step(row.what)
                records = self._records(client, bench.sizes)[int(record_bytes)]
                yield row.key, self._sample(broker, client, int(record_bytes), records)

    def _records(self, client: str, sizes: Sizes) -> dict[int, int]:
        flushes_often = client == "java" and self.durability is Durability.FSYNC
        return sizes.produce_java_fsync if flushes_often else sizes.produce

    def _sample(self, broker: RunningBroker, client: str, record_bytes: int, records: int) -> Sample:
        topic = f"{client}-{record_bytes}"
        create_topic(broker.bootstrap, topic)
        send = java_produce if client == "java" else confluent_produce
        sample = measured_load(
            broker.pid, records, partial(send, broker.bootstrap, topic, records, record_bytes)
        )
        check_end_offset(broker.bootstrap, topic, records)
        return sample


def confluent_produce(bootstrap: str, topic: str, records: int, record_bytes: int) -> float:
    return confluent("produce", bootstrap, topic, records, record_bytes)["records_per_s"]


class ProduceOs(Produce):
    name = "produce-os"
    title = "Produce, acknowledged from the page cache (durability=os; Kafka's default)"

    def __init__(self) -> None:
        super().__init__(
            Durability.OS,
            Goal(at_least=1.2, aim=1.5, against_kafka=True),
            java_1000=Goal(at_least=1.5, against_kafka=True),
        )


class ProduceFsync(Produce):
    name = "produce-fsync"
    title = "Produce, acknowledged after fsync (durability=fsync; Kafka with flush.messages=1)"

    def __init__(self) -> None:
        super().__init__(
            Durability.FSYNC,
            Goal(at_least=2, aim=3, against_kafka=True),
            java_1000=Goal(at_least=2.5, aim=3, against_kafka=True),
        )
