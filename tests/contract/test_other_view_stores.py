"""What the stores of views that are not databases promise beside the contract of all: types, dropped versions, …"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path

import msgspec
import pytest
from pyspark.sql.types import StructType

from headrace.kafka.position import Position
from headrace.views.errors import BadView, ViewUnavailable
from headrace.views.query.rows import selected
from headrace.views.query.text import parse
from headrace.views.selection import Selection
from tests.contract.other_view_stores import PLACES, SCHEMA, Place, row, write

KEY = ("city",)
ROWS = [
    row(
        "Oslo",
        3,
        note="by the fjord",
        rate=0.5,
        is_open=True,
        opened=date(2026, 1, 1),
        seen=datetime(2026, 11, 18, 6, 30, 0, 250000, tzinfo=UTC),
    ),
    row("Bergen", 2, note="rain", rate=-2.0, is_open=False, opened=date(2025, 12, 31)),
    row("Å i Lofoten", 1, note=None, seen=datetime(1969, 7, 20, 20, 17, tzinfo=UTC)),
    row('it\'s "quoted": a/b=%c', None, note=""),
    row("Tromsø", 3, note="aurora", rate=1e6),
]


@pytest.fixture(params=sorted(PLACES))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    place = PLACES[request.param](request, tmp_path)
    yield place
    place.close()


def by_city(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    return sorted(rows, key=lambda each: str(each["city"]))


def test_nothing_is_there_before_the_first_version(place: Place) -> None:
    store = place.store()
    store.check()
    assert store.versions() == []
    assert store.served() is None
    with pytest.raises(ViewUnavailable):
        store.reader(1)
    store.drop(1)
    store.drop_view()


def test_rows_are_read_as_they_were_written(place: Place) -> None:
    place.build(1, ROWS)
    reader = place.store().reader(1)
    assert sorted(reader.columns()) == sorted(SCHEMA.names)
    assert by_city(reader.select(Selection(order_by=(("city", False),)))) == by_city(ROWS)
    assert by_city(place.store().sample(1, 100)) == by_city(ROWS)
    for each in ROWS:
        assert reader.get({"city": each["city"]}) == each
    assert reader.get({"city": "Nowhere"}) is None


SELECTIONS = [
    "",
    "ORDER BY users DESC, city DESC",
    "ORDER BY rate",
    "LIMIT 2 OFFSET 1",
    "LIMIT 2 OFFSET 9",
    "WHERE city = 'Oslo'",
    "WHERE city = 'Oslo' AND users = 4",
    "WHERE city = 'Bergen' OR note = 'aurora'",
    "WHERE note = 'rain' AND users >= 2",
    "WHERE note = ''",
    "WHERE note IS NULL OR NOT is_open",
    "WHERE users IN (1, 3) AND rate BETWEEN 0 AND 1000000",
    "WHERE lower(city) LIKE '%o%' AND length(city) < 7",
    "WHERE opened > '2025-12-31'",
    "WHERE seen < '2000-01-01'",
    "WHERE city >= 'Tromsø'",
    "WHERE users = 3 ORDER BY city",
]


def test_selections_are_those_of_a_database(place: Place) -> None:
    place.build(1, ROWS)
    reader = place.store().reader(1)
    for text in SELECTIONS:
        selection = parse(text, columns=SCHEMA.names, key=KEY)
        assert reader.select(selection) == selected(ROWS, selection), text


def test_key_of_the_wrong_columns_is_rejected(place: Place) -> None:
    place.build(1, ROWS)
    with pytest.raises(BadView, match="key"):
        place.store().reader(1).get({"users": 3})


def test_position_is_that_of_the_last_batch(place: Place) -> None:
    writer = place.writer(1)
    reader = place.store().reader(1)
    assert reader.position() is None
    write(writer, [row("Oslo", 1)], 0)
    assert reader.position() == Position({"shop.users": {0: 10}})
    write(writer, [], 1)
    assert reader.position() == Position({"shop.users": {0: 20}})


def test_reader_sees_each_batch_with_its_deletions(place: Place) -> None:
    changes = StructType([*SCHEMA.fields]).add("op", "string")
    writer = place.writer(1, changes)
    write(writer, [row("Oslo", 1, op="c"), row("Bergen", 1, op="r")], 0)
    reader = place.store().reader(1)
    assert by_city(reader.select(Selection())) == [row("Bergen", 1), row("Oslo", 1)]
    write(writer, [row("Oslo", 2, op="u"), row("Bergen", op="d"), row("Tromsø", op="-")], 1)
    assert reader.select(Selection()) == [row("Oslo", 2)]
    assert reader.get({"city": "Bergen"}) is None
    assert place.store().count(1) == 1


def test_missing_version_is_not_switched_to(place: Place) -> None:
    place.build(1, [row("Oslo", 1)])
    store = place.store()
    store.switch(1)
    with pytest.raises((BadView, ViewUnavailable)):
        store.switch(7)
    assert store.served() == 1


def test_name_is_never_missing_while_versions_switch(place: Place) -> None:
    place.build(1, [row("Oslo", 1), row("Bergen", 1)])
    place.store().switch(1)
    seen: list[object] = []
    is_over = threading.Event()

    def read() -> None:
        """As a reader of the name: a version that is dropped meanwhile is looked up again."""
        store = place.store()
        while not is_over.is_set():
            served = store.served()
            assert served is not None
            try:
                found = store.reader(served).select(Selection(order_by=(("city", False),)))
            except ViewUnavailable:
                continue
            seen.append((served, found))

    def reading() -> None:
        try:
            read()
        except BaseException as error:
            seen.append(error)

    thread = threading.Thread(target=reading)
    thread.start()
    try:
        while not seen:  # the first read imports its libraries
            time.sleep(0.01)
        store = place.store()
        for version in range(2, 8):
            place.build(version, [row("Oslo", version), row("Bergen", version)])
            store.switch(version)
            store.drop(version - 1)
    finally:
        is_over.set()
        thread.join()
    assert seen
    for each in seen:
        assert isinstance(each, tuple), each
        version, found = each
        assert found == [row("Bergen", version), row("Oslo", version)]


def test_served_version_is_not_dropped(place: Place) -> None:
    place.build(1, ROWS)
    store = place.store()
    store.switch(1)
    with pytest.raises(BadView, match="served"):
        store.drop(1)
    assert store.count(1) == len(ROWS)


def test_reader_of_a_dropped_version_fails_and_returns_no_other_rows(place: Place) -> None:
    place.build(1, ROWS)
    place.build(2, ROWS[:1])
    store = place.store()
    store.switch(2)
    reader = store.reader(1)
    assert reader.get({"city": "Oslo"}) is not None
    store.drop(1)
    store.drop(1)
    assert store.versions() == [2]
    for read in (
        lambda: reader.get({"city": "Oslo"}),
        lambda: reader.select(Selection()),
        reader.position,
    ):
        with pytest.raises(ViewUnavailable):
            read()
    assert store.count(2) == 1


def test_dropped_view_leaves_nothing(place: Place) -> None:
    place.build(1, ROWS)
    place.build(2, ROWS)
    store = place.store()
    store.switch(1)
    assert place.left()
    store.drop_view()
    assert place.left() == []
    assert (store.versions(), store.served()) == ([], None)
    store.drop_view()
    place.build(1, ROWS)
    store.switch(1)
    assert store.count(1) == len(ROWS)


def test_name_of_another_object_is_not_taken(place: Place) -> None:
    place.take_name()
    store = place.store()
    with pytest.raises(BadView, match="another"):
        store.check()
    place.build(1, ROWS)
    with pytest.raises(BadView):
        store.switch(1)
    with pytest.raises(BadView):
        store.drop_view()


def test_unknown_option_is_rejected(place: Place) -> None:
    definition = msgspec.structs.replace(place.definition, options={"partiton_by": "users"})
    from headrace.views.stores import open_store

    with pytest.raises(BadView, match="partiton_by"):
        open_store(definition, place.data_dir).check()


READ_WITHOUT_SPARK = """
import pathlib, sys, msgspec
from headrace.views.definition import Definition
from headrace.views.selection import Selection
from headrace.views.stores import open_store

definition = msgspec.json.decode(sys.argv[1], type=Definition)
store = open_store(definition, pathlib.Path(sys.argv[2]))
store.check()
reader = store.reader(store.served())
assert reader.select(Selection()) and reader.get({"city": "Oslo"}) and reader.position()
store.switch(2)
store.drop(1)
assert store.count(2) and store.sample(2, 1)
print("pyspark" in sys.modules or any(name.startswith("pyspark.") for name in sys.modules))
"""


def test_everything_but_the_sink_works_without_spark(place: Place) -> None:
    place.build(1, ROWS)
    place.build(2, ROWS)
    place.store().switch(1)
    arguments = [msgspec.json.encode(place.definition).decode(), str(place.data_dir)]
    done = subprocess.run(
        [sys.executable, "-c", READ_WITHOUT_SPARK, *arguments], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr
