"""The sizes of the samples of captures, and the database and the broker that a sample gets."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import bench, programs
from benchmarks.broker.brokers import Durability, RunningBroker, running_broker
from benchmarks.cdc.database import Database, running_database
from benchmarks.measurements import Side


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    scale: int
    """of pgbench for the snapshot: 100,000 rows each"""
    peer_rows: int
    """of the snapshot by Debezium, whose rate does not depend on the number of rows"""
    backlog_transactions: int
    load_s: int
    latency_rows: int
    latency_rate: int
    large_rows: int
    """of one transaction"""
    view_rows: int
    """of the view that is rebuilt"""


FULL = Sizes(
    scale=100,
    peer_rows=1_000_000,
    backlog_transactions=100_000,
    load_s=30,
    latency_rows=3_000,
    latency_rate=100,
    large_rows=1_000_000,
    view_rows=5_000_000,
)
QUICK = Sizes(
    scale=1,
    peer_rows=50_000,
    backlog_transactions=1_000,
    load_s=2,
    latency_rows=100,
    latency_rate=50,
    large_rows=20_000,
    view_rows=20_000,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench(bench.Bench):
    sizes: Sizes

    @contextlib.contextmanager
    def workbench(self, scale: int = 1) -> Iterator[tuple[Database, RunningBroker, Path]]:
        """A new database with pgbench's tables, a new broker that acknowledges after fsync, and a folder."""
        self.show_step("starting PostgreSQL and the broker")
        with (
            self.folder() as folder,
            running_database(scale) as database,
            running_broker(Side.HEADRACE, folder / "broker", Durability.FSYNC) as broker,
        ):
            yield database, broker, folder

    def run_program(self, name: str, **arguments: Any) -> dict[str, float]:
        return programs.run_program(self, f"benchmarks.cdc.programs.{name}", **arguments)


Subject = bench.Subject[Bench]
