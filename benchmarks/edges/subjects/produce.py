"""Events per second over HTTP, in batches of 100, on eight connections."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.edges.bench import Bench, Subject
from benchmarks.edges.programs.poster import EVENTS_PER_REQUEST
from benchmarks.measurements import Goal, Row, Sample, Side, Unit
from benchmarks.processes import cpu_s

PRODUCE, PRODUCE_CPU = "http-produce", "http-produce-cpu"


class Produce(Subject):
    name = "edges-produce"
    title = "Events over HTTP, acknowledged, in requests of 100"
    sides = (Side.HEADRACE, Side.FASTAPI)

    @property
    def rows(self) -> tuple[Row, ...]:
        at_least = Goal(at_least=1.0, against_best=True)
        at_most = Goal(at_most=1.0, against_best=True)
        return (
            Row(key=PRODUCE, what="events", unit=Unit.RECORDS_PER_S, goals=(at_least,)),
            Row(
                key=PRODUCE_CPU,
                what="CPU time of the server, a million events",
                unit=Unit.SECONDS,
                goals=(at_most,),
            ),
        )

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        if not any(bench.wants(row.key) for row in self.rows):
            return
        sizes = bench.sizes
        bench.show_step(f"{sizes.requests:,} requests")
        with bench.broker(partitions=3) as broker, bench.server(side, broker.bootstrap) as server:
            bench.run_program("poster", url=server.url, requests=sizes.warmup_requests, as_rest_proxy=False)
            before_s = cpu_s(server.pid)
            figures = bench.run_program(
                "poster", url=server.url, requests=sizes.requests, as_rest_proxy=False
            )
            used_s = cpu_s(server.pid) - before_s
        yield PRODUCE, Sample(value=figures["events_per_s"])
        yield PRODUCE_CPU, Sample(value=used_s / (sizes.requests * EVENTS_PER_REQUEST) * 1e6)
