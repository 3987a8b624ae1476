"""The keyed-state core, compared with the same work with one state call of Spark per key."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.measurements import Goal, Row, Sample, Side, Unit
from benchmarks.operators.bench import FULL, SHORT, WARM_UP, Bench, Subject
from benchmarks.operators.events import CLICKS, DEVICES, USERS
from benchmarks.operators.programs.keyed_state import CORE, PER_KEY_PANDAS, PER_KEY_ROWS
from benchmarks.streams import sample_of

KEYS = {USERS: ("user", CLICKS), DEVICES: ("device", CLICKS + SHORT)}
"""By number of keys: the column with these keys, and a topic so large that the start of the job hardly counts."""

WAYS = {Side.HEADRACE: CORE, Side.SPARK_ROWS: PER_KEY_ROWS, Side.SPARK_PANDAS: PER_KEY_PANDAS}


class Core(Subject):
    name = "operators-core"
    title = "Events counted by key and window, with every change emitted in its batch"
    sides = (Side.HEADRACE, Side.SPARK_ROWS, Side.SPARK_PANDAS)

    @property
    def rows(self) -> tuple[Row, ...]:
        goals = (Goal(at_least=5.0, against_best=True),)
        return tuple(
            Row(
                key=_key(keys),
                what=f"{keys:,} keys, {FULL.count_of(topic):,} events",
                unit=Unit.RECORDS_PER_S,
                goals=goals,
            )
            for keys, (_, topic) in KEYS.items()
        )

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        for keys, (column, topic) in KEYS.items():
            if not bench.wants(_key(keys)):
                continue
            with bench.events_broker(topic, CLICKS + WARM_UP) as broker:
                bench.show_step(f"{keys:,} keys")
                figures = bench.run_program(
                    "keyed_state",
                    ways=[WAYS[side]],
                    column=column,
                    bootstrap=broker.bootstrap,
                    topic=topic,
                    events=bench.sizes.count_of(topic),
                )
            yield _key(keys), sample_of(figures, WAYS[side])


def _key(keys: int) -> str:
    return f"core-{keys}"
