"""What `headrace run` shows: panels, each of which looks once a second and draws itself.

A later part of Headrace that wants to be seen there is one more `Panel` in the list that `run.py` makes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from headrace.cli.cluster import Cluster, partitions_in
from headrace.clock import Clock

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table


class Panel(Protocol):
    def sample(self) -> None:
        """Look again."""

    def render(self) -> RenderableType:
        """What was seen, for a screen."""

    def summary(self) -> str:
        """What was seen, in a few words for a line of plain text."""


class TopicsPanel:
    """Records, bytes and rate of every topic."""

    def __init__(self, cluster: Cluster, data_dir: Path, clock: Clock) -> None:
        self._cluster = cluster
        self._data_dir = data_dir
        self._clock = clock
        self._sampled_s = clock.monotonic_s()
        self._ends: dict[str, int] = {}
        self._rows: list[tuple[str, int, int, int, float]] = []

    def sample(self) -> None:
        now_s = self._clock.monotonic_s()
        topics = {
            name: partitions_in(metadata, name)
            for name, metadata in sorted(self._cluster.topics().items())
            if not name.startswith("__")
        }
        every = [each for partitions in topics.values() for each in partitions]
        starts, ends = self._cluster.earliest(every), self._cluster.latest(every)
        rows, ends_by_topic = [], {}
        for name, partitions in topics.items():
            end = sum(ends[each] for each in partitions)
            rate = (end - self._ends.get(name, end)) / max(now_s - self._sampled_s, 1e-9)
            records = end - sum(starts[each] for each in partitions)
            rows.append((name, len(partitions), records, self._log_bytes(name, len(partitions)), rate))
            ends_by_topic[name] = end
        self._rows, self._ends, self._sampled_s = rows, ends_by_topic, now_s

    def render(self) -> RenderableType:
        table = _table("topic", "partitions", "records", "bytes", "records/s")
        for name, partitions, records, size_bytes, rate in self._rows:
            table.add_row(name, str(partitions), f"{records:,}", _size(size_bytes), f"{rate:,.0f}")
        return table

    def summary(self) -> str:
        return "; ".join(
            f"{name} {records} records {_size(size_bytes)} {rate:.0f}/s"
            for name, _, records, size_bytes, rate in self._rows
        )

    def _log_bytes(self, topic: str, partitions: int) -> int:
        """From the files: the Kafka protocol's clients in Python cannot ask for it."""
        return sum(
            _file_bytes(path)
            for number in range(partitions)
            for path in (self._data_dir / f"{topic}-{number}").glob("*.log")
        )


class GroupsPanel:
    """State and lag of every consumer group."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._rows: list[tuple[str, str, int]] = []

    def sample(self) -> None:
        rows = []
        for name, state in self._cluster.groups():
            committed = self._cluster.committed(name)
            ends = self._cluster.latest(committed)
            rows.append((name, state, sum(ends[each] - offset for each, offset in committed.items())))
        self._rows = rows

    def render(self) -> RenderableType:
        table = _table("group", "state", "lag")
        for name, state, lag in self._rows:
            table.add_row(name, state, f"{lag:,}")
        return table

    def summary(self) -> str:
        return "; ".join(f"{name} lag {lag}" for name, _, lag in self._rows)


def render_screen(bootstrap: str, panels: Sequence[Panel]) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [
        Text.assemble(("Headrace", "bold"), f"  broker at {bootstrap}   Ctrl-C stops")
    ]
    for panel in panels:
        parts += [Text(), panel.render()]
    parts += [Text(), Text(f"try: headrace consume clicks --follow --bootstrap {bootstrap}", style="dim")]
    return Group(*parts)


def _table(*columns: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for index, column in enumerate(columns):
        is_number = index > 0 and column != "state"
        table.add_column(column, justify="right" if is_number else "left", min_width=12)
    return table


def _file_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0  # retention was quicker


def _size(size_bytes: int) -> str:
    size = float(size_bytes)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
