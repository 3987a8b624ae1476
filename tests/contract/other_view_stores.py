"""The stores of views besides the databases, each with a place of its own for a test."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import redis
from pyspark.sql.types import StructType

from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks.opensearch_client import OpenSearchClient
from headrace.pipeline.sinks.opensearch_layout import FENCES
from headrace.pipeline.sinks.sink import SinkWriter
from headrace.testing.opensearch import OpenSearchServer
from headrace.testing.redis_server import RedisServer
from headrace.views.definition import Definition
from headrace.views.store import Store
from headrace.views.stores import open_store

NAME = "users_by_city"
SCHEMA = (
    StructType()
    .add("city", "string")
    .add("users", "long")
    .add("note", "string")
    .add("rate", "double")
    .add("is_open", "boolean")
    .add("opened", "date")
    .add("seen", "timestamp")
)

Row = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class Place:
    """Where the versions of one view are, and what is left there."""

    definition: Definition
    data_dir: Path
    left: Callable[[], list[str]]
    """the objects in the store that belong to the view"""
    take_name: Callable[[], None]
    """give the view's name to another object"""
    _writers: list[SinkWriter] = field(default_factory=list)

    def store(self) -> Store:
        return open_store(self.definition, self.data_dir)

    def writer(self, version: int, schema: StructType = SCHEMA) -> SinkWriter:
        writer = self.store().sink(version).open(f"view.{self.definition.name}.{version}", schema)
        self._writers.append(writer)
        return writer

    def build(self, version: int, rows: Sequence[Row]) -> None:
        """As the job of a version does, in one batch."""
        writer = self.writer(version)
        write(writer, rows, 0)
        writer.close()
        self._writers.remove(writer)

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


def write(writer: SinkWriter, rows: Sequence[Row], batch_id: int, schema: StructType = SCHEMA) -> None:
    """Rows with `op` if one has it."""
    from pyspark.sql.pandas.types import to_arrow_schema

    arrow = to_arrow_schema(schema, timezone="UTC")
    if any("op" in row for row in rows):
        arrow = arrow.append(pa.field("op", pa.string()))
    columns = {field.name: pa.array([row.get(field.name) for row in rows], field.type) for field in arrow}
    writer.apply(pa.table(columns, schema=arrow).to_batches(), fence(batch_id), _no_rejection)


def _no_rejection(rows: Sequence[Any]) -> None:
    raise AssertionError(f"rejected: {rows}")


def fence(batch_id: int) -> Fence:
    ends = (json.dumps({"shop.users": {"0": batch_id * 10 + 10}}),)
    return Fence(job="contract", checkpoint="first", batch_id=batch_id, ends=ends)


def row(city: str, users: int | None = 1, **more: Any) -> Row:
    return {**dict.fromkeys(SCHEMA.names), "city": city, "users": users, **more}


def redis_place(request: pytest.FixtureRequest, folder: Path) -> Place:
    server: RedisServer = request.getfixturevalue("redis_server")
    name = f"view_{uuid.uuid4().hex[:12]}"

    def client() -> redis.Redis:
        return redis.Redis.from_url(server.address, protocol=2)

    def left() -> list[str]:
        with client() as each:
            fields = [key for key in each.hkeys("headrace:sinks") if name.encode() in key]
            return [key.decode() for key in (*each.scan_iter(f"*{name}*", count=1000), *fields)]

    def take_name() -> None:
        with client() as each:
            each.hset(name, "a", "b")

    return Place(
        definition=_definition("redis", name=name, at=server.address),
        data_dir=folder,
        left=left,
        take_name=take_name,
    )


def search_place(request: pytest.FixtureRequest, folder: Path) -> Place:
    return _folder_place("search", folder, options={"exact": "note"})


def lake_place(request: pytest.FixtureRequest, folder: Path) -> Place:
    return _folder_place("lake", folder)


def lake_at_an_address_place(request: pytest.FixtureRequest, folder: Path) -> Place:
    base = folder / "bucket"
    base.mkdir()

    def left() -> list[str]:
        """An object store has no folders."""
        return [path.name for path in base.rglob("*") if path.is_file()]

    def take_name() -> None:
        from deltalake import write_deltalake

        write_deltalake(f"file://{base}/{NAME}", pa.table({"a": [1]}))

    return Place(
        definition=_definition("lake", at=f"file://{base}"), data_dir=folder, left=left, take_name=take_name
    )


def parquet_place(request: pytest.FixtureRequest, folder: Path) -> Place:
    return _folder_place("parquet", folder)


def parquet_partitioned_place(request: pytest.FixtureRequest, folder: Path) -> Place:
    return _folder_place("parquet", folder, options={"partition_by": "users"})


def _folder_place(kind: Any, folder: Path, options: dict[str, str] | None = None) -> Place:
    base = folder / "views of a shop"

    def take_name() -> None:
        (base / NAME).mkdir(parents=True)

    return Place(
        definition=_definition(kind, at=str(base), options=options or {}),
        data_dir=folder,
        left=lambda: [path.name for path in base.iterdir()],
        take_name=take_name,
    )


def _definition(kind: Any, name: str = NAME, **more: Any) -> Definition:
    return Definition(name=name, topics=("shop.users",), key=("city",), store=kind, **more)


def opensearch_place(request: pytest.FixtureRequest, folder: Path) -> Place:
    server: OpenSearchServer = request.getfixturevalue("opensearch_server")
    name = f"view_{uuid.uuid4().hex[:12]}"

    def left() -> list[str]:
        client = OpenSearchClient(server.address)
        indexes = list(client.request("GET", f"/{name}*/_alias", missing_ok=True) or {})
        client.request("POST", f"/{FENCES}/_refresh", missing_ok=True)
        found = client.request("GET", f"/{FENCES}/_search?size=10000", missing_ok=True)
        client.close()
        return indexes + [hit["_id"] for hit in found["hits"]["hits"] if hit["_id"].startswith(name)]

    def take_name() -> None:
        client = OpenSearchClient(server.address)
        client.request("PUT", f"/{name}")
        client.close()

    return Place(
        definition=_definition("opensearch", name=name, at=server.address),
        data_dir=folder,
        left=left,
        take_name=take_name,
    )


PLACES: dict[str, Callable[[pytest.FixtureRequest, Path], Place]] = {
    "opensearch": opensearch_place,
    "redis": redis_place,
    "search": search_place,
    "lake": lake_place,
    "lake-address": lake_at_an_address_place,
    "parquet": parquet_place,
    "parquet-partitioned": parquet_partitioned_place,
}
