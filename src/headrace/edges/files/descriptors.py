"""A bounded number of open files."""

from __future__ import annotations

import contextlib
import os
from collections import OrderedDict
from typing import Protocol


class Owner(Protocol):
    descriptor: int | None
    """None: it is closed"""

    @property
    def must_stay_open(self) -> bool:
        """Whether it might not be found again."""


class Descriptors:
    """Over the bound, the one that was used the longest time ago is closed, if it can be opened again."""

    def __init__(self, open_files_max: int) -> None:
        self._open_files_max = open_files_max
        self._by_use: OrderedDict[int, Owner] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_use)

    def add(self, owner: Owner, descriptor: int) -> None:
        owner.descriptor = descriptor
        self._by_use[descriptor] = owner
        while len(self._by_use) > self._open_files_max:
            others = [each for each in self._by_use.values() if each is not owner]
            self.close(next((each for each in others if not each.must_stay_open), others[0]))

    def use(self, owner: Owner) -> None:
        if owner.descriptor is not None:
            self._by_use.move_to_end(owner.descriptor)

    def close(self, owner: Owner) -> None:
        if owner.descriptor is not None:
            del self._by_use[owner.descriptor]
            with contextlib.suppress(OSError):
                os.close(owner.descriptor)
            owner.descriptor = None

    def close_all(self) -> None:
        for owner in [*self._by_use.values()]:
            self.close(owner)
