"""How many StatsD packets per second a listener receives without a loss, and the CPU time of a packet."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from benchmarks.bench import measured_load
from benchmarks.edges.bench import Bench, Subject
from benchmarks.edges.programs.flood import Flood, socket_at
from benchmarks.edges.programs.statsd_servers import StatsdServer, headrace_server, install_npm, npm_server
from benchmarks.measurements import Goal, Row, Sample, Side, Unit

RATE = "statsd-rate"
CPU = "statsd-cpu"


class Statsd(Subject):
    name = "edge-statsd"
    title = "StatsD packets over UDP, one metric each"
    sides = (Side.HEADRACE, Side.STATSD)

    @property
    def rows(self) -> tuple[Row, ...]:
        goals = (Goal(at_least=2.0, against_best=True), Goal(at_least=100_000))
        return (
            Row(key=RATE, what="highest rate without a loss", unit=Unit.PACKETS_PER_S, goals=goals),
            Row(key=CPU, what="received at a steady rate, for its CPU time", unit=Unit.PACKETS_PER_S),
        )

    def prepare(self, side: Side, bench: Bench) -> None:
        if side is Side.STATSD:
            install_npm(bench.workplace / "npm")

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        with self._server(side, bench) as server:
            flood = Flood(server.port)
            if bench.wants(RATE):
                bench.show_step("searching the highest rate")
                least, most = bench.sizes.rates
                rate = flood.highest_rate(
                    seconds=bench.sizes.flood_s, least=least, most=most, steps=bench.sizes.steps
                )
                yield RATE, Sample(value=rate)
            if bench.wants(CPU):
                bench.show_step("a steady rate")
                yield CPU, self._steady(flood, server, bench)

    def _steady(self, flood: Flood, server: StatsdServer, bench: Bench) -> Sample:
        """The CPU time is divided by the packets sent. Dropped ones cost a listener nothing: it is a lower bound."""
        rate, seconds = bench.sizes.cpu_rate, bench.sizes.flood_s
        sent = int(rate * seconds)

        def load() -> float:
            before = socket_at(server.port).drops
            flood.is_received(rate, seconds)
            return (sent - (socket_at(server.port).drops - before)) / seconds

        return measured_load(server.pid, sent, load)

    @contextlib.contextmanager
    def _server(self, side: Side, bench: Bench) -> Iterator[StatsdServer]:
        if side is Side.STATSD:
            with npm_server(bench.workplace / "npm") as server:
                yield server
        else:
            with bench.broker(partitions=1) as broker, headrace_server(broker.bootstrap) as server:
                yield server
