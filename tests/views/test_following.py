"""Snapshot plus changes is the current result, whatever is written and switched meanwhile."""

from __future__ import annotations

import contextlib
import random
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.kafka.position import Position
from headrace.views.catalog import Views
from headrace.views.errors import BadView
from headrace.views.following import Following, Step
from headrace.views.selection import ROWS_MAX
from headrace.views.view import ViewReader
from tests.contract.view_store_contract import CASES, TOPIC, Bench, Lab, find_cases, user
from tests.views.written_views import sqlite_bench

CITIES = ("Oslo", "Rome", "Lima")
SELECTIONS = ("", "WHERE city = 'Oslo'", "ORDER BY city DESC, id LIMIT 3", "WHERE id % 2 = 0")

Rows = dict[int, str]


class Client:
    """Applies the changes of each step to what it has."""

    def __init__(self) -> None:
        self.rows: Rows = {}

    def apply(self, step: Step) -> None:
        if step.is_snapshot:
            self.rows.clear()
        for change in step.changes:
            if change.op == "-":
                assert self.rows.pop(change.row["id"]) == change.row["city"]
            else:
                assert change.row["id"] not in self.rows, "a row is asserted twice"
                self.rows[change.row["id"]] = change.row["city"]


def selected(rows: Rows, selection: str) -> Rows:
    """What the selection means, without SQL."""
    match SELECTIONS.index(selection):
        case 0:
            return rows
        case 1:
            return {number: city for number, city in rows.items() if city == "Oslo"}
        case 2:
            return dict(sorted(rows.items(), key=lambda row: ([-ord(each) for each in row[1]], row[0]))[:3])
    return {number: city for number, city in rows.items() if number % 2 == 0}


def batch_of(changes: dict[int, str | None]) -> list[dict[str, Any]]:
    return [
        {**user(number), "op": "d"} if city is None else user(number, city)
        for number, city in changes.items()
    ]


def changed(rows: Rows, changes: dict[int, str | None]) -> Rows:
    merged: dict[int, str | None] = {**rows, **changes}
    return {number: city for number, city in merged.items() if city is not None}


CHANGES = st.dictionaries(st.integers(0, 7), st.none() | st.sampled_from(CITIES), min_size=1, max_size=5)
ACTIONS = st.lists(
    st.one_of(CHANGES, st.just("rebuild"), st.just("look"), st.just("reconnect")), min_size=1, max_size=8
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(actions=ACTIONS, selection=st.sampled_from(SELECTIONS))
def test_snapshot_plus_changes_is_the_result_at_every_step(
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
    actions: list[Any],
    selection: str,
) -> None:
    folder = tmp_path_factory.mktemp("views")
    with sqlite_bench(folder, request) as bench:
        Views(folder).create(bench.definition())
        rows: Rows = {1: "Oslo", 2: "Rome"}
        version, batch = 1, 0
        bench.write(version, batch_of(dict(rows)))
        bench.store().switch(version)
        client, following = Client(), Following(selection)
        resume = ""
        with ViewReader(Views(folder).folder("users")) as view:
            for action in ["look", *actions, "look"]:
                if action == "rebuild":
                    # With a difference, as a changed definition has it.
                    rows = changed(rows, {3: "Lima", 1: None})
                    version, batch = version + 1, 0
                    bench.write(version, batch_of(dict(rows)))
                    bench.store().switch(version)
                    bench.store().drop(version - 1)
                elif action == "reconnect":
                    following = Following(selection, resume or None)
                elif action == "look":
                    step = following.step(view)
                    if step is not None:
                        client.apply(step)
                        resume = step.resume
                    assert client.rows == selected(rows, selection)
                else:
                    rows, batch = changed(rows, action), batch + 1
                    bench.write(version, batch_of(action), batch=batch)


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    find_cases()
    with contextlib.ExitStack() as stack:
        lab = Lab(folder=tmp_path, request=request, name=f"follow_{uuid.uuid4().hex[:12]}", stack=stack)
        bench = Bench(lab, CASES[request.param](lab))
        Views(tmp_path).create(bench.definition())
        yield bench


def test_result_is_exactly_the_one_at_its_position_while_a_job_writes(store: Bench) -> None:
    """Position and rows are read at one moment: a client never takes a half-written batch for a result."""
    chance = random.Random(7)
    rows: Rows = dict.fromkeys(range(50), "Oslo")
    store.write(1, batch_of(dict(rows)))
    store.store().switch(1)
    expected: dict[int, Rows] = {100: rows}
    batches = 30

    def write() -> None:
        nonlocal rows
        for batch in range(1, batches + 1):
            changes = {chance.randrange(80): chance.choice([*CITIES, None]) for _ in range(20)}
            rows = changed(rows, changes)
            expected[(batch + 1) * 100] = rows  # before it can be seen
            store.write(1, batch_of(changes), batch=batch)

    client, last = Client(), Position({TOPIC: {0: (batches + 1) * 100}})
    writer = threading.Thread(target=write)
    with ViewReader(Views(store.lab.folder).folder("users")) as view:
        writer.start()
        for step in view.follow("WHERE city <> 'Lima'", poll_s=0.001):
            client.apply(step)
            assert step.position is not None
            result = expected[step.position.offsets[TOPIC][0]]
            assert client.rows == {number: city for number, city in result.items() if city != "Lima"}
            if step.position == last:
                break
    writer.join()


def test_result_of_too_many_rows_is_rejected_with_the_remedy(bench: Bench, view: ViewReader) -> None:
    bench.write(1, [user(number) for number in range(ROWS_MAX + 1)])
    bench.store().switch(1)
    with pytest.raises(BadView, match=r"too many to follow.*ORDER BY"):
        Following().step(view)
    step = Following("ORDER BY id LIMIT 5").step(view)
    assert step is not None
    assert len(step.changes) == 5


def test_follower_without_changes_of_its_rows_still_learns_the_position(
    bench: Bench, view: ViewReader
) -> None:
    bench.write(1, [user(1)])
    bench.store().switch(1)
    following = Following("WHERE city = 'Rome'")
    following.step(view)
    bench.write(1, [user(2)], batch=1)
    step = following.step(view)
    assert step is not None
    assert (list(step.changes), step.position) == ([], Position({TOPIC: {0: 200}}))


def test_token_that_is_no_resume_token_is_rejected(bench: Bench, view: ViewReader) -> None:
    bench.write(1, [user(1)])
    bench.store().switch(1)
    with pytest.raises(BadView, match="not where a follower can resume"):
        Following("", "nonsense").step(view)
