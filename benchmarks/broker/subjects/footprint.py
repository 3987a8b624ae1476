"""The cold start of a broker, and its resident memory before and after work."""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks.broker.bench import Bench, Subject
from benchmarks.broker.brokers import running_broker
from benchmarks.broker.load import confluent, create_topic, java_produce
from benchmarks.measurements import Goal, Row, Sample, Side, Unit
from benchmarks.processes import resident_mb

SETTLE_S = 3
"""A broker still cleans up for a while after its start and after work."""


class Footprint(Subject):
    name = "footprint"
    title = "Cold start and memory"

    @property
    def rows(self) -> tuple[Row, ...]:
        memory_goal = (Goal(at_most=0.25, against_kafka=True),)
        return (
            Row(
                key="cold-start",
                what="process start to the first Metadata response",
                unit=Unit.SECONDS,
                goals=(Goal(at_most=0.1, against_kafka=True),),
            ),
            Row(key="memory-idle", what="resident, idle after start", unit=Unit.MEGABYTES, goals=memory_goal),
            Row(
                key="memory-loaded",
                what="resident, after producing and consuming",
                unit=Unit.MEGABYTES,
                goals=memory_goal,
            ),
        )

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        with bench.folder() as folder:
            # The first start creates the folder, and reads programs and libraries into the page cache.
            bench.show_step("a first start, not counted")
            with running_broker(side, folder):
                pass
            bench.show_step("cold start")
            with running_broker(side, folder) as broker:
                yield "cold-start", Sample(value=broker.start_s)
                time.sleep(SETTLE_S)
                yield "memory-idle", Sample(value=resident_mb(broker.pid))
                self._load(broker.bootstrap, bench)
                time.sleep(SETTLE_S)
                yield "memory-loaded", Sample(value=resident_mb(broker.pid))

    def _load(self, bootstrap: str, bench: Bench) -> None:
        for record_bytes, records in bench.sizes.produce.items():
            bench.show_step(f"load before the memory is measured: {records} records of {record_bytes} B")
            topic = f"load-{record_bytes}"
            create_topic(bootstrap, topic)
            java_produce(bootstrap, topic, records, record_bytes)
            confluent("consume", bootstrap, topic, records)
