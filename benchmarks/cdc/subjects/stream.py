"""Changes per second: the backlog of a load is written to topics, and a load at its maximum is followed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.broker.brokers import RunningBroker
from benchmarks.cdc.bench import Bench, Subject
from benchmarks.cdc.database import CHANGES_PER_TRANSACTION, CLIENTS, Database
from benchmarks.cdc.followers import (
    NAME,
    TIMEOUT_S,
    debezium,
    engine_rate,
    following,
    wait_for_events,
)
from benchmarks.measurements import Goal, Row, Sample, Side, Unit

TABLES = "public.pgbench_*"
TABLE_ROWS = 100_000 + 10 + 1
"""of a database of scale 1"""
LAG_S_MAX = 1.0
"""A capture that keeps up has written the last change within this time, whatever the load has lasted."""


class Stream(Subject):
    name = "cdc-stream"
    title = "Changes of pgbench (four clients, TPC-B) into topics"
    sides = (Side.HEADRACE, Side.DEBEZIUM)

    @property
    def rows(self) -> tuple[Row, ...]:
        return (
            Row(
                key="stream-rate",
                what="100,000 transactions, committed before the capture continues",
                unit=Unit.RECORDS_PER_S,
                goals=(Goal(at_least=1.5, against_best=True),),
            ),
            Row(
                key="stream-load",
                what="changes/s of pgbench beside the capture",
                unit=Unit.RECORDS_PER_S,
            ),
            Row(
                key="stream-lag",
                what="after 30 s at pgbench's maximum: until the last change is in the log",
                unit=Unit.SECONDS,
                goals=(Goal(at_most=LAG_S_MAX),),
            ),
        )

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        if bench.wants("stream-rate"):
            with bench.workbench() as (database, broker, folder):
                yield "stream-rate", Sample(value=_backlog_rate(side, bench, database, broker, folder))
        if bench.wants("stream-lag") or bench.wants("stream-load"):
            with bench.workbench() as (database, broker, folder):
                load, lag_s = _lag(side, bench, database, broker, folder)
                yield "stream-load", Sample(value=load)
                yield "stream-lag", Sample(value=lag_s)


def _backlog_rate(side: Side, bench: Bench, database: Database, broker: RunningBroker, folder: Path) -> float:
    bench.show_step("snapshot")
    per_client = bench.sizes.backlog_transactions // CLIENTS
    arguments = {
        "bootstrap": broker.bootstrap,
        "address": database.address,
        "capture": NAME,
        "tables": [TABLES],
    }
    if side is Side.DEBEZIUM:
        with debezium(database, broker, folder, TABLES) as engine:
            engine.wait_for_events(TABLE_ROWS, TIMEOUT_S)
    else:
        bench.run_program("capture", **arguments)
    bench.show_step("load")
    changes = CHANGES_PER_TRANSACTION * database.run_load("-t", str(per_client))
    bench.show_step(f"{changes:,} changes")
    if side is Side.DEBEZIUM:
        with debezium(database, broker, folder, TABLES) as engine:
            engine.wait_for_events(changes, TIMEOUT_S)
            return engine_rate(engine)
    figures = bench.run_program("capture", **arguments)
    assert figures["events"] == changes
    return changes / figures["seconds"]


def _lag(
    side: Side, bench: Bench, database: Database, broker: RunningBroker, folder: Path
) -> tuple[float, float]:
    with following(side, database, broker, folder, TABLES) as events:
        wait_for_events(events, TABLE_ROWS)
        bench.show_step(f"pgbench, {bench.sizes.load_s} s")
        changes = CHANGES_PER_TRANSACTION * database.run_load("-T", str(bench.sizes.load_s))
        ended_s = time.monotonic()
        wait_for_events(events, TABLE_ROWS + changes)
        return changes / bench.sizes.load_s, time.monotonic() - ended_s
