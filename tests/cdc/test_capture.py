"""Captures in the data folder."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from msgspec.structs import replace

from headrace.cdc.capture import Capture, Captures, CaptureState, CaptureStatus
from headrace.cdc.errors import BadCapture
from headrace.cdc.postgres.source import PostgresSource
from headrace.cdc.sqlite.source import SqliteSource

NOTES = Capture(name="notes", address="sqlite:///notes.db")


def test_added_capture_is_found_again(tmp_path: Path) -> None:
    captures = Captures(tmp_path)
    captures.add(NOTES)
    captures.add(replace(NOTES, name="shop", keep="both", tables=("order*",)))
    assert captures.names() == ["notes", "shop"]
    assert captures.folder("shop").definition().tables == ("order*",)
    captures.folder("shop").remove()
    assert captures.names() == ["notes"]


def test_first_pattern_that_matches_chooses_what_a_table_keeps() -> None:
    capture = replace(NOTES, keep="both", keep_by_table=(("public.audit_*", "all"), ("*_log", "latest")))
    tables = ["public.audit_log", "other.audit_log", "public.users"]
    assert [capture.keep_of(table) for table in tables] == ["all", "latest", "both"]
    capture.check_keep(tables)
    with pytest.raises(BadCapture, match=r"public.audit_\*=all: no captured table matches"):
        capture.check_keep(tables[1:])


def test_definition_with_a_password_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    Captures(tmp_path).add(NOTES)
    assert stat.S_IMODE((tmp_path / "cdc" / "notes").stat().st_mode) == 0o700


def test_second_capture_of_a_name_and_an_unknown_one_are_rejected(tmp_path: Path) -> None:
    captures = Captures(tmp_path)
    captures.add(NOTES)
    with pytest.raises(BadCapture, match="a capture notes already"):
        captures.add(NOTES)
    with pytest.raises(BadCapture, match="no capture note ") as unknown:
        captures.folder("note")
    assert "notes" in unknown.value.hint


@pytest.mark.parametrize("name", ["", "1st", "a.b", "a/b", "x" * 41])
def test_name_that_no_slot_can_have_is_rejected(name: str) -> None:
    with pytest.raises(BadCapture, match="cannot be the name"):
        Capture(name=name, address="sqlite:///notes.db")


def test_address_chooses_the_source(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    path.touch()
    source = Capture(name="notes", address=f"sqlite:///{path}").open_source()
    assert isinstance(source, SqliteSource)
    source.close()


def test_postgres_has_both_of_its_schemes() -> None:
    for scheme in ("postgres", "postgresql"):
        capture = Capture(name="shop", address=f"{scheme}://ann@127.0.0.1/shop")
        assert isinstance(capture.open_source(), PostgresSource)
        assert capture.connector == "postgresql"


def test_unknown_address_is_rejected_without_its_password() -> None:
    with pytest.raises(BadCapture) as rejected:
        Capture(name="x", address="oracle://ann:secret@host/x").open_source()
    assert "secret" not in str(rejected.value)
    assert "oracle://host/x" in rejected.value.message


def test_state_of_a_process_that_died_is_killed(tmp_path: Path) -> None:
    folder = Captures(tmp_path).add(NOTES)
    assert folder.status().state is CaptureState.NEW
    folder.write_status(CaptureStatus(state=CaptureState.STREAMING, events=3))
    assert folder.status().state is CaptureState.KILLED
    assert folder.lock.take()
    assert folder.status().state is CaptureState.STREAMING
    folder.lock.release()
    folder.pause()
    assert folder.status().state is CaptureState.PAUSED
    folder.resume()
    assert folder.status().events == 3


def test_requested_snapshots_are_kept_until_they_are_cleared(tmp_path: Path) -> None:
    folder = Captures(tmp_path).add(NOTES)
    assert folder.requested_snapshots() == ()
    folder.request_snapshot(["a", "b"])
    folder.request_snapshot(["b", "c"])
    assert folder.requested_snapshots() == ("a", "b", "c")
    folder.clear_requests(["a", "c"])
    assert folder.requested_snapshots() == ("b",)
