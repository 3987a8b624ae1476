"""The metrics of a window, aggregated: one series for each type, name and set of tags.

Lines are the hot path of a listener. Equal lines of a batch are counted first and parsed once; usual lines match one
regular expression, and all others go through `parse_line`, which also knows why a line is garbage.
"""

from __future__ import annotations

import random
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import nan

from msgspec import Struct

from headrace.edges.statsd.lines import BadLine, Garbage, Metric, parse_line, tags_of

_USUAL = re.compile(
    rb"([^:|]+):([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)\|(c|g|ms|h|d)(?:\|@([0-9.]+))?(?:\|#([^|]*))?"
)

OnGarbage = Callable[[bytes, Garbage, int], None]
"""Called with a line, why it was not counted, and how often it came."""

VALUES_FEW = 100

RATES_MAX = 1000
"""Sampling rates that are remembered, as texts; programs use a few."""

TYPES = {b"c": "counter", b"g": "gauge", b"ms": "timer", b"h": "histogram", b"d": "distribution", b"s": "set"}


class Bounds(Struct, frozen=True, kw_only=True):
    series_max: int
    """different metrics of a window, and gauges that are remembered"""
    values_max: int
    """of a timer in a window; percentiles of more are those of a random sample"""
    metrics_exact_max: int
    """values in a window, after which a timer keeps `VALUES_FEW` of them: all timers together are bounded, too"""
    members_max: int
    """of all sets of a window"""
    line_bytes_max: int


class Series(Struct):
    """Values of one metric in a window."""

    type: str
    name: str
    tags: dict[str, str]
    count: float = 0.0
    """what came, divided by the sampling rate"""
    total: float = 0.0
    least: float = float("inf")
    most: float = float("-inf")
    seen: int = 0
    """values that came, of which `values` may be a sample"""
    values: array[float] = array("d")
    members: set[bytes] | None = None


class Window:
    """What arrived since the last flush. `gauges` are the last values, which outlive the window."""

    def __init__(self, bounds: Bounds, gauges: dict[bytes, float], on_garbage: OnGarbage) -> None:
        self._bounds = bounds
        self._gauges = gauges
        self._on_garbage = on_garbage
        self._series: dict[tuple[str, str, tuple[tuple[str, str], ...]], Series] = {}
        # The same by the bytes of a line: tags in another order are another entry of the same series.
        self._by_bytes: dict[tuple[bytes, bytes, bytes | None], Series] = {}
        self._members = 0
        self._weights: dict[bytes | None, float] = {None: 1.0}
        self._values_max = bounds.values_max
        self._random = random.Random(0)
        self.metrics = 0
        """values that were counted"""

    def __len__(self) -> int:
        return len(self._series)

    def series(self) -> Iterator[Series]:
        return iter(self._series.values())

    def add(self, packets: Sequence[bytes]) -> None:
        """Lines of packets, in their order."""
        text = b"\n".join(packets)
        lines = text.split(b"\n")
        if self.metrics > self._bounds.metrics_exact_max:
            self._values_max = min(VALUES_FEW, self._values_max)
        has_gauges = b"|g" in text
        self._add_distinct(Counter(lines), has_gauges)
        if has_gauges:  # their order counts
            for line in lines:
                if b"|g" in line:
                    self._add_one(line, 1)

    def _add_distinct(self, counts: Counter[bytes], has_gauges: bool) -> None:
        match, known, weights, values_max = (
            _USUAL.fullmatch,
            self._by_bytes,
            self._weights,
            self._values_max,
        )
        for line, times in counts.items():
            found = match(line)
            if found is None:
                if not (has_gauges and b"|g" in line):
                    self._add_one(line, times)
                continue
            name, text, kind, rate, tags = found.groups()
            if kind == b"g":
                continue
            series, weight = known.get((kind, name, tags)), weights.get(rate)
            try:
                value = float(text)
            except ValueError:
                value = nan
            if series is None or weight is None or value - value != 0:  # new, or not a finite number
                self._add_one(line, times)
                continue
            self.metrics += times
            series.count += weight * times
            series.total += value * weight * times
            if kind == b"c":
                continue
            if value < series.least:
                series.least = value
            if value > series.most:
                series.most = value
            if times == 1 and series.seen < values_max:
                series.seen += 1
                series.values.append(value)
            else:
                self._sample(series, value, times)

    def _add_one(self, line: bytes, times: int) -> None:
        """A line that is new, unusual or garbage; it came so many times."""
        line = line.rstrip(b"\r")
        if not line:
            return
        try:
            if len(line) > self._bounds.line_bytes_max:
                raise BadLine(Garbage.TOO_LONG)
            metric = parse_line(line)
            self._add_metric(metric, times)
            self._remember_rate(line, metric)
        except BadLine as error:
            self._on_garbage(line, error.reason, times)
        else:
            self.metrics += times * (len(metric.values) or 1)

    def _remember_rate(self, line: bytes, metric: Metric) -> None:
        found = _USUAL.fullmatch(line)
        if found is not None and len(self._weights) < RATES_MAX:
            self._weights[found[4]] = 1 / metric.rate

    def _add_metric(self, metric: Metric, times: int) -> None:
        series = self._series_of(metric)
        weight = times / metric.rate
        for value in metric.values:
            match metric.type:
                case b"c":
                    series.total += value * weight
                    series.count += weight
                case b"g":
                    self._set_gauge(metric, series, value)
                case _:
                    series.count += weight
                    series.total += value * weight
                    series.least = min(series.least, value)
                    series.most = max(series.most, value)
                    self._sample(series, value, times)
        for member in metric.members:
            self._add_member(series, member)

    def _series_of(self, metric: Metric) -> Series:
        place = metric.type, metric.name, metric.tags or None
        series = self._by_bytes.get(place)
        if series is not None:
            return series
        tags = tags_of(metric.tags)
        key = TYPES[metric.type], metric.name.decode(), tuple(tags.items())
        series = self._series.get(key)
        if series is None:
            if len(self._series) >= self._bounds.series_max:
                raise BadLine(Garbage.TOO_MANY)
            series = Series(type=key[0], name=key[1], tags=tags, values=array("d"))
            if metric.type == b"s":
                series.members = set()
            self._series[key] = series
        if len(self._by_bytes) < 2 * self._bounds.series_max:
            self._by_bytes[place] = series
        return series

    def _set_gauge(self, metric: Metric, series: Series, value: float) -> None:
        key = metric.name + b"|" + ",".join(f"{name}:{tag}" for name, tag in series.tags.items()).encode()
        if key not in self._gauges and len(self._gauges) >= self._bounds.series_max:
            raise BadLine(Garbage.TOO_MANY)
        series.total = self._gauges.get(key, 0.0) + value if metric.is_delta else value
        self._gauges[key] = series.total

    def _add_member(self, series: Series, member: bytes) -> None:
        assert series.members is not None
        if member not in series.members:
            if self._members >= self._bounds.members_max:
                raise BadLine(Garbage.TOO_MANY)
            series.members.add(member)
            self._members += 1

    def _sample(self, series: Series, value: float, times: int) -> None:
        """Keep the value, or a uniform sample of all values if there are too many (algorithm R)."""
        values = series.values
        for _ in range(min(times, self._bounds.values_max)):
            series.seen += 1
            if len(values) < self._values_max:
                values.append(value)
            elif (place := self._random.randrange(series.seen)) < len(values):
                values[place] = value


def percentiles(values: Iterable[float], wanted: Sequence[int]) -> list[float]:
    """Each is the smallest value that so many percent of the values do not exceed (nearest rank)."""
    ordered = sorted(values)
    ranks = (-(-len(ordered) * each // 100) for each in wanted)  # rounded up
    return [ordered[max(rank, 1) - 1] for rank in ranks]
