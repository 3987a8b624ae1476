"""The panels of `headrace run` and `headrace top`: each samples the cluster every second and draws itself.

A later part of Headrace that wants to be seen there is one more `Panel` in the list that `run.py` or `top.py` makes.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Protocol

from msgspec import Struct

from headrace.cli.output import plain_text
from headrace.clock import Clock
from headrace.errors import HeadraceError
from headrace.kafka.cluster import Cluster, Partition
from headrace.kafka.on_disk import sizes_of_topics
from headrace.kafka.share_groups import describe_share_group, list_share_groups
from headrace.printable import printable

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

HISTORY_LOOKS = 20
"""Samples in a sparkline: a third of a minute, and narrow enough for a terminal of 80 columns."""

SIZES_EVERY_S = 5.0
"""A broker sums up the sizes of all its partitions for an answer, which is too much for every second."""

RECENT = "recently"
"""The column of sparklines: of the number before it."""

_BARS = "▁▂▃▄▅▆▇█"


class Panel(Protocol):
    @property
    def row_count(self) -> int:
        """Rows that it would show on a screen that is large enough."""

    def sample(self) -> None:
        """Ask the cluster again."""

    def render(self, rows_max: int) -> RenderableType:
        """The last sample, in at most this number of rows."""

    def summary(self) -> str:
        """The last sample, in a few words for a line of plain text."""


class TopicTraffic(Struct, frozen=True, kw_only=True):
    topic: str
    partitions: Annotated[int, "how many"]
    offsets: Annotated[int, "end less start, over all partitions"]
    size_bytes: Annotated[int | None, "on disk; null if the broker does not report it"]
    records_per_s: Annotated[float | None, "written since the sample before; null at the first sample"]


class GroupTraffic(Struct, frozen=True, kw_only=True):
    group: str
    kind: Annotated[str, "consumer or queue"]
    state: str
    lag: Annotated[
        int | None, "records that the group has not read or done; null if the broker does not report it"
    ]
    records_per_s: Annotated[float | None, "read or done since the sample before; null at the first sample"]


class Rates:
    """Growth per second of named counts, from sample to sample."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._looked_s = 0.0
        self._counts: Mapping[str, int] = {}

    def update(self, counts: Mapping[str, int]) -> dict[str, float | None]:
        now_s = self._clock.monotonic_s()
        elapsed_s = max(now_s - self._looked_s, 1e-9)
        rates = {
            # A count that has shrunk belongs to another object: a topic that was deleted and created again.
            name: round(max(count - self._counts[name], 0) / elapsed_s, 1) if name in self._counts else None
            for name, count in counts.items()
        }
        self._looked_s, self._counts = now_s, dict(counts)
        return rates


class History:
    """The last values of named numbers, as sparklines."""

    def __init__(self) -> None:
        self._values: dict[str, deque[float]] = {}

    def add(self, name: str, number: float | None) -> None:
        if number is not None:
            self._values.setdefault(name, deque(maxlen=HISTORY_LOOKS)).append(number)

    def sparkline(self, name: str) -> str:
        return sparkline(self._values.get(name, ()))


class TopicsPanel:
    """Records, bytes and rate of every topic."""

    def __init__(self, cluster: Cluster, clock: Clock, *, internal: bool = False) -> None:
        self.rows: list[TopicTraffic] = []
        self.starts: dict[Partition, int] = {}
        self.ends: dict[Partition, int] = {}
        self._cluster = cluster
        self._clock = clock
        self._internal = internal
        self._rates = Rates(clock)
        self._history = History()
        self._sizes: dict[str, int] = {}
        self._sized_s = -SIZES_EVERY_S

    @property
    def row_count(self) -> int:
        return len(self.rows)

    def sample(self) -> None:
        topics = {
            name: partitions
            for name, partitions in sorted(self._cluster.topics().items())
            if self._internal or not name.startswith("__")
        }
        every = [each for partitions in topics.values() for each in partitions]
        self.starts, self.ends = self._cluster.earliest(every), self._cluster.latest(every)
        self._look_at_sizes()
        ends = {name: sum(self.ends[each] for each in partitions) for name, partitions in topics.items()}
        rates = self._rates.update(ends)
        self.rows = [
            TopicTraffic(
                topic=name,
                partitions=len(partitions),
                offsets=ends[name] - sum(self.starts[each] for each in partitions),
                size_bytes=self._sizes.get(name),
                records_per_s=rates[name],
            )
            for name, partitions in topics.items()
        ]
        for row in self.rows:
            self._history.add(row.topic, row.records_per_s)

    def render(self, rows_max: int) -> RenderableType:
        table = _table("topic", "partitions", "offsets", "bytes", "records/s", RECENT)
        busiest = sorted(self.rows, key=lambda row: -(row.records_per_s or 0))[:rows_max]
        for row in self.rows:
            if row in busiest:
                table.add_row(
                    row.topic,
                    str(row.partitions),
                    f"{row.offsets:,}",
                    _size(row.size_bytes),
                    _number(row.records_per_s),
                    self._history.sparkline(row.topic),
                )
        return _with_rest(table, len(self.rows) - len(busiest), "topics")

    def summary(self) -> str:
        return "; ".join(
            f"{row.topic} {row.offsets} offsets {_size(row.size_bytes)} {row.records_per_s or 0:.0f}/s"
            for row in self.rows
        )

    def _look_at_sizes(self) -> None:
        now_s = self._clock.monotonic_s()
        if now_s - self._sized_s >= SIZES_EVERY_S:
            self._sized_s = now_s
            try:
                self._sizes = sizes_of_topics(self._cluster.brokers(), self._cluster.timeout_s)
            except HeadraceError:
                self._sizes = {}


class GroupsPanel:
    """State, lag and rate of every group: of consumers, and of workers on a queue."""

    def __init__(
        self, cluster: Cluster, topics: TopicsPanel, clock: Clock, *, internal: bool = False
    ) -> None:
        self.rows: list[GroupTraffic] = []
        self._cluster = cluster
        self._topics = topics
        self._internal = internal
        self._rates = Rates(clock)
        self._lags = History()

    @property
    def row_count(self) -> int:
        return len(self.rows)

    def sample(self) -> None:
        found = [*self._consumers(), *self._queues()]
        rates = self._rates.update({name: done for name, _, _, _, done in found if done is not None})
        self.rows = [
            GroupTraffic(group=name, kind=kind, state=state, lag=lag, records_per_s=rates.get(name))
            for name, kind, state, lag, _ in sorted(found)
        ]
        for row in self.rows:
            self._lags.add(row.group, row.lag)

    def _consumers(self) -> list[tuple[str, str, str, int | None, int | None]]:
        """Name, kind, state, lag, and the number of records that were read."""
        rows: list[tuple[str, str, str, int | None, int | None]] = []
        starts, ends = self._topics.starts, self._topics.ends
        states = dict(self._cluster.groups(internal=self._internal))
        for name, committed in self._cluster.committed_of(states).items():
            read = {each.topic for each in committed}
            lag = sum(
                end - max(committed.get(each, 0), starts[each])
                for each, end in ends.items()
                if each.topic in read
            )
            rows.append((name, "consumer", states[name], max(lag, 0), sum(committed.values())))
        return rows

    def _queues(self) -> list[tuple[str, str, str, int | None, int | None]]:
        try:
            brokers = self._cluster.brokers()
            names = [name for name, _ in list_share_groups(brokers, self._cluster.timeout_s)]
            groups = [describe_share_group(brokers[0], name, self._cluster.timeout_s) for name in names]
        except HeadraceError:
            return []  # a broker without share groups
        rows: list[tuple[str, str, str, int | None, int | None]] = []
        for group in groups:
            positioned = [each for each in group.partitions if each.start_offset >= 0]
            counts = [each.not_done for each in positioned]
            lag = None if None in counts else sum(each or 0 for each in counts)
            done = sum(each.start_offset for each in positioned)
            rows.append((group.group, "queue", group.state.lower(), lag, done))
        return rows

    def render(self, rows_max: int) -> RenderableType:
        table = _table("group", "kind", "state", "records/s", "lag", RECENT)
        furthest = sorted(self.rows, key=lambda row: -(row.lag or 0))[:rows_max]
        for row in self.rows:
            if row in furthest:
                table.add_row(
                    plain_text(row.group),
                    row.kind,
                    row.state,
                    _number(row.records_per_s),
                    _number(row.lag),
                    self._lags.sparkline(row.group),
                )
        return _with_rest(table, len(self.rows) - len(furthest), "groups")

    def summary(self) -> str:
        return "; ".join(f"{row.group} lag {'-' if row.lag is None else row.lag}" for row in self.rows)


def sparkline(numbers: Sequence[float]) -> str:
    """A bar for each number, the largest of them full; nothing if all are zero."""
    largest = max(numbers, default=0)
    if largest <= 0:
        return ""
    return "".join(_BARS[min(int(number / largest * len(_BARS)), len(_BARS) - 1)] for number in numbers)


def live_screen(
    stack: ExitStack, title: str, footer: str = "", *, full: bool = False
) -> Callable[[Sequence[Panel], str], None]:
    """A function that draws the panels in place, with a problem below the title if there is one."""
    from rich.live import Live

    live = stack.enter_context(Live(auto_refresh=False, screen=full, vertical_overflow="crop"))

    def show(panels: Sequence[Panel], problem: str) -> None:
        # A title, a problem, a footer; and for each panel an empty line, two of heading, and one for the rest.
        room = live.console.height - 4 - 4 * len(panels)
        rows = share_rows([panel.row_count for panel in panels], max(room, 0))
        live.update(render_screen(title, panels, footer, problem=problem, rows=rows), refresh=True)

    return show


def share_rows(wanted: Sequence[int], room: int) -> list[int]:
    """Rows for each panel: small panels get all of theirs, the others share the rest; each gets at least one."""
    shares = [0] * len(wanted)
    by_want = sorted(range(len(wanted)), key=lambda index: wanted[index])
    for done, index in enumerate(by_want):
        shares[index] = max(min(wanted[index], room // (len(wanted) - done)), 1)
        room -= shares[index]
    return shares


def print_lines(first_line: str) -> Callable[[Sequence[Panel], str], None]:
    """A function that prints a line for each sample, for a pipe or a log."""
    print(first_line, flush=True)
    return lambda panels, problem: print(
        printable(problem or " | ".join(filter(None, (panel.summary() for panel in panels)))), flush=True
    )


def render_screen(
    title: str, panels: Sequence[Panel], footer: str, *, problem: str = "", rows: Sequence[int]
) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    parts: list[RenderableType] = [Text.assemble(("Headrace", "bold"), f"  {title}   Ctrl-C stops")]
    if problem:
        parts.append(Text(printable(problem), style="bold red"))
    for panel, rows_max in zip(panels, rows, strict=True):
        parts += [Text(), panel.render(rows_max)]
    if footer:
        parts += [Text(), Text(footer, style="dim")]
    return Group(*parts)


def is_terminal() -> bool:
    return sys.stdout.isatty()


def _with_rest(table: Table, more: int, of_what: str) -> RenderableType:
    if more <= 0:
        return table
    from rich.console import Group
    from rich.text import Text

    return Group(table, Text(f"… and {more} more {of_what}", style="dim"))


def _table(*columns: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    words = ("state", "kind", RECENT)
    for index, column in enumerate(columns):
        is_number = index > 0 and column not in words
        table.add_column(
            column,
            justify="right" if is_number else "left",
            no_wrap=True,
            # Names are shortened if the terminal is narrow; numbers never.
            min_width=HISTORY_LOOKS if column == RECENT else max(len(column), 8 if is_number else 0),
        )
    return table


def _number(number: float | None) -> str:
    return "-" if number is None else f"{number:,.0f}"


def _size(size_bytes: int | None) -> str:
    if size_bytes is None:
        return "-"
    size = float(size_bytes)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
