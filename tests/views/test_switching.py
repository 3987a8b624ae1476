"""The switch, and a crash at each of its points: one whole version is served, and the next start cleans up."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import get_args

import pyarrow as pa
import pytest
from msgspec.structs import replace
from pyspark.sql.types import StructType

from headrace.pipeline.fence import Fence
from headrace.views import points, switching
from headrace.views.catalog import ViewFolder, Views
from headrace.views.definition import Definition
from headrace.views.jobs import job_name
from headrace.views.points import Point
from headrace.views.store import Store

SCHEMA = StructType().add("id", "long").add("city", "string")

SWITCH_POINTS: tuple[Point, ...] = get_args(Point)[get_args(Point).index("journal-written") :]


class Killed(Exception):
    """Stands for `kill -9`: nothing of the switch runs after it."""


def write(folder: ViewFolder, version: int, city: str) -> None:
    store = folder.store(version)
    writer = store.sink(version).open(job_name(folder.name, version), SCHEMA)
    rows = pa.RecordBatch.from_pylist([{"id": number, "city": city} for number in range(10)])
    writer.apply(
        [rows],
        Fence(job=job_name(folder.name, version), checkpoint=f"of {version}", batch_id=0),
        lambda _rejected: pytest.fail("rejected"),
    )
    writer.close()
    store.close()
    (folder.data_dir / "jobs" / job_name(folder.name, version)).mkdir(parents=True)


def built(views: Views, name: str, at: str = "") -> ViewFolder:
    """A view with version 1 served and version 2 complete beside it."""
    definition = Definition(name=name, topics=("t",), key=("id",), at=at)
    folder = views.create(definition)
    write(folder, 1, "old")
    folder.store().switch(1)
    folder.write_record(folder.record().with_building(definition))
    write(folder, 2, "new")
    return folder


def cities(path: Path, name: str) -> set[str]:
    with closing(sqlite3.connect(path)) as database:
        found = [city for (city,) in database.execute(f"SELECT city FROM {name}")]
    assert len(found) == 10
    return set(found)


def test_switch_serves_the_new_versions_and_deletes_the_old_ones(tmp_path: Path) -> None:
    views = Views(tmp_path)
    folders = {name: built(views, name) for name in ("users", "orders")}
    switching.switch(folders, None)
    for name, folder in folders.items():
        assert cities(tmp_path / "views.db", name) == {"new"}
        record = folder.record()
        assert (record.current, record.building, record.dropping) == (2, None, {})
        assert folder.store().versions() == [2]
    assert sorted(os.listdir(tmp_path / "jobs")) == ["view.orders.2", "view.users.2"]
    assert list(views.path.glob(switching.JOURNAL)) == []


@pytest.mark.parametrize("others", ["same database", "another database"])
@pytest.mark.parametrize("point", SWITCH_POINTS)
def test_crash_in_a_switch_leaves_whole_versions_and_the_next_start_completes_it(
    point: Point, others: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = Views(tmp_path)
    elsewhere = "" if others == "same database" else str(tmp_path / "other.db")
    folders = {"users": built(views, "users"), "orders": built(views, "orders", elsewhere)}
    files = {"users": tmp_path / "views.db", "orders": Path(elsewhere or tmp_path / "views.db")}

    def kill(reached: Point) -> None:
        if reached == point:
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(points, "hooks", [kill])
        with pytest.raises(Killed):
            switching.switch(folders, None)
    for name, path in files.items():
        assert len(cities(path, name)) == 1
    # Whoever starts first completes the switch of both.
    switching.recover(views.folder("orders"), None)
    assert {name: cities(path, name) for name, path in files.items()} == {"users": {"new"}, "orders": {"new"}}
    switching.recover(views.folder("users"), None)
    for name in files:
        folder = views.folder(name)
        record = folder.record()
        assert (record.current, record.building, record.dropping) == (2, None, {})
        assert folder.store().versions() == [2]
    assert list(views.path.glob(switching.JOURNAL)) == []
    assert sorted(os.listdir(tmp_path / "jobs")) == ["view.orders.2", "view.users.2"]


def test_crash_between_the_stores_of_a_group_is_rolled_forward(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = Views(tmp_path)
    folders = {"users": built(views, "users"), "orders": built(views, "orders", str(tmp_path / "other.db"))}
    store = folders["orders"].store(2)
    switched: list[str] = []

    def switch_first(self: Store, version: int) -> None:
        if switched:
            raise Killed
        switched.append("users")
        original(self, version)

    original = type(store).switch
    with monkeypatch.context() as patched:
        patched.setattr(type(store), "switch", switch_first)
        with pytest.raises(Killed):
            switching.switch(folders, None)
    assert cities(tmp_path / "views.db", "users") == {"new"}
    assert cities(tmp_path / "other.db", "orders") == {"old"}
    switching.recover(views.folder("users"), None)
    assert cities(tmp_path / "other.db", "orders") == {"new"}


def test_recovery_does_not_touch_a_rebuild_that_runs(tmp_path: Path) -> None:
    views = Views(tmp_path)
    folder = built(views, "users")
    assert folder.rebuild_lock.take()
    folder.request_handover()
    other = views.folder("users")
    switching.recover(other, None)
    assert other.is_handover_wanted()
    assert other.record().building == 2
    folder.rebuild_lock.release()
    switching.recover(other, None)
    assert not other.is_handover_wanted()
    assert other.record().building == 2, "the version is not complete by what the store says: it stays"
    assert cities(tmp_path / "views.db", "users") == {"old"}


def test_version_whose_store_is_unavailable_is_deleted_by_a_later_start(tmp_path: Path) -> None:
    views = Views(tmp_path)
    folder = built(views, "users")
    switching.switch({"users": folder}, None)
    blocked = Definition(name="users", topics=("t",), key=("id",), at=str(tmp_path / "moved.db"))
    (tmp_path / "moved.db").write_text("not a database " * 100)
    folder.write_record(replace(folder.record(), dropping={1: blocked}))
    switching.recover(folder, None)
    assert 1 in folder.record().dropping
    (tmp_path / "moved.db").unlink()
    switching.recover(folder, None)
    assert folder.record().dropping == {}
