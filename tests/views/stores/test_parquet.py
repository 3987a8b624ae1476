"""What only views in Parquet files do; `tests/contract` checks the rest."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from headrace.kafka.position import Position
from headrace.views.selection import Selection
from tests.contract.other_view_stores import NAME, Place, parquet_partitioned_place, row, write


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return parquet_partitioned_place(request, tmp_path)


def test_duckdb_reads_the_served_version_under_the_name_of_the_view(place: Place) -> None:
    for version in (1, 2):
        place.build(version, [row("Oslo", version), row("Bergen", 5)])
        place.store().switch(version)
        pattern = f"{place.definition.at}/{NAME}/**/*.parquet"
        with duckdb.connect() as connection:
            found = connection.execute(
                "SELECT city, users FROM read_parquet(?, hive_partitioning = true) ORDER BY city", [pattern]
            ).fetchall()
        assert found == [("Bergen", 5), ("Oslo", version)]


def test_all_reads_within_a_snapshot_see_one_moment(place: Place) -> None:
    writer = place.writer(1)
    write(writer, [row("Oslo", 1)], 0)
    reader = place.store().reader(1)
    with reader.snapshot():
        write(writer, [row("Oslo", 2), row("Bergen", 2)], 1)
        assert reader.position() == Position({"shop.users": {0: 10}})
        assert reader.select(Selection()) == [row("Oslo", 1)]
    assert reader.position() == Position({"shop.users": {0: 20}})
    assert reader.get({"city": "Oslo"}) == row("Oslo", 2)


def test_version_without_a_snapshot_is_found_and_dropped(place: Place) -> None:
    """A process may be killed while it creates the table."""
    Path(place.definition.at, f".{NAME}__3.snapshots").mkdir(parents=True)
    store = place.store()
    assert store.versions() == [3]
    store.drop(3)
    assert place.left() == []
