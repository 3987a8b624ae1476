"""Signed webhooks to a local target, and to the same one beside a target that accepts connections and never answers."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.edges.bench import Bench, Subject
from benchmarks.measurements import Goal, Row, Sample, Side, Unit

ALONE, BESIDE_DEAD = "webhooks-out", "webhooks-out-beside-dead"


class WebhooksOut(Subject):
    name = "webhooks-out"
    title = "Webhooks out: a filter, a signature and a request for each record"
    sides = (Side.HEADRACE,)

    @property
    def rows(self) -> tuple[Row, ...]:
        alike = Goal(at_least=0.9, against_row=ALONE)
        return (
            Row(
                key=ALONE,
                what="deliveries to a local target",
                unit=Unit.MESSAGES_PER_S,
                goals=(Goal(at_least=2_000),),
            ),
            Row(
                key=BESIDE_DEAD,
                what="the same, beside a target that never answers",
                unit=Unit.MESSAGES_PER_S,
                goals=(alike,),
            ),
        )

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        for row in (ALONE, BESIDE_DEAD):
            if not bench.wants(row):
                continue
            bench.show_step(f"{bench.sizes.deliveries:,} deliveries, {row}")
            with bench.broker(partitions=3) as broker:
                figures = bench.run_program(
                    "webhook_receiver",
                    bootstrap=broker.bootstrap,
                    deliveries=bench.sizes.deliveries,
                    beside_dead=row == BESIDE_DEAD,
                )
            yield row, Sample(value=figures["per_s"])
