"""The contract of reading one version of a view. No reader imports Spark."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from msgspec import Struct

from headrace.kafka.position import Position
from headrace.views.definition import Row
from headrace.views.errors import BadView
from headrace.views.selection import Selection


class Found(Struct, frozen=True, kw_only=True):
    """A row that a search found."""

    row: Row
    score: float
    highlights: Mapping[str, str] = {}
    """by column, the best fragment with the words that were found between `<b>` and `</b>`; all else is escaped"""


class SearchResult(Struct, frozen=True, kw_only=True):
    total: int
    hits: Sequence[Found]
    facets: Mapping[str, Mapping[str, int]] = {}
    """by column, how many hits each value has"""


class Reader(abc.ABC):
    """Reads one version, from any process, while a job writes it. Used by one thread at a time."""

    @abc.abstractmethod
    def columns(self) -> Sequence[str]: ...

    def types(self) -> Mapping[str, str]:
        """How the store declares each column, where it does."""
        return {}

    @abc.abstractmethod
    def position(self) -> Position | None:
        """How far the version is; None before its first batch. Never ahead of the rows that a later call returns."""

    def mark(self) -> object:
        """Equal to the mark of an earlier call if nothing was written meanwhile. Cheap: it is polled."""
        return self.position()

    def snapshot(self) -> AbstractContextManager[None]:
        """Within it, all calls see the version at one moment, where the store can do that: the position is then that
        of the rows."""
        return contextlib.nullcontext()

    @abc.abstractmethod
    def get(self, key: Row) -> dict[str, Any] | None:
        """The row with this key."""

    @abc.abstractmethod
    def select(self, selection: Selection) -> list[dict[str, Any]]: ...

    def search(
        self, query: str, *, limit: int = 10, offset: int = 0, facets: Sequence[str] = ()
    ) -> SearchResult:
        raise BadView(
            "only views in a search index can be searched",
            hint="create it with --to search or --to opensearch",
        )

    @abc.abstractmethod
    def close(self) -> None: ...
