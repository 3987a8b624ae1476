"""Readers that requests share: a few for each view, each used by one request at a time."""

from __future__ import annotations

import contextlib
import threading
from collections import defaultdict
from collections.abc import Iterator

from headrace.errors import HeadraceError
from headrace.names import did_you_mean
from headrace.views.catalog import Views
from headrace.views.errors import BadView, ViewUnavailable
from headrace.views.view import ViewReader

READERS_MAX = 4
"""For each view. A reader of PostgreSQL has two connections, and a server accepts about a hundred."""

WAIT_S_MAX = 10.0
"""For a reader that another request uses. Then the server has more requests than it can serve."""


class UnknownView(BadView):
    """There is no view with this name."""


class ReaderPool:
    def __init__(self, views: Views, *, readers_max: int = READERS_MAX) -> None:
        self.views = views
        self._free: dict[str, list[ViewReader]] = defaultdict(list)
        self._places: dict[str, threading.BoundedSemaphore] = {}
        self._lock = threading.Lock()
        self._readers_max = readers_max

    @contextlib.contextmanager
    def reader(self, name: str) -> Iterator[ViewReader]:
        names = self.views.names()
        if name not in names:
            raise UnknownView(
                f"there is no view {name}",
                hint=did_you_mean(name, names) or "GET /views lists the views",
            )
        with self._lock:
            places = self._places.setdefault(name, threading.BoundedSemaphore(self._readers_max))
        if not places.acquire(timeout=WAIT_S_MAX):
            raise ViewUnavailable(
                f"view {name} has more requests than it can serve", hint="try again, with fewer at a time"
            )
        try:
            with self._lock:
                free = self._free[name]
                reader = free.pop() if free else ViewReader(self.views.folder(name))
            try:
                yield reader
            except HeadraceError:
                self._give_back(name, reader)
                raise
            except BaseException:
                reader.close()  # it may be in the middle of a transaction
                raise
            self._give_back(name, reader)
        finally:
            places.release()

    def _give_back(self, name: str, reader: ViewReader) -> None:
        with self._lock:
            self._free[name].append(reader)

    def close(self) -> None:
        with self._lock:
            for readers in self._free.values():
                for reader in readers:
                    reader.close()
            self._free.clear()
