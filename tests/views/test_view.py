"""What all stores promise is in `tests/contract/test_view_readers.py`."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from headrace.kafka.cluster import Cluster
from headrace.kafka.position import Position
from headrace.views import open_view
from headrace.views.errors import BadView
from headrace.views.view import ViewReader
from tests.contract.view_store_contract import TOPIC, Bench, user
from tests.views.topics import create_topic


def test_view_is_opened_by_its_name(bench: Bench) -> None:
    bench.write(1, [user(1)])
    bench.store().switch(1)
    with open_view("users", data_dir=bench.lab.folder) as view:
        assert view.get({"id": 1}) == view.get(id=1) == {"id": 1, "city": "Oslo"}
        assert view.columns() == {"id": "bigint", "city": "text"}


def test_unknown_name_is_rejected_with_the_nearest_one(bench: Bench) -> None:
    with pytest.raises(BadView, match="did you mean users"):
        open_view("user", data_dir=bench.lab.folder)


def test_opening_connects_to_nothing(tmp_path: Path, bench: Bench, view: ViewReader) -> None:
    assert not (tmp_path / "views.db").exists()


@pytest.mark.parametrize("limit", [0, 10_001])
def test_page_of_an_impossible_size_is_rejected(view: ViewReader, limit: int) -> None:
    with pytest.raises(BadView, match="from 1 to 10,000"):
        view.query(limit=limit)


def test_last_page_has_no_next_one(bench: Bench, view: ViewReader) -> None:
    bench.write(1, [user(1), user(2)])
    bench.store().switch(1)
    assert view.query(limit=2).next is None
    assert view.query(limit=1).next is not None
    assert view.query("LIMIT 1", limit=2).next is not None


def test_only_search_indexes_can_be_searched(bench: Bench, view: ViewReader) -> None:
    bench.write(1, [user(1)])
    bench.store().switch(1)
    with pytest.raises(BadView, match="--to search"):
        view.search("oslo")


def test_read_waits_for_a_view_that_is_built_for_the_first_time(bench: Bench, view: ViewReader) -> None:
    def build_later() -> None:
        time.sleep(0.2)
        bench.write(1, [user(1)])
        bench.store().switch(1)

    building = threading.Thread(target=build_later)
    building.start()
    assert view.get(id=1, wait_s=60) is not None
    building.join()


def test_newest_position_is_the_end_of_the_topics_of_the_view(
    bench: Bench, view: ViewReader, bootstrap: str
) -> None:
    bench.write(1, [user(1)])
    bench.store().switch(1)
    cluster = Cluster(bootstrap, timeout_s=30)
    if TOPIC not in cluster.topics():
        create_topic(cluster, TOPIC, partitions=1)
    assert view.newest_position(bootstrap) == Position.at_end(cluster, [TOPIC])
