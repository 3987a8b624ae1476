"""Removing a view."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from headrace.kafka.cluster import Cluster
from headrace.views.catalog import Views
from headrace.views.errors import BadView
from headrace.views.removal import remove_view
from tests.views.test_switching import built


@pytest.fixture
def cluster(bootstrap: str) -> Cluster:
    return Cluster(bootstrap, timeout_s=30)


def test_name_rows_jobs_and_folder_are_removed_and_other_views_stay(tmp_path: Path, cluster: Cluster) -> None:
    views = Views(tmp_path)
    built(views, "users")
    built(views, "orders")
    remove_view(views.folder("users"), cluster)
    assert views.names() == ["orders"]
    assert sorted(path.name for path in (tmp_path / "jobs").iterdir()) == ["view.orders.1", "view.orders.2"]
    with closing(sqlite3.connect(tmp_path / "views.db")) as database:
        names = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type <> 'index'")}
    assert names == {"headrace_fences", "headrace_views", "orders", "orders__1", "orders__2"}


@pytest.mark.parametrize(("lock", "problem"), [("lock", "runs"), ("rebuild_lock", "is being rebuilt")])
def test_view_in_use_is_not_removed(tmp_path: Path, cluster: Cluster, lock: str, problem: str) -> None:
    views = Views(tmp_path)
    folder = built(views, "users")
    assert getattr(folder, lock).take()
    with pytest.raises(BadView, match=f"view users {problem}"):
        remove_view(views.folder("users"), cluster)
    getattr(folder, lock).release()
    assert views.names() == ["users"]
    remove_view(views.folder("users"), cluster)
