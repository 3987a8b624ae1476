"""Views in the data folder."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from headrace.views.catalog import ViewFolder, ViewRecord, Views, ViewState, ViewStatus
from headrace.views.definition import Definition
from headrace.views.errors import BadView

USERS = Definition(name="users", topics=("shop.users",), key=("id",))


def test_view_is_kept_with_its_definition_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    definition = Definition(
        name="users",
        topics=("shop.users",),
        key=("id",),
        store="postgresql",
        at="postgresql://shop:secret@db/shop",
        schemas={"shop.users": "id BIGINT"},
    )
    Views(tmp_path).create(definition)
    views = Views(tmp_path)
    assert views.names() == ["users"]
    assert views.folder("users").record().definition == definition
    assert stat.S_IMODE((tmp_path / "views" / "users").stat().st_mode) == 0o700


def test_second_view_of_a_name_is_rejected_with_the_remedy(tmp_path: Path) -> None:
    Views(tmp_path).create(USERS)
    with pytest.raises(BadView, match="there is a view users already") as raised:
        Views(tmp_path).create(USERS)
    assert "headrace view rebuild users --sql" in raised.value.hint


def test_unknown_view_is_an_error_with_the_nearest_name(tmp_path: Path) -> None:
    Views(tmp_path).create(USERS)
    with pytest.raises(BadView, match="there is no view user ") as raised:
        Views(tmp_path).folder("user")
    assert "users" in raised.value.hint


def test_record_goes_from_version_to_version_and_never_reuses_a_number() -> None:
    record = ViewRecord(name="users", versions={1: USERS}, current=1)
    building = record.with_building(USERS)
    assert (building.current, building.building) == (1, 2)
    abandoned = building.without_building()
    assert (abandoned.building, list(abandoned.dropping)) == (None, [2])
    again = abandoned.with_building(USERS)
    assert again.building == 3
    switched = again.switched()
    assert (switched.current, switched.building, sorted(switched.dropping)) == (3, None, [1, 2])
    assert list(switched.versions) == [3]


def test_state_of_a_view_whose_process_died_is_killed(tmp_path: Path) -> None:
    folder = Views(tmp_path).create(USERS)
    assert folder.status().state is ViewState.NEW
    assert folder.lock.take()
    folder.write_status(ViewStatus(state=ViewState.RUNNING))
    assert Views(tmp_path).folder("users").status().state is ViewState.RUNNING
    folder.lock.release()
    assert Views(tmp_path).folder("users").status().state is ViewState.KILLED


def test_handover_is_wanted_only_while_its_rebuild_runs(tmp_path: Path) -> None:
    folder = Views(tmp_path).create(USERS)
    other = ViewFolder(tmp_path / "views" / "users", tmp_path)
    assert folder.rebuild_lock.take()
    folder.request_handover()
    assert other.is_handover_wanted()
    folder.rebuild_lock.release()
    assert not other.is_handover_wanted()


def test_view_that_was_never_switched_serves_nothing(tmp_path: Path) -> None:
    folder = Views(tmp_path).create(USERS)
    assert folder.served() == (USERS, None)
    assert not (tmp_path / "views.db").exists()


def test_removed_view_is_unknown(tmp_path: Path) -> None:
    views = Views(tmp_path)
    views.create(USERS).remove()
    assert views.names() == []
