"""The time of a step in tests that need one watermark: rows are judged by the watermark that fires the timers."""

from __future__ import annotations

from headrace.operators.state.step import BEGINNING_US, StepTime


def step_time(watermark: float, now: int = 0) -> StepTime:
    """Before the first watermark, it is negative."""
    watermark_us = BEGINNING_US if watermark < 0 else int(watermark)
    return StepTime(late_us=watermark_us, watermark_us=watermark_us, now_us=now)
