"""The contract of stores of views: what each of them promises, whatever it keeps the rows in."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.view_store_contract import CASES, Bench, Lab, find_cases, user


@pytest.fixture(params=find_cases())
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    with contextlib.ExitStack() as stack:
        lab = Lab(folder=tmp_path, request=request, name=f"views_{uuid.uuid4().hex[:12]}", stack=stack)
        yield Bench(lab, CASES[request.param](lab))


def rows(bench: Bench, version: int, name: str = "users") -> list[tuple[int, str]]:
    found = bench.store(name).sample(version, 1_000)
    return sorted((row["id"], row["city"]) for row in found)


def test_new_view_has_no_version(bench: Bench) -> None:
    store = bench.store()
    store.check()
    assert store.versions() == []
    assert store.served() is None


def test_version_is_not_served_before_the_switch(bench: Bench) -> None:
    bench.write(1, [user(1), user(2)])
    store = bench.store()
    assert store.versions() == [1]
    assert store.served() is None
    assert store.count(1) == 2


def test_switch_is_seen_by_everyone(bench: Bench) -> None:
    bench.write(1, [user(1)])
    before = bench.store()
    assert before.served() is None
    bench.store().switch(1)
    assert before.served() == 1
    assert bench.store().served() == 1


def test_switch_can_be_repeated(bench: Bench) -> None:
    bench.write(1, [user(1)])
    bench.store().switch(1)
    bench.store().switch(1)
    assert bench.store().served() == 1
    assert rows(bench, 1) == [(1, "Oslo")]


def test_check_accepts_the_name_of_the_own_view(bench: Bench) -> None:
    bench.write(1, [user(1)])
    bench.store().switch(1)
    bench.store().check()


def test_new_version_shares_nothing_with_the_served_one(bench: Bench) -> None:
    bench.write(1, [user(1), user(2)])
    bench.store().switch(1)
    bench.write(2, [user(1, "Rome")])
    assert bench.store().versions() == [1, 2]
    assert bench.store().served() == 1
    assert rows(bench, 1) == [(1, "Oslo"), (2, "Oslo")]
    assert rows(bench, 2) == [(1, "Rome")]


def test_switch_to_a_new_version_leaves_the_old_one_until_it_is_dropped(bench: Bench) -> None:
    bench.write(1, [user(1)])
    bench.store().switch(1)
    bench.write(2, [user(2)])
    bench.store().switch(2)
    assert bench.store().served() == 2
    assert rows(bench, 1) == [(1, "Oslo")]
    bench.store().drop(1)
    assert bench.store().versions() == [2]
    assert rows(bench, 2) == [(2, "Oslo")]


def test_version_is_written_while_it_is_served(bench: Bench) -> None:
    bench.write(1, [user(1), user(2)])
    bench.store().switch(1)
    bench.write(1, [user(1, "Rome"), {**user(2), "op": "d"}, user(3)], batch=1)
    assert rows(bench, 1) == [(1, "Rome"), (3, "Oslo")]
    assert bench.store().count(1) == 2


def test_drop_of_a_missing_version_succeeds(bench: Bench) -> None:
    bench.store().drop(7)
    bench.write(1, [user(1)])
    bench.store().drop(1)
    bench.store().drop(1)
    assert bench.store().versions() == []


def test_dropped_version_can_be_built_again(bench: Bench) -> None:
    """A rebuild that failed may have left a fence: it must not skip the batches of the next one."""
    bench.write(1, [user(1)])
    bench.store().drop(1)
    bench.write(1, [user(2)])
    assert rows(bench, 1) == [(2, "Oslo")]


def test_find_returns_rows_by_key_in_the_given_order(bench: Bench) -> None:
    bench.write(1, [user(1, "Oslo"), user(2, "Rome")])
    found = bench.store().find(1, [{"id": 2}, {"id": 9}, {"id": 1}])
    assert [None if row is None else (row["id"], row["city"]) for row in found] == [
        (2, "Rome"),
        None,
        (1, "Oslo"),
    ]


def test_sample_is_bounded_and_of_the_version(bench: Bench) -> None:
    bench.write(1, [user(number) for number in range(50)])
    sample = bench.store().sample(1, 10)
    assert len(sample) == 10
    assert len({row["id"] for row in sample}) == 10
    assert {row["id"] for row in sample} <= set(range(50))


def test_views_whose_names_begin_alike_are_separate(bench: Bench) -> None:
    bench.write(1, [user(1)])
    bench.write(2, [user(2)], name="users_by_city")
    bench.store().switch(1)
    bench.store("users_by_city").switch(2)
    assert bench.store().versions() == [1]
    assert bench.store("users_by_city").versions() == [2]
    bench.store().drop_view()
    assert bench.store().versions() == []
    assert bench.store().served() is None
    assert bench.store("users_by_city").served() == 2
    assert rows(bench, 2, "users_by_city") == [(2, "Oslo")]


def test_dropped_view_can_be_created_again(bench: Bench) -> None:
    bench.write(1, [user(1)])
    bench.store().switch(1)
    bench.store().drop_view()
    bench.store().drop_view()
    bench.store().check()
    bench.write(1, [user(2)])
    bench.store().switch(1)
    assert rows(bench, 1) == [(2, "Oslo")]


def test_views_of_one_group_switch_together(bench: Bench) -> None:
    store = bench.store()
    if not store.switch_group:
        pytest.skip("views of this store switch one by one")
    for name in ("users", "orders"):
        bench.write(1, [user(1)], name=name)
        bench.write(2, [user(2)], name=name)
        bench.store(name).switch(1)
    assert bench.store("orders").switch_group == store.switch_group
    store.switch_together({bench.store("orders"): 2}, 2)
    assert (bench.store().served(), bench.store("orders").served()) == (2, 2)


def test_name_is_never_missing_and_never_between_two_versions(bench: Bench) -> None:
    if bench.case.rows_by_name is None:
        pytest.skip("no other program reads this store")
    read_by_name = bench.case.rows_by_name
    bench.write(1, [user(number, "one") for number in range(20)])
    bench.write(2, [user(number, "two") for number in range(20)])
    bench.store().switch(1)
    wrong: list[object] = []
    is_over = threading.Event()
    reads = 0

    def read() -> None:
        nonlocal reads
        while not is_over.is_set():
            try:
                cities = [row["city"] for row in read_by_name("users")]
            except Exception as error:
                wrong.append(error)
                return
            reads += 1
            if cities not in (["one"] * 20, ["two"] * 20):
                wrong.append(cities)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(20):
        bench.store().switch(2 - number % 2)
    is_over.set()
    reader.join()
    assert wrong == []
    assert reads > 0
