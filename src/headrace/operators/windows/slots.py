"""Which windows a row belongs to, for windows whose bounds the clock alone decides: tumbling, hopping, sampling."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from headrace.operators.state.ids import Ints


class ClockSlots(Struct, frozen=True, kw_only=True):
    """Windows of `length_us`, one beginning every `every_us`, counted from `offset_us` after the epoch."""

    length_us: int
    every_us: int
    offset_us: int = 0

    def assign(self, times_us: Ints) -> tuple[Ints, Ints, Ints]:
        """Positions of rows, and start and end of a window of theirs; a row may come several times, or never."""
        newest = times_us - (times_us - self.offset_us) % self.every_us
        positions, starts = [], []
        for back in range(-(-self.length_us // self.every_us)):
            start = newest - back * self.every_us
            inside = np.flatnonzero(start + self.length_us > times_us)
            positions.append(inside)
            starts.append(start[inside])
        start = np.concatenate(starts)
        return np.concatenate(positions), start, start + self.length_us
