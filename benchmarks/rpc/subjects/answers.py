"""How long an answer takes: one asker, the count of a URL, gathered from all partitions while the job runs."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.measurements import Goal, Row, Sample, Side, Unit
from benchmarks.rpc.bench import Bench, Subject
from benchmarks.rpc.programs import storm

BATCH_AND_50 = "answer-batch-and-50"


class Answers(Subject):
    name = "rpc-answers"
    title = "An answer by RPC from the state of a running job, one question at a time"
    sides = (Side.HEADRACE, Side.STORM, Side.SPARK)

    @property
    def rows(self) -> tuple[Row, ...]:
        below = Goal(at_most=1.0, against_row=BATCH_AND_50)
        return (
            Row(key="answer-p50", what="median", unit=Unit.MILLISECONDS),
            Row(key="answer-p99", what="p99", unit=Unit.MILLISECONDS, goals=(below,)),
            Row(key=BATCH_AND_50, what="one micro-batch plus 50 ms", unit=Unit.MILLISECONDS),
        )

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        if not any(bench.wants(row.key) for row in self.rows):
            return
        sizes = bench.sizes
        bench.show_step(f"{sizes.questions:,} questions, {sizes.urls:,} keys")
        if side is Side.STORM:
            figures = storm.ask(urls=sizes.urls, warmup=sizes.warmup, questions=sizes.questions)
        else:
            with bench.broker() as broker:
                figures = bench.run_program(
                    "counts",
                    side=side,
                    bootstrap=broker.bootstrap,
                    urls=sizes.urls,
                    clicks_per_s=sizes.clicks_per_s,
                    warmup=sizes.warmup,
                    questions=sizes.questions if side is Side.HEADRACE else sizes.spark_questions,
                )
        for key, figure in figures.items():
            yield f"answer-{key}", Sample(value=figure)
