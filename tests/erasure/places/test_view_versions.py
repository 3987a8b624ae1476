"""A view as a place: the person is erased from each version, in the store of the view."""

from __future__ import annotations

import sqlite3
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyspark.sql.types import StructType

from headrace.erasure import BadErasure, Subject, place_at
from headrace.erasure.places.delta_table import DeltaFolder
from headrace.erasure.places.opensearch_index import OpenSearchIndex
from headrace.erasure.places.parquet_table import ParquetTable
from headrace.erasure.places.redis_keys import RedisKeys
from headrace.erasure.places.view_versions import ViewVersions, place_of
from headrace.pipeline.fence import Fence
from headrace.pipeline.sinks import Delta, Discard, OpenSearch, Parquet, Redis
from headrace.testing.opensearch import OpenSearchServer
from headrace.testing.postgres import PostgresServer
from headrace.testing.redis_server import RedisServer
from headrace.views.catalog import Views
from headrace.views.definition import Definition

SCHEMA = StructType().add("id", "long").add("city", "string")


def create(data_dir: Path, **options: Any) -> str:
    """A view with two versions, of which one is served, written as its jobs write it."""
    name = f"v{uuid.uuid4().hex[:10]}"
    folder = Views(data_dir).create(Definition(name=name, topics=("users",), key=("id",), **options))
    folder.write_record(folder.record().with_building(folder.record().definition))
    for version in (1, 2):
        with closing(folder.store(version)) as store:
            writer = store.sink(version).open(f"job-{name}-{version}", SCHEMA)
            rows = pyarrow.table({"id": [7, 8], "city": ["Oslo", "Rome"]})
            fence = Fence(job=f"job-{name}-{version}", checkpoint="c", batch_id=0, ends=("{}",))
            writer.apply(rows.to_batches(), fence, lambda rejected: pytest.fail(str(rejected)))
            writer.close()
            if version == 1:
                store.switch(1)
    return name


def test_person_is_erased_from_every_version_in_sqlite(tmp_path: Path) -> None:
    name = create(tmp_path)
    place, subject = place_at(f"view://{name}", data_dir=tmp_path), Subject(key='{"id": 7}')
    assert place.name == f"view {name}.id"
    assert place.remaining(subject) == 2
    place.erase(subject)
    assert place.remaining(subject) == 0
    with closing(sqlite3.connect(tmp_path / "views.db")) as database:
        assert database.execute(f"SELECT id, city FROM {name}").fetchall() == [(8, "Rome")]
    assert b"Oslo" not in b"".join(each.read_bytes() for each in tmp_path.glob("views.db*"))


def test_person_is_erased_from_a_view_in_postgresql(tmp_path: Path, postgres: PostgresServer) -> None:
    address = postgres.create_database(f"d{uuid.uuid4().hex[:10]}")
    place = ViewVersions(tmp_path, create(tmp_path, store="postgresql", at=address), "city")
    assert place.remaining(Subject(key="Oslo")) == 2
    place.erase(Subject(key="Oslo"))
    assert [place.remaining(Subject(key=each)) for each in ("Oslo", "Rome")] == [0, 2]


def test_person_is_erased_from_a_view_in_redis(tmp_path: Path, redis_server: RedisServer) -> None:
    place = ViewVersions(tmp_path, create(tmp_path, store="redis", at=redis_server.address), "")
    # The hash, and the key in the list of the view, in each version.
    assert place.remaining(Subject(key="7")) == 4
    place.erase(Subject(key="7"))
    assert [place.remaining(Subject(key=each)) for each in ("7", "8")] == [0, 4]


@pytest.mark.parametrize("store", ["search", "lake", "parquet"])
def test_person_is_erased_from_a_view_in_a_folder(tmp_path: Path, store: str) -> None:
    place = ViewVersions(tmp_path, create(tmp_path, store=store), "")
    assert place.remaining(Subject(key="7")) == 2
    place.erase(Subject(key="7"))
    assert [place.remaining(Subject(key=each)) for each in ("7", "8")] == [0, 2]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_person_is_erased_from_a_view_in_opensearch(
    tmp_path: Path, opensearch_server: OpenSearchServer
) -> None:
    place = ViewVersions(tmp_path, create(tmp_path, store="opensearch", at=opensearch_server.address), "")
    assert place.remaining(Subject(key="7")) == 2
    place.erase(Subject(key="7"))
    assert [place.remaining(Subject(key=each)) for each in ("7", "8")] == [0, 2]


def test_view_in_an_object_store_is_an_error_and_not_taken_for_complete() -> None:
    with pytest.raises(BadErasure, match="an erasure does not reach"):
        place_of(Delta("users", at="s3://lake/users"), "id")


def test_targets_of_sinks_are_places_or_an_error() -> None:
    assert isinstance(place_of(Redis("users", key="id"), "id"), RedisKeys)
    assert isinstance(place_of(Delta("users", at="lake/users"), "id"), DeltaFolder)
    assert isinstance(place_of(Parquet("users", at="lake/users"), "id"), ParquetTable)
    assert isinstance(place_of(OpenSearch("users", key="id"), "id"), OpenSearchIndex)
    for sink in (Discard(), Redis("users", key="id")):
        with pytest.raises(BadErasure, match="an erasure does not reach"):
            place_of(sink, "city")


def test_view_with_two_key_columns_needs_one_of_them(tmp_path: Path) -> None:
    Views(tmp_path).create(Definition(name="v", topics=("t",), key=("a", "b")))
    with pytest.raises(BadErasure, match="several key columns: a, b"):
        ViewVersions(tmp_path, "v", "")
    assert ViewVersions(tmp_path, "v", "a").name == "view v.a"
