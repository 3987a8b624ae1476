"""Sessions: rows of a key that follow each other closely, until nothing comes for a while."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.operators.folds import Fold
from headrace.operators.operator import BadOperator, Duration, duration_us, interval_text
from headrace.operators.triggers import Panes
from headrace.operators.windows.lifting import GapLift
from headrace.operators.windows.panes import PaneRules, PaneStep
from headrace.operators.windows.window import Window

if TYPE_CHECKING:
    from pyspark.sql import Column

    from headrace.operators.state.step import Lift


@dataclass(frozen=True, slots=True, kw_only=True)
class Session(Window):
    """All rows of a key with less than a gap between them. It ends one gap after its last row.

        op.Session(gap="30 minutes", by="user", aggregate={"pages": "count(*)"})

    gap   how long nothing must come for a session to be over
    """

    gap: Duration = field()

    def __post_init__(self) -> None:
        _ = self.gap_us
        if self.trigger is not None and self.trigger.panes != Panes.RETRACTING:
            raise BadOperator(
                "Session",
                "trigger",
                f"has {self.trigger.panes} panes; but sessions that were published can merge, and are taken back then",
                hint='panes="retracting"',
            )
        Window.__post_init__(self)

    @property
    def gap_us(self) -> int:
        return duration_us(self.gap, operator="Session", field="gap")

    def _step(
        self, keys: Sequence[pa.Field], folds: Sequence[tuple[str, Fold]], rules: PaneRules
    ) -> PaneStep:
        return PaneStep(keys=keys, folds=folds, rules=rules, merges_overlaps=True)

    def _native_window(self, time: str) -> Column:
        from pyspark.sql import functions as F

        return F.session_window(F.col(f"`{time}`"), interval_text(self.gap_us))

    def _lift(self, folds: Sequence[Fold], schema: pa.Schema) -> Lift:
        return GapLift(self.gap_us, folds, schema)
