"""Reading a view by its name, whichever version is served.

with open_view("users_by_city") as view:
    view.get(city="Oslo")
    page = view.query("WHERE users > 10 ORDER BY users DESC LIMIT 20")
    for step in view.follow("WHERE city LIKE 'O%'"):
        ...
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from headrace.kafka.position import Position
from headrace.views.catalog import Views
from headrace.views.definition import Row
from headrace.views.errors import BadView, ViewBehind, ViewUnavailable
from headrace.views.following import Following, Step
from headrace.views.query.paging import on_page, page_token
from headrace.views.query.text import parse
from headrace.views.reader import Reader, SearchResult
from headrace.views.selection import PAGE_ROWS, ROWS_MAX
from headrace.views.served import Served, ServedReader

POLL_S = 0.1
"""Between two looks at the position of a view: less than a batch takes, and some microseconds of work."""

RETRY_S = 1.0
"""Between two attempts of a follower to reach a store that does not respond."""

T = TypeVar("T")


class Page(Struct, frozen=True, kw_only=True):
    rows: Sequence[Row]
    next: str | None
    """The token of the next page; None if there is none."""
    position: Position | None
    """How far the view was when these rows were read."""
    version: int
    is_rebuilding: bool
    """Whether another version is built meanwhile; this one is whole, and serves until then."""


def open_view(name: str, *, data_dir: str | Path = "data") -> ViewReader:
    """Connects with the first call."""
    return ViewReader(Views(Path(data_dir)).folder(name))


class ViewReader(ServedReader):
    """Reads the served version, and after a switch the next one. Used by one thread at a time.

    `at_least` is a position or its token: a call waits until the view includes it, at most `wait_s`, or raises
    `ViewBehind`, which says how far the view is. `wait_s` also waits for a store that does not respond, and for a view
    that is built for the first time.
    """

    # What there is

    def columns(self) -> Mapping[str, str]:
        """Each column with its type in the store; empty if the store does not declare it."""
        return self.read(lambda reader, _: {name: reader.types().get(name, "") for name in reader.columns()})

    def position(self) -> Position | None:
        """How far the view is; None before its first batch."""
        return self.read(lambda reader, _: reader.position())

    def newest_position(self, bootstrap: str | None = None) -> Position:
        """The end of the view's topics now, for `at_least`: after everything that has been written so far."""
        from headrace.kafka.cluster import Cluster
        from headrace.kafka.settings import client_settings

        settings = client_settings(bootstrap)
        cluster = Cluster(settings.bootstrap, timeout_s=settings.timeout_s)
        return Position.at_end(cluster, self.served().definition.topics)

    # Rows

    def get(
        self,
        key: Row | None = None,
        /,
        *,
        at_least: Position | str | None = None,
        wait_s: float = 0.0,
        **columns: Any,
    ) -> dict[str, Any] | None:
        """The row with this key, by names or as a mapping: `view.get(city="Oslo")`; None if there is none."""
        wanted = {**(key or {}), **columns}
        return self._at_least(at_least, wait_s, lambda reader, _: reader.get(wanted))

    def query(
        self,
        text: str = "",
        *,
        page: str | None = None,
        limit: int = PAGE_ROWS,
        at_least: Position | str | None = None,
        wait_s: float = 0.0,
    ) -> Page:
        """A page of the rows that `WHERE … ORDER BY … LIMIT …` selects. `page` is `next` of the page before."""
        if not 1 <= limit <= ROWS_MAX:
            raise BadView(f"limit={limit} is not possible", hint=f"a page has from 1 to {ROWS_MAX:,} rows")

        def read(reader: Reader, served: Served) -> Page:
            key = served.definition.key
            selection = parse(text, columns=reader.columns(), key=key, limit=limit)
            wanted = on_page(selection, page, key=key) if page else selection
            # One row more, to know whether there is a next page.
            rows = reader.select(replace(wanted, limit=wanted.limit + 1))
            more = len(rows) > wanted.limit
            rows = rows[: wanted.limit]
            return Page(
                rows=rows,
                next=page_token(selection, rows[-1]) if more else None,
                position=reader.position(),
                version=served.version,
                is_rebuilding=served.is_rebuilding,
            )

        return self._at_least(at_least, wait_s, read)

    def search(
        self,
        words: str,
        *,
        limit: int = 10,
        offset: int = 0,
        facets: Sequence[str] = (),
        at_least: Position | str | None = None,
        wait_s: float = 0.0,
    ) -> SearchResult:
        """Rows with these words, the best first; only for views in a search index."""
        return self._at_least(
            at_least,
            wait_s,
            lambda reader, _: reader.search(words, limit=limit, offset=offset, facets=facets),
        )

    def follow(self, text: str = "", *, resume: str | None = None, poll_s: float = POLL_S) -> Iterator[Step]:
        """First the result, then each change of it, without an end. A store that does not respond is waited for.

        `resume` is that of the last step that a client has: if its result is still the current one, it is not sent
        again.
        """
        following = Following(text, resume)
        while True:
            pause_s = poll_s
            try:
                step = following.step(self)
            except ViewUnavailable:
                if not following.has_result:
                    raise
                step, pause_s = None, RETRY_S
            if step is not None:
                yield step
            else:
                time.sleep(pause_s)

    # Positions

    def check_position(self, at_least: Position | str, topics: Collection[str]) -> Position:
        """The position in the topics of the view; an error if it is in none of them."""
        wanted = Position.from_token(at_least) if isinstance(at_least, str) else at_least
        known = wanted.in_topics(topics)
        if wanted.offsets and not known.offsets:
            raise BadView(
                f"view {self.name} reads none of the topics of this position: {', '.join(wanted.offsets)}",
                hint=f"it reads {', '.join(topics)}",
            )
        return known

    def _at_least(
        self, at_least: Position | str | None, wait_s: float, work: Callable[[Reader, Served], T]
    ) -> T:
        deadline_s = time.monotonic() + wait_s

        def read(reader: Reader, served: Served) -> T:
            with reader.snapshot():
                if at_least is not None:
                    self._check_lateness(reader, served, at_least)
                return work(reader, served)

        while True:
            try:
                return self.read(read)
            except ViewUnavailable:
                if time.monotonic() >= deadline_s:
                    raise
            time.sleep(min(POLL_S, max(0.0, deadline_s - time.monotonic())))

    def _check_lateness(self, reader: Reader, served: Served, at_least: Position | str) -> None:
        position = reader.position() or Position({})
        wanted = self.check_position(at_least, served.definition.topics or tuple(position.offsets))
        behind = position.behind(wanted)
        if not behind:
            return
        missing = ", ".join(f"{name} by {count:,}" for name, count in sorted(behind.items()))
        raise ViewBehind(
            f"view {self.name} is behind this position: {missing}",
            hint=f"wait longer, or check with `headrace view list` that {self.name} runs",
            behind=behind,
        )
