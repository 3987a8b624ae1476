"""A group that is ordered by key, and a plain share group on the same messages: what order costs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.bench import measured_load
from benchmarks.broker.brokers import Durability, RunningBroker
from benchmarks.measurements import Goal, Row, Sample, Side, Unit
from benchmarks.queue.bench import Bench, Subject

CASES = ((1, 10_000), (4, 10_000), (1, 100), (4, 100), (4, 1_000))
"""Consumers and keys. With few keys, most of them are in flight at any time."""


def row_key(consumers: int, keys: int, *, is_ordered: bool) -> str:
    return f"{'ordered' if is_ordered else 'plain'}-{consumers}-{keys}"


class Ordered(Subject):
    name = "queue-ordered"
    title = "Messages of 100 B with keys, each acknowledged, fsync: ordered by key, and a plain share group"
    sides = (Side.HEADRACE,)

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple(
            Row(
                key=row_key(consumers, keys, is_ordered=is_ordered),
                what=f"{'ordered by key' if is_ordered else 'a plain share group'}, {keys:,} keys, "
                f"{consumers} consumer{'s' if consumers > 1 else ''}",
                unit=Unit.MESSAGES_PER_S,
                goals=(Goal(at_least=0.5, against_row=row_key(consumers, keys, is_ordered=False)),)
                if is_ordered
                else (),
            )
            for consumers, keys in CASES
            for is_ordered in (False, True)
        )

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        with bench.share_broker(side, Durability.FSYNC) as broker:
            for consumers, keys in CASES:
                for is_ordered in (False, True):
                    key = row_key(consumers, keys, is_ordered=is_ordered)
                    bench.show_step(key)
                    load = partial(_rate, bench, broker, key, consumers, keys, is_ordered)
                    yield key, measured_load(broker.pid, bench.sizes.messages, load)


def _rate(
    bench: Bench, broker: RunningBroker, name: str, consumers: int, keys: int, is_ordered: bool
) -> float:
    figures = bench.run_share_load(
        broker,
        name,
        messages=bench.sizes.messages,
        consumers=consumers,
        keys=keys,
        is_ordered=is_ordered,
    )
    return figures["messages_per_s"]
