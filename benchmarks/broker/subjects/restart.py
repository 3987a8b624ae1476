"""Restart after a clean stop: process start to the first Metadata response, with a small and with a large log."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from benchmarks.broker.bench import Bench, Subject
from benchmarks.broker.brokers import BrokerFailed, running_broker
from benchmarks.broker.load import check_end_offset, confluent, create_topic
from benchmarks.measurements import Goal, Row, Sample, Side, Unit

TOPIC = "kept"
RECORD_BYTES = 100_000  # large records, because writing is not measured
FREE_SPACE_FACTOR = 3
"""Both brokers have the log at the same time, and the disk should not become full."""

SAME_TIME_FACTOR = 1.2
"""The times of two starts of some 0.2 s differ by 10 or 20 %."""


class Restart(Subject):
    name = "restart"
    title = "Restart after a clean stop"

    def __init__(self) -> None:
        self._folders: dict[tuple[Side, str], Path] = {}

    @property
    def rows(self) -> tuple[Row, ...]:
        under_a_second = Goal(at_most=1.0)
        same_time = Goal(at_most=SAME_TIME_FACTOR, against_row="restart-small")
        return (
            Row(key="restart-small", what="1 GB of log", unit=Unit.SECONDS, goals=(under_a_second,)),
            Row(
                key="restart-large", what="10 GB of log", unit=Unit.SECONDS, goals=(under_a_second, same_time)
            ),
        )

    def prepare(self, side: Side, bench: Bench) -> None:
        for row, megabytes in zip(self.rows, bench.sizes.restart_mb, strict=True):
            if not bench.wants(row.key):
                continue
            _check_free_space(bench.workplace, megabytes)
            folder = bench.workplace / f"{row.key}-{side}"
            self._folders[side, row.key] = folder
            bench.show_step(f"{side}: writing {megabytes} MB of log")
            with running_broker(side, folder) as broker:
                create_topic(broker.bootstrap, TOPIC)
                confluent("produce", broker.bootstrap, TOPIC, _records(megabytes), RECORD_BYTES)

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        for row, megabytes in zip(self.rows, bench.sizes.restart_mb, strict=True):
            if (side, row.key) not in self._folders:
                continue
            bench.show_step(f"start with {megabytes} MB of log")
            with running_broker(side, self._folders[side, row.key]) as broker:
                check_end_offset(broker.bootstrap, TOPIC, _records(megabytes))
                sample = Sample(value=broker.start_s)
            yield row.key, sample


def _records(megabytes: int) -> int:
    return megabytes * 1_000_000 // RECORD_BYTES


def _check_free_space(folder: Path, megabytes: int) -> None:
    free_mb = shutil.disk_usage(folder).free // 1_000_000
    if free_mb < FREE_SPACE_FACTOR * megabytes:
        raise BrokerFailed(
            f"{megabytes} MB of log for two brokers need more than the {free_mb} MB of free space",
            hint="set --workplace to a folder on a larger disk, or use --quick",
        )
