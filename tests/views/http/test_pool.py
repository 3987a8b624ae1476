from __future__ import annotations

import threading

import pytest

from headrace.views.catalog import Views
from headrace.views.errors import BadView, ViewUnavailable
from headrace.views.http import pool as module
from headrace.views.http.pool import ReaderPool, UnknownView
from tests.contract.view_store_contract import Bench, user


@pytest.fixture
def pool(bench: Bench) -> ReaderPool:
    bench.write(1, [user(1)])
    bench.store().switch(1)
    return ReaderPool(Views(bench.lab.folder), readers_max=2)


def test_reader_is_used_again_and_by_one_at_a_time(pool: ReaderPool) -> None:
    with pool.reader("users") as first, pool.reader("users") as second:
        assert first is not second
    with pool.reader("users") as again:
        assert again in (first, second)
    pool.close()


def test_request_beyond_the_bound_waits_and_then_fails(
    pool: ReaderPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "WAIT_S_MAX", 0.05)
    with (
        pool.reader("users"),
        pool.reader("users"),
        pytest.raises(ViewUnavailable, match="more requests"),
        pool.reader("users"),
    ):
        pass
    with pool.reader("users") as reader:
        assert reader.get(id=1) is not None
    pool.close()


@pytest.mark.parametrize("error", [BadView("wrong", hint=""), RuntimeError("a bug")])
def test_place_of_a_failed_request_is_free_again(pool: ReaderPool, error: Exception) -> None:
    for _ in range(5):
        with pytest.raises(type(error)), pool.reader("users"):
            raise error
    with pool.reader("users") as reader:
        assert reader.get(id=1) is not None
    pool.close()


def test_readers_are_shared_by_threads(pool: ReaderPool) -> None:
    found: list[object] = []

    def read() -> None:
        for _ in range(20):
            with pool.reader("users") as reader:
                found.append(reader.get(id=1))

    threads = [threading.Thread(target=read) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == [{"id": 1, "city": "Oslo"}] * 120
    pool.close()


def test_unknown_view_is_rejected_with_the_nearest_name(pool: ReaderPool) -> None:
    with pytest.raises(UnknownView, match="did you mean users"), pool.reader("user"):
        pass
