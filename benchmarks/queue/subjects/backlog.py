"""A queue with a backlog: the same load with millions of waiting messages, and with none."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.broker.brokers import Durability
from benchmarks.broker.load import confluent, create_topic
from benchmarks.measurements import Goal, Row, Sample, Side, Unit
from benchmarks.queue.bench import MESSAGE_BYTES, Bench, Subject
from benchmarks.queue.rabbit_load import RabbitLoad, fill, run_rabbit_load
from benchmarks.queue.rabbitmq import running_rabbitmq
from benchmarks.queue.share_load import create_group

EMPTY, WAITING = "backlog-none", "backlog-waiting"


class Backlog(Subject):
    name = "queue-backlog"
    title = "5 million messages wait: one producer with confirms, one consumer, fsync"
    sides = (Side.HEADRACE, Side.KAFKA, Side.RABBITMQ_CLASSIC)

    @property
    def rows(self) -> tuple[Row, ...]:
        return (
            Row(key=EMPTY, what="an empty queue", unit=Unit.MESSAGES_PER_S),
            Row(
                key=WAITING,
                what="5 million messages wait",
                unit=Unit.MESSAGES_PER_S,
                goals=(Goal(at_least=0.9, against_row=EMPTY),),
            ),
        )

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        if side is Side.RABBITMQ_CLASSIC:
            yield from self._measure_rabbit(side, bench)
            return
        messages = bench.sizes.messages
        with bench.share_broker(side, Durability.FSYNC) as broker:
            bench.show_step("an empty queue")
            figures = bench.run_share_load(broker, EMPTY, messages=messages)
            yield EMPTY, Sample(value=figures["messages_per_s"])
            bench.show_step("filling a queue")
            create_topic(broker.bootstrap, WAITING)
            create_group(broker.bootstrap, WAITING)
            confluent("produce", broker.bootstrap, WAITING, bench.sizes.backlog, MESSAGE_BYTES)
            bench.show_step("a queue that is full")
            figures = bench.run_share_load(broker, WAITING, messages=messages, is_new=False)
            yield WAITING, Sample(value=figures["messages_per_s"])

    def _measure_rabbit(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        with bench.folder() as folder, running_rabbitmq(folder) as rabbit:
            for queue in (EMPTY, WAITING):
                if queue == WAITING:
                    bench.show_step("filling a queue")
                    fill(rabbit.uri, side, queue, bench.sizes.backlog, MESSAGE_BYTES)
                bench.show_step(f"{queue}")
                load = RabbitLoad(
                    uri=rabbit.uri,
                    side=side,
                    queue=queue,
                    seconds=bench.sizes.rabbit_s,
                    message_bytes=MESSAGE_BYTES,
                )
                yield queue, Sample(value=run_rabbit_load(load).messages_per_s)
