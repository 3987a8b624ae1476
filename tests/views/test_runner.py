"""Views that run: the first version appears when it is complete, and then follows its topics."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable

import pytest

from headrace.testing.ports import free_port
from headrace.testing.postgres import PostgresServer
from headrace.testing.requirements import require_postgres
from headrace.views import runner
from headrace.views.catalog import ViewState
from headrace.views.errors import BadView
from tests.views.view_house import WAIT_S_MAX, ViewHouse, user


def test_view_has_all_records_of_its_topic_when_its_name_appears(house: ViewHouse) -> None:
    house.create()
    house.change(*(user(number) for number in range(20)))
    with pytest.raises(sqlite3.OperationalError):
        house.rows()
    (run,) = house.run_once()
    assert run.failure is None
    assert house.rows() == dict.fromkeys(range(20), "Oslo")
    assert run.status.rows_in == 20
    house.change(user(1, "Rome"))
    house.change(user(2), op="d")
    house.run_once()
    assert house.rows() == {number: "Rome" if number == 1 else "Oslo" for number in range(20) if number != 2}
    folder = house.views.folder("users")
    assert folder.status().state is ViewState.STOPPED
    assert folder.served()[1] == 1


def test_failing_view_does_not_stop_the_others(house: ViewHouse) -> None:
    house.create()
    house.create("elsewhere", store="postgresql", at=f"postgresql://nobody@127.0.0.1:{free_port()}/none")
    house.change(user(1))
    failed, good = house.run_once("elsewhere", "users")
    assert "PostgreSQL at 127.0.0.1" in str(failed.failure)
    assert house.views.folder("elsewhere").status().state is ViewState.FAILED
    assert good.failure is None
    assert house.rows() == {1: "Oslo"}


@pytest.mark.slow
def test_view_waits_for_a_store_that_is_away(house: ViewHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    require_postgres()
    monkeypatch.setattr(runner, "RETRY_AFTER_MS", 500)
    house.change(user(1))
    with PostgresServer() as server:
        folder = house.create(store="postgresql", at=server.create_database("shop"))
        server.stop()
        with house.running("users") as (run,):
            wait_until(lambda: run.status.state is ViewState.RESTARTING)
            assert "PostgreSQL at 127.0.0.1" in run.status.error
            server.start()
            wait_until(lambda: run.status.state is ViewState.RUNNING)
            assert folder.served()[1] == 1
            assert run.status.error == ""


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S_MAX
    while not is_true():
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


def test_running_view_follows_its_topic_and_is_refused_to_a_second_process(house: ViewHouse) -> None:
    house.create()
    with house.running("users") as (run,):
        house.change(user(1))
        house.await_rows({1: "Oslo"})
        house.change(user(1, "Rome"), user(2))
        house.await_rows({1: "Rome", 2: "Oslo"})
        (second,) = house.run_once("users")
        assert isinstance(second.failure, BadView)
        assert "runs already" in str(second.failure)
        assert run.status.state is ViewState.RUNNING
        assert house.views.folder("users").status().state is ViewState.RUNNING
    assert house.views.folder("users").status().state is ViewState.STOPPED


@pytest.mark.slow
def test_bad_records_are_skipped_in_live_operation(house: ViewHouse) -> None:
    house.create()
    house.change(user(1))
    house.send_bad()
    (run,) = house.run_once()
    assert run.failure is None
    assert run.status.dead_letters == 1
    assert house.rows() == {1: "Oslo"}
    assert "dlq.view.users.1" in house.cluster.topics()
