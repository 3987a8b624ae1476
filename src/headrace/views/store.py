"""The contract of a store. A view has versions: one is served under the view's name, another may be built beside it.

A version is written by a job of its own to `Definition.physical(version)`. `switch` is the commit point of a rebuild:
which version is served is recorded in the store itself, so a crash before it leaves the old one, and after it the new
one. Every implementation passes `tests/contract/test_view_stores.py`.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.views.definition import Definition, Row
from headrace.views.reader import Reader

if TYPE_CHECKING:
    from headrace.pipeline.sinks.sink import Sink


class Store(abc.ABC):
    """The versions of one view. `ViewUnavailable` means that a call may succeed later, `BadView` that a person has to
    act first. Only `sink` may import Spark."""

    def __init__(self, definition: Definition, data_dir: Path) -> None:
        self.definition = definition
        self.data_dir = data_dir

    @abc.abstractmethod
    def check(self) -> None:
        """Raise unless the store can be written, and no other object has the view's name. Creates nothing."""

    @abc.abstractmethod
    def sink(self, version: int) -> Sink:
        """Where the job of this version writes. It understands `op`: + - c u d r."""

    @abc.abstractmethod
    def versions(self) -> list[int]:
        """The versions that are in the store, whole or not."""

    @abc.abstractmethod
    def served(self) -> int | None:
        """The version that readers of the view's name get; None before the first switch."""

    @abc.abstractmethod
    def switch(self, version: int) -> None:
        """Serve this version from now on, in one step: at no moment is the name missing. Grants on the name, and
        indexes that users created on the served version, are kept."""

    @property
    def switch_group(self) -> str:
        """Stores with the same text can switch in one transaction (`switch_together`); empty for none."""
        return ""

    def switch_together(self, others: Mapping[Store, int], version: int) -> None:
        """Switch this view and those of the same group in one transaction."""
        raise NotImplementedError

    @abc.abstractmethod
    def drop(self, version: int) -> None:
        """Delete a version that is not served. Succeeds if it is gone already."""

    @abc.abstractmethod
    def drop_view(self) -> None:
        """Delete the name and all versions."""

    @abc.abstractmethod
    def count(self, version: int) -> int: ...

    @abc.abstractmethod
    def sample(self, version: int, limit: int) -> list[dict[str, Any]]:
        """Rows from all over the version."""

    def find(self, version: int, keys: Sequence[Row]) -> list[dict[str, Any] | None]:
        """The rows with these keys."""
        reader = self.reader(version)
        try:
            return [reader.get(key) for key in keys]
        finally:
            reader.close()

    @abc.abstractmethod
    def reader(self, version: int) -> Reader: ...

    @abc.abstractmethod
    def close(self) -> None: ...
