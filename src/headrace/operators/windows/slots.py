"""The assignment of rows to windows with fixed boundaries: tumbling, hopping, sampling."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from headrace.operators.state.ids import Ints


class ClockSlots(Struct, frozen=True, kw_only=True):
    """Windows of `length_us` that start every `every_us`, from `offset_us` after the epoch."""

    length_us: int
    every_us: int
    offset_us: int = 0

    def assign(self, times_us: Ints) -> tuple[Ints, Ints, Ints]:
        """The positions of rows with the start and end of their windows. A row may be in several windows or in none."""
        newest = times_us - (times_us - self.offset_us) % self.every_us
        positions, starts = [], []
        for back in range(-(-self.length_us // self.every_us)):
            start = newest - back * self.every_us
            inside = np.flatnonzero(start + self.length_us > times_us)
            positions.append(inside)
            starts.append(start[inside])
        start = np.concatenate(starts)
        return np.concatenate(positions), start, start + self.length_us
