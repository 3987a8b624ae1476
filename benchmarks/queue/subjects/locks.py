"""The memory of the broker for 100,000 locked records: in whole batches, and individually."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator

from benchmarks.broker.brokers import Durability, RunningBroker, running_broker
from benchmarks.broker.load import ClientFailed
from benchmarks.measurements import Goal, Row, Sample, Side, Unit
from benchmarks.processes import resident_mb
from benchmarks.queue.bench import KAFKA_PROPERTIES, MESSAGE_BYTES, Bench, Subject
from benchmarks.queue.locked_records import LOCKS_A_PARTITION, Holder

WHOLE, SCATTERED = "locks-in-batches", "locks-single"
SETTLE_S = 1
HISTOGRAM_TIMEOUT_S = 60
PER_RECORDS = 100_000
LOCKS_PROPERTIES = {
    **KAFKA_PROPERTIES,
    "group.share.max.partition.max.record.locks": str(LOCKS_A_PARTITION),
    "group.share.max.record.lock.duration.ms": "60000",
}
MEGABYTES_MAX = 100
"""A kilobyte for each record: the 2,000 locked records of a partition, by default, are then 2 MB."""


class Locks(Subject):
    name = "queue-locks"
    title = "Memory per 100,000 locked records"

    @property
    def rows(self) -> tuple[Row, ...]:
        goals = (Goal(at_most=MEGABYTES_MAX),)
        return (
            Row(key=WHOLE, what="locked in batches of 100", unit=Unit.MEGABYTES, goals=goals),
            Row(
                key=SCATTERED,
                what="every second record accepted, the others locked",
                unit=Unit.MEGABYTES,
                goals=goals,
            ),
        )

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        with (
            bench.folder() as folder,
            running_broker(side, folder, Durability.OS, kafka_properties=LOCKS_PROPERTIES) as broker,
        ):
            bench.show_step("warming up")
            warm = Holder(broker.bootstrap, "warm-up", 1, MESSAGE_BYTES)
            warm.accept_every_second(warm.lock_all())
            for key, locked_share in ((WHOLE, 1.0), (SCATTERED, 0.5)):
                partitions = max(1, int(bench.sizes.locked / LOCKS_A_PARTITION / locked_share))
                bench.show_step(f"{key}: writing")
                holder = Holder(broker.bootstrap, key, partitions, MESSAGE_BYTES)
                time.sleep(SETTLE_S)
                before_mb = used_mb(broker)
                bench.show_step(f"{key}: locking")
                held = holder.lock_all()
                if key == SCATTERED:
                    holder.accept_every_second(held)
                time.sleep(SETTLE_S)
                grown_mb = used_mb(broker) - before_mb
                locked = partitions * LOCKS_A_PARTITION * locked_share
                yield key, Sample(value=max(0.0, grown_mb) / locked * PER_RECORDS)
                holder.close()
            warm.close()


def used_mb(broker: RunningBroker) -> float:
    """The resident memory of the process; for Java the used heap, because Java allocates a gigabyte at the start."""
    if broker.side is not Side.KAFKA:
        return resident_mb(broker.pid)
    histogram = subprocess.run(
        ["jcmd", str(broker.pid), "GC.class_histogram"],
        capture_output=True,
        text=True,
        timeout=HISTOGRAM_TIMEOUT_S,
        check=True,
    ).stdout
    total = re.search(r"^Total\s+\d+\s+(\d+)", histogram, re.MULTILINE)
    if total is None:
        raise ClientFailed("jcmd did not print the used heap of Kafka")
    return int(total[1]) / 1e6
