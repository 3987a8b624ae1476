"""Windows one after the other: each row is in exactly one."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.operators.windows.clock import ClockWindow
from headrace.operators.windows.window import Window


@dataclass(frozen=True, slots=True)
class Tumbling(ClockWindow):
    """Windows of fixed length that do not overlap and have no gaps.

        op.Tumbling("1 minute", by="url", aggregate={"n": "count(*)"})

    length   the length of a window
    offset   the start of the first window, as a duration since the epoch: "15 minutes" for hours from quarter past
    zone     the time zone of windows of whole days, such as "Europe/Berlin"; UTC by default

    All windows also have the fields `by`, `aggregate`, `time`, `trigger` and `late`.
    """

    def __post_init__(self) -> None:
        _ = self.slots
        Window.__post_init__(self)
