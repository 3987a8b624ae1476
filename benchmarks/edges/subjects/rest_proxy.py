"""The same events in the content type of Confluent's REST proxy, beside Karapace's REST proxy."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.edges.bench import Bench, Subject
from benchmarks.edges.karapace import require_karapace
from benchmarks.measurements import Goal, Row, Sample, Side, Unit

REST_PROXY = "http-rest-proxy"


class RestProxy(Subject):
    name = "edges-rest-proxy"
    title = "Events over HTTP, acknowledged, in requests of 100, as to Confluent's REST proxy"
    sides = (Side.HEADRACE, Side.KARAPACE)
    is_missing = False

    @property
    def rows(self) -> tuple[Row, ...]:
        goal = Goal(at_least=5.0, against_best=True)
        return (Row(key=REST_PROXY, what="events", unit=Unit.RECORDS_PER_S, goals=(goal,)),)

    def prepare(self, side: Side, bench: Bench) -> None:
        if side is Side.KARAPACE:
            self.is_missing = True
            require_karapace()
            self.is_missing = False

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        if not bench.wants(REST_PROXY) or (side is Side.KARAPACE and self.is_missing):
            return
        bench.show_step(f"{bench.sizes.requests:,} requests")
        with bench.broker(partitions=3) as broker, bench.server(side, broker.bootstrap) as server:
            for requests in (bench.sizes.warmup_requests, bench.sizes.requests):
                figures = bench.run_program("poster", url=server.url, requests=requests, as_rest_proxy=True)
        yield REST_PROXY, Sample(value=figures["events_per_s"])
