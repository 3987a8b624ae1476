"""Many partitions and many idle connections: their cost when idle, and their effect on a producer."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from functools import partial

from benchmarks.bench import measured_load
from benchmarks.broker.bench import Bench, Subject
from benchmarks.broker.brokers import RunningBroker, running_broker
from benchmarks.broker.load import check_end_offset, create_topic, java_produce
from benchmarks.broker.wire import api_versions_request, read_response
from benchmarks.measurements import Goal, Row, Sample, Side, Unit
from benchmarks.processes import cpu_s, resident_mb

RECORD_BYTES = 100
SETTLE_S = 5
WITHIN_20_PERCENT = 0.8


class Scale(Subject):
    name = "scale"
    title = "1,000 partitions and 500 idle connections"

    @property
    def rows(self) -> tuple[Row, ...]:
        of_small_case = (Goal(at_least=WITHIN_20_PERCENT, against_row="scale-produce-small"),)
        return (
            Row(
                key="scale-idle-cpu",
                what="CPU while idle",
                unit=Unit.PERCENT_OF_A_CORE,
                goals=(Goal(at_most=2.0),),
            ),
            Row(key="scale-memory", what="resident, idle", unit=Unit.MEGABYTES),
            Row(
                key="scale-produce-small",
                what="produce 100 B, Java, without other partitions and connections",
                unit=Unit.RECORDS_PER_S,
            ),
            Row(
                key="scale-produce-one",
                what="the same to one partition in addition to the 1,000",
                unit=Unit.RECORDS_PER_S,
                goals=of_small_case,
            ),
            Row(
                key="scale-produce-all",
                what="the same spread over the 1,000",
                unit=Unit.RECORDS_PER_S,
                goals=of_small_case,
            ),
        )

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        records, partitions = bench.sizes.produce[RECORD_BYTES], bench.sizes.partitions
        with bench.folder() as folder, running_broker(side, folder) as broker:
            bench.warm_up(broker)
            bench.show_step("the small case")
            yield "scale-produce-small", _produce(broker, "small", records)
            bench.show_step(f"creating {partitions} partitions and {bench.sizes.connections} connections")
            create_topic(broker.bootstrap, "many", partitions=partitions)
            with idle_connections(broker.bootstrap, bench.sizes.connections):
                time.sleep(SETTLE_S)
                bench.show_step("idle")
                yield "scale-idle-cpu", _idle_cpu(broker, bench.sizes.idle_s)
                yield "scale-memory", Sample(value=resident_mb(broker.pid))
                bench.show_step("one partition in addition to the many")
                yield "scale-produce-one", _produce(broker, "one", records)
                bench.show_step("spread over the many")
                yield "scale-produce-all", _produce(broker, "many", records, partitions=partitions)


def _produce(broker: RunningBroker, topic: str, records: int, *, partitions: int | None = None) -> Sample:
    if partitions is None:
        create_topic(broker.bootstrap, topic)
    sample = measured_load(
        broker.pid, records, partial(java_produce, broker.bootstrap, topic, records, RECORD_BYTES)
    )
    check_end_offset(broker.bootstrap, topic, records, partitions=partitions or 1)
    return sample


def _idle_cpu(broker: RunningBroker, idle_s: float) -> Sample:
    before_s, cpu_before_s = time.monotonic(), cpu_s(broker.pid)
    time.sleep(idle_s)
    used_s = cpu_s(broker.pid) - cpu_before_s
    return Sample(value=100 * used_s / (time.monotonic() - before_s))


@contextlib.contextmanager
def idle_connections(bootstrap: str, count: int) -> Iterator[None]:
    """Idle connections of clients that have sent ApiVersions."""
    host, _, port = bootstrap.rpartition(":")
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            connection = stack.enter_context(socket.create_connection((host, int(port)), timeout=30))
            connection.sendall(api_versions_request())
            read_response(connection)
        yield
