"""Server-sent events: from the write to the browser, and what a subscriber costs."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.edges.bench import Bench, Subject
from benchmarks.measurements import Goal, Row, Sample, Side, Unit

P50, P99, MEMORY = "stream-p50", "stream-p99", "stream-memory"


class Streams(Subject):
    name = "edges-streams"
    title = "Server-sent events"
    sides = (Side.HEADRACE,)

    @property
    def rows(self) -> tuple[Row, ...]:
        return (
            Row(key=P50, what="write to event, median", unit=Unit.MILLISECONDS, goals=(Goal(at_most=10),)),
            Row(key=P99, what="write to event, p99", unit=Unit.MILLISECONDS, goals=(Goal(at_most=50),)),
            Row(key=MEMORY, what="memory for a subscriber", unit=Unit.KILOBYTES, goals=(Goal(at_most=50),)),
        )

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        sizes = bench.sizes
        if bench.wants(P50) or bench.wants(P99):
            bench.show_step(f"{sizes.stream_events:,} events at {sizes.events_per_s:,}/s")
            with bench.broker(partitions=3) as broker, bench.server(side, broker.bootstrap) as server:
                figures = bench.run_program(
                    "listener",
                    url=server.url,
                    bootstrap=broker.bootstrap,
                    events=sizes.stream_events,
                    per_s=sizes.events_per_s,
                )
            yield P50, Sample(value=figures["p50"])
            yield P99, Sample(value=figures["p99"])
        if bench.wants(MEMORY):
            bench.show_step(f"{sizes.subscribers:,} subscribers")
            with bench.broker(partitions=3) as broker, bench.server(side, broker.bootstrap) as server:
                figures = bench.run_program(
                    "subscribers",
                    url=server.url,
                    pid=server.pid,
                    bootstrap=broker.bootstrap,
                    subscribers=sizes.subscribers,
                )
            yield MEMORY, Sample(value=figures["kb"])
