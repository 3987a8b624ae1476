"""Rows to a topic exactly once, compared with Spark's own sink, which is at-least-once."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.measurements import Goal, Row, Sample, Side, Unit
from benchmarks.pipeline.bench import Bench, Subject

ROW = "topic-sink"


class TopicSink(Subject):
    name = "pipeline-topic-sink"
    title = "5 M JSON events from a topic to a topic"
    sides = (Side.HEADRACE, Side.SPARK)

    @property
    def rows(self) -> tuple[Row, ...]:
        goals = (Goal(at_least=0.8, against_best=True),)
        what = "exactly once (Headrace), at least once (Spark's own sink)"
        return (Row(key=ROW, what=what, unit=Unit.RECORDS_PER_S, goals=goals),)

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        if not bench.wants(ROW):
            return
        with bench.events_broker() as broker:
            bench.show_step("topic to topic")
            figures = bench.run_program(
                "topic_sink", side=side, bootstrap=broker.bootstrap, events=bench.sizes.events
            )
        yield ROW, Sample(value=figures["records_per_s"])
