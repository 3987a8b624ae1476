"""What reading a view promises, in every store that a view can be in."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.kafka.position import Position
from headrace.views.catalog import Views
from headrace.views.errors import BadView, ViewBehind, ViewUnavailable
from headrace.views.following import Following, Step
from headrace.views.view import ViewReader
from tests.contract.view_store_contract import CASES, TOPIC, Bench, Lab, find_cases, user

CITIES = ("Oslo", "Rome", "Lima")


@pytest.fixture(params=find_cases())
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    with contextlib.ExitStack() as stack:
        lab = Lab(folder=tmp_path, request=request, name=f"views_{uuid.uuid4().hex[:12]}", stack=stack)
        bench = Bench(lab, CASES[request.param](lab))
        Views(tmp_path).create(bench.definition())
        yield bench


@pytest.fixture
def view(bench: Bench) -> ViewReader:
    view = ViewReader(Views(bench.lab.folder).folder("users"))
    bench.lab.stack.callback(view.close)
    return view


def serve(bench: Bench, version: int, ids: range, *, batch: int = 0) -> None:
    bench.write(version, [user(each, CITIES[each % 3]) for each in ids], batch=batch)
    bench.store().switch(version)


def after(batch: int) -> Position:
    return Position({TOPIC: {0: (batch + 1) * 100}})


def result_after(steps: list[Step]) -> dict[int, str]:
    """What a client has that applies each change."""
    rows: dict[int, str] = {}
    for step in steps:
        if step.is_snapshot:
            rows.clear()
        for change in step.changes:
            if change.op == "-":
                assert rows.pop(change.row["id"]) == change.row["city"]
            else:
                assert change.row["id"] not in rows, "a row is retracted before it is asserted again"
                rows[change.row["id"]] = change.row["city"]
    return rows


def test_view_without_a_complete_version_is_unavailable(view: ViewReader) -> None:
    with pytest.raises(ViewUnavailable, match="no complete version"):
        view.query()


def test_row_is_found_by_its_key(bench: Bench, view: ViewReader) -> None:
    serve(bench, 1, range(6))
    row = view.get(id=4)
    assert row is not None
    assert (row["id"], row["city"]) == (4, "Rome")
    assert view.get(id=99) is None


def test_key_of_other_columns_is_rejected(bench: Bench, view: ViewReader) -> None:
    serve(bench, 1, range(3))
    with pytest.raises(BadView):
        view.get(city="Oslo")


def test_selection_has_the_matching_rows_in_its_order(bench: Bench, view: ViewReader) -> None:
    serve(bench, 1, range(9))
    page = view.query("WHERE city IN ('Oslo', 'Lima') AND id > 1 ORDER BY city DESC, id DESC LIMIT 4")
    assert [row["id"] for row in page.rows] == [6, 3, 8, 5]
    assert page.next is not None
    assert (page.version, page.is_rebuilding) == (1, False)


def test_pages_have_every_row_once(bench: Bench, view: ViewReader) -> None:
    serve(bench, 1, range(25))
    ids: list[int] = []
    page = view.query("ORDER BY city", limit=4)
    while True:
        ids += [row["id"] for row in page.rows]
        if page.next is None:
            break
        page = view.query("ORDER BY city", limit=4, page=page.next)
    assert ids == sorted(range(25), key=lambda each: (CITIES[each % 3], each))


def test_page_is_stable_while_rows_come_and_go(bench: Bench, view: ViewReader) -> None:
    serve(bench, 1, range(10, 20))
    first = view.query(limit=5)
    bench.write(1, [user(1), user(2), {**user(11), "op": "d"}], batch=1)
    second = view.query(limit=5, page=first.next)
    assert [row["id"] for row in (*first.rows, *second.rows)] == list(range(10, 20))


def test_unknown_column_is_rejected_with_the_nearest_name(bench: Bench, view: ViewReader) -> None:
    serve(bench, 1, range(3))
    with pytest.raises(BadView, match="did you mean city"):
        view.query("WHERE ctiy = 'Oslo'")


def test_read_that_is_new_enough_does_not_wait(bench: Bench, view: ViewReader) -> None:
    serve(bench, 1, range(3))
    page = view.query(at_least=after(0).token())
    assert page.position == after(0)


def test_read_waits_until_the_view_includes_the_position(bench: Bench, view: ViewReader) -> None:
    serve(bench, 1, range(3))

    def write_later() -> None:
        time.sleep(0.3)
        bench.write(1, [user(77)], batch=1)

    writer = threading.Thread(target=write_later)
    writer.start()
    row = view.get(id=77, at_least=after(1), wait_s=60)
    writer.join()
    assert row is not None


def test_read_of_a_view_that_is_behind_says_how_far(bench: Bench, view: ViewReader) -> None:
    serve(bench, 1, range(3))
    with pytest.raises(ViewBehind, match=f"{TOPIC}-0 by 20") as raised:
        view.query(at_least=Position({TOPIC: {0: 120}}))
    assert raised.value.behind == {f"{TOPIC}-0": 20}


def test_position_in_other_topics_is_rejected(bench: Bench, view: ViewReader) -> None:
    serve(bench, 1, range(3))
    with pytest.raises(BadView, match="reads none of the topics"):
        view.query(at_least=Position({"other": {0: 1}}))


def test_open_reader_survives_a_switch_and_the_deletion_of_its_version(
    bench: Bench, view: ViewReader
) -> None:
    serve(bench, 1, range(3))
    assert view.query().version == 1
    serve(bench, 2, range(5))
    bench.store().drop(1)
    page = view.query()
    assert (page.version, len(page.rows)) == (2, 5)


def test_read_while_rebuilding_has_the_old_version_and_says_so(bench: Bench, view: ViewReader) -> None:
    serve(bench, 1, range(3))
    folder = Views(bench.lab.folder).folder("users")
    folder.write_record(folder.record().with_building(bench.definition()))
    bench.write(2, [user(50)])
    page = view.query()
    assert (page.version, page.is_rebuilding, len(page.rows)) == (1, True, 3)


def test_follower_gets_the_result_and_then_each_change(bench: Bench, view: ViewReader) -> None:
    serve(bench, 1, range(6))
    following = Following("WHERE city <> 'Lima'")
    steps = [following.step(view)]
    assert following.step(view) is None
    bench.write(1, [user(0, "Lima"), user(1, "Bergen"), user(2, "Nice"), {**user(3), "op": "d"}], batch=1)
    steps.append(following.step(view))
    assert None not in steps
    first, second = [step for step in steps if step is not None]
    assert first.is_snapshot
    assert [change.op for change in first.changes] == ["+"] * 4
    assert not second.is_snapshot
    ops = [(change.op, change.row["id"]) for change in second.changes]
    assert ops == [("-", 0), ("-", 1), ("-", 3), ("+", 1), ("+", 2)]
    assert second.position == after(1)
    assert result_after([first, second]) == {1: "Bergen", 2: "Nice", 4: "Rome"}


def test_follower_gets_only_the_differences_of_a_switch(bench: Bench, view: ViewReader) -> None:
    serve(bench, 1, range(6))
    following = Following()
    first = following.step(view)
    bench.write(2, [user(each, CITIES[each % 3]) for each in range(1, 7)])
    bench.store().switch(2)
    bench.store().drop(1)
    second = following.step(view)
    assert first is not None
    assert second is not None
    assert [(change.op, change.row["id"]) for change in second.changes] == [("-", 0), ("+", 6)]
    assert second.version == 2


def test_follower_that_resumes_is_not_sent_a_result_that_it_has(bench: Bench, view: ViewReader) -> None:
    serve(bench, 1, range(6))
    first = Following("WHERE id > 2").step(view)
    assert first is not None
    again = Following("WHERE id > 2", first.resume).step(view)
    assert again is not None
    assert (again.is_snapshot, list(again.changes)) == (False, [])
    bench.write(1, [user(7)], batch=1)
    changed = Following("WHERE id > 2", first.resume).step(view)
    assert changed is not None
    assert changed.is_snapshot
    assert len(changed.changes) == 4
