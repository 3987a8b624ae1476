"""State of many keys of which a batch touches few: the cost of a batch depends on the keys that it touches."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.measurements import Goal, Row, Sample, Side, Unit
from benchmarks.operators.bench import FULL, Bench, Subject

TIMES_AT_MOST = 3.0
"""The limit with a hundred times as many keys in the state as a batch touches, as a multiple of the cost with only the
touched keys. Merging files costs the logarithm of the size of the state, 7 for a hundred, and is a part of a batch."""


class KeptKeys(Subject):
    name = "operators-keys"
    title = "100,000 keys touched by each batch, with more and more keys in the state"
    sides = (Side.HEADRACE,)

    @property
    def rows(self) -> tuple[Row, ...]:
        rows = []
        for figure, what, unit in (
            ("time", "a batch", Unit.SECONDS),
            ("written", "written by a batch", Unit.MEGABYTES),
        ):
            fewest, *_, most = FULL.kept_keys
            for kept in FULL.kept_keys:
                goal = Goal(at_most=TIMES_AT_MOST, against_row=_key(figure, fewest))
                goals = (goal,) if kept == most else ()
                rows.append(
                    Row(key=_key(figure, kept), what=f"{what}, {kept:,} kept", unit=unit, goals=goals)
                )
        return tuple(rows)

    def measure(self, side: Side, bench: Bench) -> Iterator[tuple[str, Sample]]:
        for named, kept in zip(FULL.kept_keys, bench.sizes.kept_keys, strict=True):
            if not any(bench.wants(_key(figure, named)) for figure in ("time", "written")):
                continue
            bench.show_step(f"{kept:,} keys kept")
            figures = bench.run_program(
                "kept_keys",
                kept=kept,
                touched=bench.sizes.touched_keys,
                batches=bench.sizes.touching_batches,
            )
            yield _key("time", named), Sample(value=figures["batch_s"])
            yield _key("written", named), Sample(value=figures["written_mb"])


def _key(figure: str, kept: int) -> str:
    return f"keys-{figure}-{kept}"
