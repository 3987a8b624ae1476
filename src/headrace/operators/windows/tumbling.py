"""Windows one after the other: each row is in exactly one."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.operators.windows.clock import ClockWindow
from headrace.operators.windows.window import Window


@dataclass(frozen=True, slots=True)
class Tumbling(ClockWindow):
    """Windows of one length, one after the other.

        op.Tumbling("1 minute", by="url", aggregate={"n": "count(*)"})

    length   of a window
    offset   when the first one begins, after the epoch: "15 minutes" for hours that begin at a quarter past
    zone     whose days they are, such as "Europe/Berlin", for lengths of whole days; UTC's if it is left out

    The other fields are those of every window: `by`, `aggregate`, `time`, `trigger`, `late`.
    """

    def __post_init__(self) -> None:
        _ = self.slots
        Window.__post_init__(self)
