"""The contract of sources as a type. Its promises are in tests/contract/test_change_sources.py."""

from __future__ import annotations

from pathlib import Path

from headrace.cdc.postgres.source import PostgresSource
from headrace.cdc.source import ChangeSource, SnapshotProgress
from headrace.cdc.sqlite.source import SqliteSource


def test_sources_have_all_methods_of_the_contract() -> None:
    wanted = {name for name in vars(ChangeSource) if not name.startswith("_")}
    assert {"events", "confirm", "snapshot"} < wanted
    for source in (PostgresSource, SqliteSource):
        assert wanted <= {name for name in vars(source) if not name.startswith("_")}


def test_progress_is_open_until_it_is_done(tmp_path: Path) -> None:
    assert not SnapshotProgress(table="notes", rows_read=3).is_done
