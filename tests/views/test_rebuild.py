"""Rebuilds: a new version beside the old one, compared, and switched to without a gap."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from headrace.views import points
from headrace.views.errors import BadView
from headrace.views.points import Point
from headrace.views.version_jobs import BadEvents
from tests.views.topics import create_topic
from tests.views.view_house import ViewHouse, user


class Killed(Exception):
    """Stands for `kill -9`: nothing of the rebuild runs after it."""


def test_rebuild_beside_a_running_view_keeps_every_record_and_the_name(house: ViewHouse) -> None:
    house.create()
    house.change(*(user(number) for number in range(50)))
    is_over = threading.Event()
    wrong: list[Exception] = []
    written: dict[int, str] = dict.fromkeys(range(50), "Oslo")

    def read() -> None:
        with closing(sqlite3.connect(house.views.data_dir / "views.db", timeout=30)) as database:
            while not is_over.wait(0.01):
                try:
                    database.execute("SELECT count(*) FROM users").fetchone()
                except sqlite3.Error as error:
                    wrong.append(error)

    def write() -> None:
        number = 0
        while not is_over.wait(0.05):
            number += 1
            house.change(user(number % 70, f"city {number}"))
            written[number % 70] = f"city {number}"

    with house.running("users"):
        house.await_rows(dict(written))
        house.execute("CREATE INDEX by_city ON users__1 (city)")
        threads = [threading.Thread(target=each) for each in (read, write)]
        for thread in threads:
            thread.start()
        try:
            compared = house.rebuild()
        finally:
            is_over.set()
            for thread in threads:
                thread.join()
        assert wrong == []
        assert compared["users"].compared > 50
        assert compared["users"].is_equal
        house.await_rows(written)
    assert house.views.folder("users").served()[1] == 2
    assert "users__1" not in house.tables()
    assert os.listdir(house.views.data_dir / "jobs") == ["view.users.2"]
    with closing(sqlite3.connect(house.views.data_dir / "views.db")) as database:
        plan = database.execute("EXPLAIN QUERY PLAN SELECT * FROM users WHERE city = 'Oslo'").fetchall()
    assert "by_city__2" in str(plan)


def test_bad_events_stop_a_rebuild_unless_they_are_skipped(house: ViewHouse) -> None:
    house.create()
    house.change(user(1))
    house.send_bad()
    house.run_once()
    with pytest.raises(BadEvents, match=r"bad events, 1 so far.*dlq\.view\.users\.2") as raised:
        house.rebuild()
    assert "--skip-bad" in raised.value.hint
    assert house.views.folder("users").served()[1] == 1
    assert house.views.folder("users").record().building is None
    assert "users__2" not in house.tables()
    house.rebuild(skip_bad=True)
    assert house.views.folder("users").served()[1] == 3
    assert house.rows() == {1: "Oslo"}


def test_differences_stop_a_rebuild_unless_they_are_accepted(house: ViewHouse) -> None:
    house.create()
    house.change(user(1), user(2), user(3))
    house.run_once()
    house.execute("UPDATE users__1 SET city = 'Rome' WHERE id = 1")
    house.execute("DELETE FROM users__1 WHERE id = 2")
    with pytest.raises(BadView, match="3 rows instead of 2") as raised:
        house.rebuild()
    assert "id 1: city is 'Oslo' and was 'Rome'" in str(raised.value)
    assert "id 2: only in the new version" in str(raised.value)
    assert house.rows() == {1: "Rome", 3: "Oslo"}
    compared = house.rebuild(accept_differences=True)["users"]
    assert len(compared.differences) == 2
    assert house.rows() == {1: "Oslo", 2: "Oslo", 3: "Oslo"}


@pytest.mark.slow
def test_changed_definition_is_a_rebuild_and_must_not_empty_the_view(house: ViewHouse) -> None:
    house.create()
    house.change(user(1))
    house.run_once()
    empty = house.topic.replace("users", "nobody")
    create_topic(house.cluster, empty, partitions=1)
    columns = {empty: "id BIGINT NOT NULL, city STRING"}
    with pytest.raises(BadView, match="0 rows instead of 1"):
        house.rebuild(change={"topics": (empty,), "schemas": columns})
    assert house.rows() == {1: "Oslo"}
    house.change(user(7, "Lima"), user(8, "Lima"), topic=empty)
    compared = house.rebuild(change={"topics": (empty,), "schemas": columns})["users"]
    assert (compared.old_rows, compared.new_rows, compared.compared) == (1, 2, 0)
    assert house.rows() == {7: "Lima", 8: "Lima"}
    assert house.views.folder("users").record().definition.topics == (empty,)


def test_second_rebuild_at_the_same_time_is_refused(house: ViewHouse) -> None:
    folder = house.create()
    assert folder.rebuild_lock.take()
    try:
        with pytest.raises(BadView, match="is being rebuilt by another process"):
            house.rebuild()
    finally:
        folder.rebuild_lock.release()


@pytest.mark.slow
def test_several_views_switch_together_and_a_view_can_move(house: ViewHouse, tmp_path: Path) -> None:
    house.create()
    house.create("people", at=str(tmp_path / "other.db"))
    house.change(user(1), user(2))
    house.run_once()
    house.rebuild("users", "people")
    assert [house.views.folder(name).served()[1] for name in ("users", "people")] == [2, 2]
    assert house.rows() == house.rows("people", "other.db") == {1: "Oslo", 2: "Oslo"}
    assert not list(house.views.path.glob(".switch-*"))
    house.rebuild("people", change={"at": ""})
    assert house.rows("people") == {1: "Oslo", 2: "Oslo"}
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        house.rows("people", "other.db")


def test_next_rebuild_continues_a_killed_one(house: ViewHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    house.create("continued")
    house.change(user(1), user(2))
    house.run_once()

    def kill(point: Point) -> None:
        if point == "version-built":
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(points, "hooks", [kill])
        with pytest.raises(Killed):
            house.rebuild("continued")
    assert house.rows("continued") == {1: "Oslo", 2: "Oslo"}
    assert house.views.folder("continued").record().building == 2
    house.run_once()  # the live version continues beside the incomplete one
    assert house.views.folder("continued").record().building == 2
    house.change(user(3))
    house.rebuild("continued")
    assert house.views.folder("continued").served()[1] == 2
    assert house.rows("continued") == {1: "Oslo", 2: "Oslo", 3: "Oslo"}
