"""The panels of `headrace run` and `headrace top`: each samples the cluster every second and draws itself."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Protocol, TypeVar

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

HISTORY_SAMPLES = 20
"""Samples in a sparkline: a third of a minute, and narrow enough for a terminal of 80 columns."""

SIZES_EVERY_S = 5.0
"""A broker sums up the sizes of all its partitions for a response, which is too much for every second."""

RECENT = "recently"
"""The column of sparklines: of the number before it."""

_BARS = "▁▂▃▄▅▆▇█"


class Panel(Protocol):
    @property
    def rows(self) -> Sequence[object]:
        """The last sample, as JSON has it."""

    def sample(self) -> None:
        """Read the numbers from the cluster."""

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


RowT = TypeVar("RowT")
_Found = tuple[str, str, str, int | None, int]
"""Of a group: name, kind, state, lag, and the number of records that were read or done."""


class Rates:
    """Growth per second of named counts, from sample to sample."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sampled_s = 0.0
        self._counts: Mapping[str, int] = {}

    def update(self, counts: Mapping[str, int]) -> dict[str, float | None]:
        now_s = self._clock.monotonic_s()
        elapsed_s = max(now_s - self._sampled_s, 1e-9)
        rates = {
            # A count that has shrunk belongs to another object: a topic that was deleted and created again.
            name: round(max(count - self._counts[name], 0) / elapsed_s, 1) if name in self._counts else None
            for name, count in counts.items()
        }
        self._sampled_s, self._counts = now_s, dict(counts)
        return rates


class History:
    """The last values of named numbers, as sparklines."""

    def __init__(self) -> None:
        self._values: dict[str, deque[float]] = {}

    def add(self, name: str, number: float | None) -> None:
        if number is not None:
            self._values.setdefault(name, deque(maxlen=HISTORY_SAMPLES)).append(number)

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

    def sample(self) -> None:
        topics = {
            name: partitions
            for name, partitions in sorted(self._cluster.topics().items())
            if self._internal or not name.startswith("__")
        }
        every = [each for partitions in topics.values() for each in partitions]
        self.starts, self.ends = self._cluster.earliest(every), self._cluster.latest(every)
        self._sample_sizes()
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
        busiest = _largest(self.rows, rows_max, by=lambda row: row.records_per_s)
        for row in busiest:
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

    def _sample_sizes(self) -> None:
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

    def sample(self) -> None:
        found = [*self._consumers(), *self._queues()]
        rates = self._rates.update({name: done for name, _, _, _, done in found})
        self.rows = [
            GroupTraffic(group=name, kind=kind, state=state, lag=lag, records_per_s=rates[name])
            for name, kind, state, lag, _ in sorted(found)
        ]
        for row in self.rows:
            self._lags.add(row.group, row.lag)

    def _consumers(self) -> list[_Found]:
        rows: list[_Found] = []
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

    def _queues(self) -> list[_Found]:
        try:
            brokers = self._cluster.brokers()
            names = [name for name, _ in list_share_groups(brokers, self._cluster.timeout_s)]
            groups = [describe_share_group(brokers[0], name, self._cluster.timeout_s) for name in names]
        except HeadraceError:
            return []  # a broker without share groups
        return [
            (
                group.group,
                "queue",
                group.state,
                group.not_done,
                sum(max(each.start_offset, 0) for each in group.partitions),
            )
            for group in groups
        ]

    def render(self, rows_max: int) -> RenderableType:
        table = _table("group", "kind", "state", "records/s", "lag", RECENT)
        furthest = _largest(self.rows, rows_max, by=lambda row: row.lag)
        for row in furthest:
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


@contextmanager
def panels_view(
    panels: Sequence[Panel], title: str, footer: str = "", *, full: bool = False
) -> Iterator[Callable[[str], None]]:
    """A function that shows the panels, or a problem: in place on a terminal, otherwise as a line."""
    if not sys.stdout.isatty():
        print("; ".join(filter(None, (title, footer))), flush=True)
        yield lambda problem: print(
            printable(problem or " | ".join(filter(None, (panel.summary() for panel in panels)))), flush=True
        )
        return
    from rich.live import Live

    with Live(auto_refresh=False, screen=full, vertical_overflow="crop") as live:

        def draw(problem: str) -> None:
            # A title, a problem, a footer; and for each panel an empty line, two of heading, and one for the rest.
            room = live.console.height - 4 - 4 * len(panels)
            rows = share_rows([len(panel.rows) for panel in panels], max(room, 0))
            live.update(_render_screen(title, panels, footer, problem=problem, rows=rows), refresh=True)

        yield draw


def share_rows(wanted: Sequence[int], room: int) -> list[int]:
    """Rows for each panel: small panels get all of theirs, the others share the rest; each gets at least one."""
    shares = [0] * len(wanted)
    by_want = sorted(range(len(wanted)), key=lambda index: wanted[index])
    for done, index in enumerate(by_want):
        shares[index] = max(min(wanted[index], room // (len(wanted) - done)), 1)
        room -= shares[index]
    return shares


def _render_screen(
    title: str, panels: Sequence[Panel], footer: str, *, problem: str, rows: Sequence[int]
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


def _largest(rows: Sequence[RowT], rows_max: int, *, by: Callable[[RowT], float | None]) -> list[RowT]:
    """The rows with the largest numbers, in their order."""
    largest = sorted(rows, key=lambda row: -(by(row) or 0))[:rows_max]
    return [row for row in rows if row in largest]


def _with_rest(table: Table, more: int, of_what: str) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    return Group(table, Text(f"… and {more} more {of_what}", style="dim")) if more else table


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
            min_width=HISTORY_SAMPLES if column == RECENT else max(len(column), 8 if is_number else 0),
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
