"""The latency of an event from a topic to a topic, compared with the same job in plain Spark."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.measurements import Goal, Row, Sample, Side, Unit
from benchmarks.pipeline.bench import Bench, Subject
from benchmarks.pipeline.programs.latency import MICRO_BATCH, MODES, REALTIME

FIGURES = ("p50", "p99")
_WHAT = {"p50": "median", "p99": "p99"}
_TIMES_BELOW_MICRO_BATCH = 10


class Latency(Subject):
    name = "pipeline-latency"
    title = "End-to-end latency of a stateless job, topic to topic, after warm-up"
    sides = (Side.HEADRACE, Side.SPARK)

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple(
            Row(
                key=_key(mode, figure),
                what=f"{_WHAT[figure]}, {mode}",
                unit=Unit.MILLISECONDS,
                goals=_goals(mode, figure),
            )
            for mode in MODES
            for figure in FIGURES
        )

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        modes = [mode for mode in MODES if any(bench.wants(_key(mode, figure)) for figure in FIGURES)]
        if not modes:
            return
        with bench.events_broker() as broker:
            bench.show_step(f"one event at a time: {', '.join(modes)}")
            figures = bench.run_program(
                "latency",
                side=side,
                modes=modes,
                bootstrap=broker.bootstrap,
                events=bench.sizes.latency_events,
                rate=bench.sizes.latency_rate,
            )
        for mode in modes:
            for figure in FIGURES:
                yield _key(mode, figure), Sample(value=figures[f"{mode}-{figure}"])


def _key(mode: str, figure: str) -> str:
    return f"latency-{mode}-{figure}"


def _goals(mode: str, figure: str) -> tuple[Goal, ...]:
    if mode == MICRO_BATCH:
        return (Goal(at_most=1.1, against_best=True),) if figure == "p50" else ()
    against_spark = Goal(at_most=1.2, against_best=True)
    below = Goal(at_most=1 / _TIMES_BELOW_MICRO_BATCH, against_row=_key(MICRO_BATCH, figure))
    return (against_spark, below) if mode == REALTIME else ()
