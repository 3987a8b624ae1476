"""Lines of standard input as records: `headrace produce`, and kcat, each as a whole process with its start."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.edges.bench import TOPIC, Bench, Subject
from benchmarks.measurements import Goal, Row, Sample, Side, Unit

STDIN, STDIN_CPU = "produce-stdin", "produce-stdin-cpu"

LINE_BYTES = 100
PARTITIONS = 4


class Stdin(Subject):
    name = "produce-stdin"
    title = "Lines of standard input, 100 bytes each"
    sides = (Side.HEADRACE, Side.KCAT)

    @property
    def rows(self) -> tuple[Row, ...]:
        at_least = Goal(at_least=1.0, against_best=True)
        return (
            Row(key=STDIN, what="lines, from start to end", unit=Unit.RECORDS_PER_S, goals=(at_least,)),
            Row(key=STDIN_CPU, what="CPU time, a million lines", unit=Unit.SECONDS),
        )

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        if not any(bench.wants(row.key) for row in self.rows):
            return
        count = bench.sizes.stdin_lines
        bench.show_step(f"{count:,} lines")
        with bench.folder() as folder, bench.broker(partitions=PARTITIONS) as broker:
            path = _write_lines(folder / "lines", count)
            command = [sys.executable, "-m", "headrace", "produce", TOPIC, "--bootstrap", broker.bootstrap]
            if side is Side.KCAT:
                # With what `headrace produce` guarantees by default.
                sure = ["-X", "acks=all", "-X", "enable.idempotence=true"]
                command = ["kcat", "-P", "-b", broker.bootstrap, "-t", TOPIC, *sure]
            before_s, started_s = _children_cpu_s(), time.monotonic()
            with path.open("rb") as lines:
                subprocess.run(command, stdin=lines, stdout=subprocess.DEVNULL, check=True)
            took_s, used_s = time.monotonic() - started_s, _children_cpu_s() - before_s
        yield STDIN, Sample(value=count / took_s)
        yield STDIN_CPU, Sample(value=used_s / count * 1e6)


def _write_lines(path: Path, count: int) -> Path:
    with path.open("wb") as file:
        for begin in range(0, count, 10_000):
            numbers = range(begin, min(begin + 10_000, count))
            file.writelines(b"%0*d\n" % (LINE_BYTES - 1, number) for number in numbers)
    return path


def _children_cpu_s() -> float:
    """Of the processes that have ended, which the broker has not."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
