"""Views in SQLite that tests write batch by batch, as their jobs do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.view_store_contract import Bench, Lab, ViewStoreCase


@contextlib.contextmanager
def sqlite_bench(folder: Path, request: pytest.FixtureRequest) -> Iterator[Bench]:
    with contextlib.ExitStack() as stack:
        lab = Lab(folder=folder, request=request, name="views", stack=stack)
        yield Bench(lab, ViewStoreCase(kind="sqlite"))
