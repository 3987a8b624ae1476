"""What a store of views provides to be tested against the contract of all of them.

A file `view_store_case_<store>.py` beside this one registers cases; `test_view_stores.py` runs every promise on each:

    @view_store_case("sqlite")
    def sqlite(lab: Lab) -> ViewStoreCase:
        return ViewStoreCase(kind="sqlite", rows_by_name=lambda name: read(lab.folder / "views.db", name))
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from headrace.pipeline.fence import Fence
from headrace.views.definition import Definition, StoreKind
from headrace.views.jobs import job_name
from headrace.views.store import Store
from headrace.views.stores import open_store

SCHEMA = StructType().add("id", "long").add("city", "string").add("op", "string")
TOPIC = "shop.public.users"

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """What a case may use. Fixtures by `lab.fixture("postgres")`; what must be closed goes on `lab.stack`."""

    folder: Path
    request: pytest.FixtureRequest
    name: str
    """One that nothing else in this run has: for databases, prefixes of keys."""
    stack: contextlib.ExitStack

    def fixture(self, name: str) -> Any:
        return self.request.getfixturevalue(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewStoreCase:
    """A store that is empty at first.

    at             the address that views are created with
    rows_by_name   the rows of a view's name, as another program reads them, without Headrace; None if that is not
                   possible in this store
    """

    kind: StoreKind
    at: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    rows_by_name: Callable[[str], list[Row]] | None = None


MakeCase = Callable[[Lab], ViewStoreCase]
CASES: dict[str, MakeCase] = {}


def view_store_case(name: str) -> Callable[[MakeCase], MakeCase]:
    def register(make: MakeCase) -> MakeCase:
        assert name not in CASES, f"two cases are called {name}"
        CASES[name] = make
        return make

    return register


def find_cases() -> list[str]:
    """Import the case files beside this one, and return the names of all cases."""
    for path in sorted(Path(__file__).parent.glob("view_store_case_*.py")):
        importlib.import_module(f"tests.contract.{path.stem}")
    return sorted(CASES)


class Bench:
    """Views in the store of a case."""

    def __init__(self, lab: Lab, case: ViewStoreCase) -> None:
        self.lab = lab
        self.case = case

    def definition(self, name: str = "users") -> Definition:
        return Definition(
            name=name,
            topics=(TOPIC,),
            key=("id",),
            store=self.case.kind,
            at=self.case.at,
            options=self.case.options,
        )

    def store(self, name: str = "users") -> Store:
        """Another object for the same view, as another process has it."""
        store = open_store(self.definition(name), self.lab.folder)
        self.lab.stack.callback(store.close)
        return store

    def write(self, version: int, rows: Sequence[Row], *, batch: int = 0, name: str = "users") -> None:
        """One batch of the job of this version. A row without `op` is an upsert."""
        store = self.store(name)
        sink = store.sink(version)
        job = job_name(name, version)
        fence = Fence(
            job=job,
            checkpoint=f"checkpoint of {job}",
            batch_id=batch,
            starts=(f'{{"{TOPIC}":{{"0":{batch * 100}}}}}',),
            ends=(f'{{"{TOPIC}":{{"0":{(batch + 1) * 100}}}}}',),
        )
        table = pa.Table.from_pylist(
            [{"op": "c", "city": None, **row} for row in rows],
            schema=pa.schema([("id", pa.int64()), ("city", pa.string()), ("op", pa.string())]),
        )
        writer = sink.open(job, SCHEMA)
        try:
            writer.apply(table.to_batches(), fence, lambda rejected: pytest.fail(str(rejected)))
        finally:
            writer.close()


def user(number: int, city: str = "Oslo") -> Row:
    return {"id": number, "city": city}
