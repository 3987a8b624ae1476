"""Consume throughput from the page cache: both clients, records of 100 B and 1 KB, one partition."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.bench import measured_load
from benchmarks.broker.bench import Bench, Subject
from benchmarks.broker.brokers import running_broker
from benchmarks.broker.load import check_end_offset, confluent, create_topic, java_consume
from benchmarks.measurements import Goal, Row, Sample, Side, Unit

CLIENTS = {"java": "Java ConsumerPerformance", "confluent": "confluent-kafka"}
RECORD_BYTES = (100, 1000)


class Consume(Subject):
    name = "consume"
    title = "Consume, from the page cache"

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple(
            Row(
                key=f"consume-{client}-{record_bytes}",
                what=f"consume {record_bytes} B, {CLIENTS[client]}",
                unit=Unit.RECORDS_PER_S,
                goals=(Goal(at_least=1.0, aim=1.5, against_kafka=True),),
            )
            for record_bytes in RECORD_BYTES
            for client in CLIENTS
        )

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        with bench.folder() as folder, running_broker(side, folder) as broker:
            bench.warm_up(broker)
            for record_bytes in RECORD_BYTES:
                wanted = [
                    row for row in self.rows if row.key.endswith(f"-{record_bytes}") and bench.wants(row.key)
                ]
                if not wanted:
                    continue
                topic, records = f"consume-{record_bytes}", bench.sizes.consume[record_bytes]
                bench.show_step(f"writing the records to read, {record_bytes} B each")
                write_full_batches(broker.bootstrap, topic, records, record_bytes)
                for row in wanted:
                    bench.show_step(row.what)
                    read = java_consume if "java" in row.key else confluent_consume
                    yield (
                        row.key,
                        measured_load(broker.pid, records, partial(read, broker.bootstrap, topic, records)),
                    )


def write_full_batches(bootstrap: str, topic: str, records: int, record_bytes: int) -> None:
    """Full batches of 16 KB (the size of the Java producer), so that both logs have the same batches."""
    create_topic(bootstrap, topic)
    confluent("produce", bootstrap, topic, records, record_bytes, batch_size=16_384, linger_ms=1_000)
    check_end_offset(bootstrap, topic, records)


def confluent_consume(bootstrap: str, topic: str, records: int) -> float:
    return confluent("consume", bootstrap, topic, records)["records_per_s"]
