"""End-to-end latency of single records of 100 B, acks=1: from the producer's call until the consumer has it."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.broker.bench import Bench, Subject
from benchmarks.broker.brokers import Durability, running_broker
from benchmarks.broker.load import confluent, create_topic, java_latency
from benchmarks.measurements import Goal, Row, Sample, Side, Unit

RECORD_BYTES = 100
FIGURES = {
    "java-mean": "mean, Java EndToEndLatency",
    "java-p50": "median, Java EndToEndLatency (whole ms)",
    "java-p99": "p99, Java EndToEndLatency (whole ms)",
    "confluent-p50": "median, confluent-kafka",
    "confluent-p99": "p99, confluent-kafka",
}
_NO_GOAL = Durability.FSYNC  # shows the cost of fsync for a single record


class Latency(Subject):
    name = "latency"
    title = "End-to-end latency, 100 B, acks=1"

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple(
            Row(
                key=f"latency-{durability}-{figure}",
                what=f"{what}, {durability}",
                unit=Unit.MILLISECONDS,
                goals=() if durability is _NO_GOAL else (Goal(at_most=1.0, against_kafka=True),),
            )
            for durability in Durability
            for figure, what in FIGURES.items()
        )

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        for durability in Durability:
            prefix = f"latency-{durability}"
            wanted = {row.key for row in self.rows if row.key.startswith(prefix) and bench.wants(row.key)}
            if not wanted:
                continue
            with bench.folder() as folder, running_broker(side, folder, durability) as broker:
                bench.warm_up(broker)
                for figure, value in self._figures(broker.bootstrap, durability, bench):
                    if f"{prefix}-{figure}" in wanted:
                        yield f"{prefix}-{figure}", Sample(value=value)

    def _figures(self, bootstrap: str, durability: Durability, bench: Bench) -> Iterator[tuple[str, float]]:
        create_topic(bootstrap, "confluent")
        bench.show_step(f"confluent-kafka, one record at a time, {durability}")
        confluent_latency = confluent("ping", bootstrap, "confluent", bench.sizes.pings, RECORD_BYTES)
        yield "confluent-p50", confluent_latency["p50_ms"]
        yield "confluent-p99", confluent_latency["p99_ms"]
        create_topic(bootstrap, "java")
        bench.show_step(f"Java EndToEndLatency, {durability}")
        latency = java_latency(bootstrap, "java", bench.sizes.pings, RECORD_BYTES)
        yield "java-mean", latency.average_ms
        yield "java-p50", latency.p50_ms
        yield "java-p99", latency.p99_ms
