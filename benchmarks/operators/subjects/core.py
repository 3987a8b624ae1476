"""The keyed-state core, beside the same work with one call of Spark's state for each key."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.measurements import Goal, Row, Sample, Side, Unit
from benchmarks.operators.bench import SHORT, WARM_UP, Bench, Subject
from benchmarks.operators.events import CLICKS, DEVICES, USERS
from benchmarks.operators.programs.keyed_state import CORE, PER_KEY_PANDAS, PER_KEY_ROWS
from benchmarks.streams import sample_of

KEYS = {USERS: "user", DEVICES: "device"}
"""The column with so many keys."""

WAYS = {Side.HEADRACE: CORE, Side.SPARK_ROWS: PER_KEY_ROWS, Side.SPARK_PANDAS: PER_KEY_PANDAS}


class Core(Subject):
    name = "operators-core"
    title = "500,000 events counted by key and window, every change published with its batch"
    sides = (Side.HEADRACE, Side.SPARK_ROWS, Side.SPARK_PANDAS)

    @property
    def rows(self) -> tuple[Row, ...]:
        goals = (Goal(at_least=5.0, against_best=True),)
        return tuple(
            Row(key=_key(keys), what=f"{keys:,} keys", unit=Unit.RECORDS_PER_S, goals=goals) for keys in KEYS
        )

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        for keys, column in KEYS.items():
            if not bench.wants(_key(keys)):
                continue
            with bench.events_broker(CLICKS + SHORT, CLICKS + WARM_UP) as broker:
                bench.say(f"{keys:,} keys")
                figures = bench.run_program(
                    "keyed_state",
                    ways=[WAYS[side]],
                    column=column,
                    bootstrap=broker.bootstrap,
                    events=bench.sizes.clicks_short,
                )
            yield _key(keys), sample_of(figures, WAYS[side])


def _key(keys: int) -> str:
    return f"core-{keys}"
