"""The version of a view that is served: found at each call, so that a reader follows a switch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self, TypeVar

from msgspec import Struct

from headrace.views.catalog import ViewFolder
from headrace.views.definition import Definition
from headrace.views.errors import BadView, ViewBehind, ViewUnavailable
from headrace.views.reader import Reader
from headrace.views.store import Store
from headrace.views.stores import open_store

SWITCHES_MAX = 3
"""Versions that one call may lose to rebuilds before it fails; a rebuild takes seconds at least."""

T = TypeVar("T")


class Served(Struct, frozen=True, kw_only=True):
    """The version that readers get at the moment."""

    definition: Definition
    version: int
    is_rebuilding: bool
    """Whether another version is built meanwhile. This one is whole, and is served until then."""


class ServedReader:
    """Reads the served version, and after a switch the next one. Used by one thread at a time."""

    def __init__(self, folder: ViewFolder) -> None:
        self.name = folder.name
        self._folder = folder
        self._store: Store | None = None
        self._reader: Reader | None = None
        self._reads: tuple[Definition, int] | None = None

    def served(self) -> Served:
        try:
            record = self._folder.record()
        except FileNotFoundError:
            raise BadView(
                f"view {self.name} was removed", hint="`headrace view list` lists the views"
            ) from None
        if self._store is None or self._store.definition != record.definition:
            self.close()
            self._store = open_store(record.definition, self._folder.data_dir)
        version = self._store.served()
        if version is None:
            raise ViewUnavailable(
                f"view {self.name} has no complete version yet",
                hint=f"`headrace view run {self.name}` builds it, `headrace view list` shows the state",
            )
        return Served(
            definition=record.versions.get(version, record.definition),
            version=version,
            is_rebuilding=record.building is not None and record.building != version,
        )

    def read(self, work: Callable[[Reader, Served], T]) -> T:
        """The result of `work` on the served version. If a switch deletes that version meanwhile, on the next one."""
        served = self.served()
        for _ in range(SWITCHES_MAX):
            try:
                return work(self._reader_of(served), served)
            except ViewBehind:
                raise
            except ViewUnavailable:
                self._close_reader()
                before, served = served, self.served()
                if served.version == before.version:
                    raise
        return work(self._reader_of(served), served)

    def _reader_of(self, served: Served) -> Reader:
        wanted = (served.definition, served.version)
        if self._reader is None or self._reads != wanted:
            self._close_reader()
            assert self._store is not None
            is_same = served.definition == self._store.definition
            store = self._store if is_same else open_store(served.definition, self._folder.data_dir)
            self._reader = store.reader(served.version)
            self._reads = wanted
        return self._reader

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def close(self) -> None:
        self._close_reader()
        if self._store is not None:
            self._store.close()
            self._store = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
