"""Transactions of ten records of 100 B, one after the other, each committed before the next one starts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.bench import measured_load
from benchmarks.broker.brokers import Durability, running_broker
from benchmarks.broker.load import create_topic
from benchmarks.measurements import Goal, Row, Sample, Side, Unit
from benchmarks.queue.bench import MESSAGE_BYTES, Bench, Subject
from benchmarks.queue.share_load import transactions_per_s

RECORDS_EACH = 10


class Transactions(Subject):
    name = "queue-transactions"
    title = "Transactions of 10 records of 100 B, one after the other, confluent-kafka"

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple(
            Row(
                key=f"transactions-{durability}",
                what=f"{durability}",
                unit=Unit.TRANSACTIONS_PER_S,
                goals=(Goal(at_least=1.0, against_best=True),),
            )
            for durability in (Durability.FSYNC, Durability.OS)
        )

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        for durability in (Durability.FSYNC, Durability.OS):
            key = f"transactions-{durability}"
            if not bench.wants(key):
                continue
            with bench.folder() as folder, running_broker(side, folder, durability) as broker:
                count = bench.sizes.transactions
                bench.show_step(f"warming up, {durability}")
                _commit(broker.bootstrap, "warm-up", count // 2)
                bench.show_step(f"{count} transactions, {durability}")
                measured = partial(_commit, broker.bootstrap, "measured", count)
                yield key, measured_load(broker.pid, count * RECORDS_EACH, measured)


def _commit(bootstrap: str, topic: str, count: int) -> float:
    create_topic(bootstrap, topic)
    return transactions_per_s(bootstrap, topic, count, RECORDS_EACH, MESSAGE_BYTES)
