"""Messages through a queue, acknowledged individually: the throughput, and the latency at half of it.

One producer with confirms, one or four consumers, messages of 100 B, one partition or one queue. Peers run first in a
round: the latency of a peer and of Headrace is measured at half of the throughput of this peer.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.bench import measured_load
from benchmarks.broker.brokers import Durability, RunningBroker
from benchmarks.measurements import SIDE_NAMES, Goal, Row, Sample, Side, Unit
from benchmarks.processes import cpu_s
from benchmarks.queue.bench import MESSAGE_BYTES, Bench, Subject
from benchmarks.queue.rabbit_load import RabbitFigures, RabbitLoad, run_rabbit_load
from benchmarks.queue.rabbitmq import RunningRabbit, running_rabbitmq

CONSUMERS = (1, 4)
RABBIT_SIDES = (Side.RABBITMQ_CLASSIC, Side.RABBITMQ_QUORUM)
PACES = (
    (Durability.FSYNC, Side.RABBITMQ_CLASSIC),
    (Durability.FSYNC, Side.RABBITMQ_QUORUM),
    (Durability.FSYNC, Side.KAFKA),
    (Durability.OS, Side.KAFKA),
)
LINGER_MS = {
    # The default of the client, which is the same on both sides. An AMQP client sends each message immediately, so
    # the Kafka client must not wait long either.
    Side.KAFKA: 5,
    Side.RABBITMQ_CLASSIC: 1,
    Side.RABBITMQ_QUORUM: 1,
}


def throughput_key(durability: Durability, consumers: int) -> str:
    return f"messages-{durability}-{consumers}"


def latency_key(durability: Durability, peer: Side) -> str:
    return f"latency-{durability}-half-of-{peer}"


class Messages(Subject):
    name = "queue-messages"
    title = "Messages of 100 B, each acknowledged: one producer with confirms"
    sides = (Side.KAFKA, *RABBIT_SIDES, Side.HEADRACE)

    def __init__(self) -> None:
        self._reached: dict[tuple[Durability, Side], float] = {}

    @property
    def rows(self) -> tuple[Row, ...]:
        throughput = tuple(
            Row(
                key=throughput_key(durability, consumers),
                what=f"{durability}, {consumers} consumer{'s' if consumers > 1 else ''}",
                unit=Unit.MESSAGES_PER_S,
                goals=(Goal(at_least=1.0, aim=2.0, against_best=True),),
            )
            for durability in (Durability.FSYNC, Durability.OS)
            for consumers in CONSUMERS
        )
        latency = tuple(
            Row(
                key=latency_key(durability, peer),
                what=f"p99 from send to delivery, {durability}, at half of the throughput of {SIDE_NAMES[peer]}",
                unit=Unit.MILLISECONDS,
                goals=(Goal(at_most=1.0, against_best=True),),
            )
            for durability, peer in PACES
        )
        return throughput + latency

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        if side in RABBIT_SIDES:
            yield from self._measure_rabbit(side, bench)
            return
        for durability in (Durability.FSYNC, Durability.OS):
            if not any(bench.wants(row.key) for row in self.rows if f"-{durability}-" in row.key):
                continue
            with bench.share_broker(side, durability) as broker:
                yield from self._throughput(broker, durability, bench)
                for pace_durability, peer in PACES:
                    if pace_durability is durability and side in (peer, Side.HEADRACE):
                        yield from self._latency(broker, durability, peer, bench)

    def _throughput(
        self, broker: RunningBroker, durability: Durability, bench: Bench
    ) -> Iterator[tuple[str, Sample]]:
        for consumers in CONSUMERS:
            key = throughput_key(durability, consumers)
            # The rate of the latency rows is half of the throughput of one consumer.
            if not bench.wants(key) and consumers > 1:
                continue
            bench.show_step(f"{consumers} consumers, {durability}")
            messages = bench.sizes.messages
            run = partial(bench.share_rate, broker, key, messages=messages, consumers=consumers)
            sample = measured_load(broker.pid, messages, run)
            if consumers == 1:
                self._reached[durability, broker.side] = sample.value
            if bench.wants(key):
                yield key, sample

    def _latency(
        self, broker: RunningBroker, durability: Durability, peer: Side, bench: Bench
    ) -> Iterator[tuple[str, Sample]]:
        key, reached = latency_key(durability, peer), self._reached.get((durability, peer))
        if reached is None or not bench.wants(key):
            return
        rate = int(reached / 2)
        bench.show_step(f"latency at {rate} messages/s, {durability}")
        figures = bench.run_share_load(
            broker,
            key,
            messages=rate * bench.sizes.paced_s,
            rate=rate,
            linger_ms=LINGER_MS[peer],
        )
        yield key, Sample(value=figures["p99_ms"])

    def _measure_rabbit(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        with bench.folder() as folder, running_rabbitmq(folder) as rabbit:
            for consumers in CONSUMERS:
                key = throughput_key(Durability.FSYNC, consumers)
                if not bench.wants(key) and consumers > 1:
                    continue
                bench.show_step(f"{consumers} consumers")
                cpu_before_s = cpu_s(rabbit.pid)
                figures = _rabbit(rabbit, side, key, bench.sizes.rabbit_s, consumers=consumers)
                used_s = cpu_s(rabbit.pid) - cpu_before_s
                if consumers == 1:
                    self._reached[Durability.FSYNC, side] = figures.messages_per_s
                if bench.wants(key):
                    per_million = used_s / max(1, figures.received) * 1e6
                    yield key, Sample(value=figures.messages_per_s, broker_cpu_s_per_million=per_million)
            key = latency_key(Durability.FSYNC, side)
            if bench.wants(key):
                rate = int(self._reached[Durability.FSYNC, side] / 2)
                bench.show_step(f"latency at {rate} messages/s")
                paced = _rabbit(rabbit, side, key, bench.sizes.rabbit_s, rate=rate)
                yield key, Sample(value=paced.p99_ms)


def _rabbit(
    rabbit: RunningRabbit, side: Side, queue: str, seconds: int, *, consumers: int = 1, rate: int = 0
) -> RabbitFigures:
    return run_rabbit_load(
        RabbitLoad(
            uri=rabbit.uri,
            side=side,
            queue=queue,
            seconds=seconds,
            consumers=consumers,
            message_bytes=MESSAGE_BYTES,
            rate=rate,
        )
    )
