"""Captures that run: from a SQLite file to topics, once and until they are stopped."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.cdc import batch
from headrace.cdc import runner as module
from headrace.cdc.capture import Capture, CaptureFolder, Captures, CaptureState
from headrace.cdc.errors import BadCapture
from headrace.cdc.publisher import Kept, Publisher
from headrace.cdc.runner import CaptureRun
from headrace.kafka.cluster import Cluster
from tests.cdc.conftest import ops
from tests.contract.change_source_contract import CASES, SourceCase

WAIT_S = 30.0


def wait_until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def test_once_writes_what_is_committed_and_continues_the_next_time(
    notes: SourceCase, capture: Capture, folder: CaptureFolder, cluster: Cluster, bootstrap: str
) -> None:
    CaptureRun(capture, folder, cluster, once=True).run()
    notes.run("UPDATE notes SET title = 'c' WHERE id = 1", "DELETE FROM notes WHERE id = 2")
    CaptureRun(capture, folder, cluster, once=True).run()
    topic = f"{capture.name}.notes"
    assert ops(bootstrap, topic) == [(1, "r"), (2, "r"), (1, "u"), (2, "d"), (2, None)]
    assert cluster.configs("topic", topic)["cleanup.policy"].value == "compact"
    assert folder.status().state is CaptureState.STOPPED
    assert folder.status().events == 2


def test_running_capture_follows_answers_requests_and_stops(
    notes: SourceCase, capture: Capture, folder: CaptureFolder, cluster: Cluster, bootstrap: str
) -> None:
    running = threading.Thread(target=CaptureRun(capture, folder, cluster).run)
    running.start()
    wait_until(lambda: folder.status().state is CaptureState.STREAMING and folder.status().events == 2)
    with pytest.raises(BadCapture, match="runs already"):
        CaptureRun(capture, folder, cluster).run()
    notes.run("INSERT INTO notes VALUES (3, 'c')")
    wait_until(lambda: len(ops(bootstrap, f"{capture.name}.notes")) == 3)
    folder.request_snapshot(["notes"])
    wait_until(lambda: len(ops(bootstrap, f"{capture.name}.notes")) == 6)
    folder.pause()
    running.join(WAIT_S)
    assert not running.is_alive()
    assert folder.status().state is CaptureState.PAUSED
    assert ops(bootstrap, f"{capture.name}.notes")[2:] == [(3, "c"), (1, "r"), (2, "r"), (3, "r")]


class Killed(BaseException):
    """Nothing after it runs, as after a kill."""


@pytest.mark.parametrize("database", CASES)
def test_requested_snapshot_survives_a_kill_after_any_commit(
    database: str,
    request: pytest.FixtureRequest,
    name: str,
    cluster: Cluster,
    bootstrap: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = CASES[database](request)
    case.run("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER)", "INSERT INTO t VALUES (1, 0), (2, 0)")
    capture = Capture(name=name, address="sqlite:///", partitions=1)
    folder = Captures(tmp_path / "data").add(capture)
    monkeypatch.setattr(Capture, "open_source", lambda _self: case.open())
    for owner, setting in ((batch, "LINGER_S"), (batch, "LINGER_COMMITS"), (module, "STATUS_S")):
        monkeypatch.setattr(owner, setting, 0)
    CaptureRun(capture, folder, cluster, once=True).run()
    source = case.open()
    (table,) = source.check()
    source.close()
    commit, commits, is_killed, before = Publisher.commit, 0, True, 2

    def commit_and_die(publisher: Publisher, kept: Kept | None) -> None:
        nonlocal commits
        commit(publisher, kept)
        commits += 1
        if commits == 1:
            folder.request_snapshot([table])
        if commits == kill_after:
            raise Killed

    for kill_after in itertools.count(1):
        commits = 0
        case.run(f"UPDATE t SET n = {kill_after}")
        with monkeypatch.context() as patched:
            patched.setattr(Publisher, "commit", commit_and_die)
            with contextlib.suppress(Killed):
                CaptureRun(capture, folder, cluster, once=True).run()
                is_killed = False
        CaptureRun(capture, folder, cluster, once=True).run()
        written = ops(bootstrap, f"{name}.{table}")
        keys = {key for key, op in written[before:] if op == "r"}
        assert keys == {1, 2}, f"lost by a kill after commit {kill_after}"
        before = len(written)
        assert folder.requested_snapshots() == ()
        if not is_killed:
            break
    assert kill_after > 4


def test_database_that_is_away_is_waited_for(
    notes: SourceCase,
    capture: Capture,
    folder: CaptureFolder,
    cluster: Cluster,
    bootstrap: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "RETRY_S_MIN", 0.05)
    monkeypatch.setattr("headrace.cdc.sqlite.changelog.BUSY_TIMEOUT_S", 0.05)
    import sqlite3

    blocker = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
    blocker.execute("BEGIN EXCLUSIVE")
    running = threading.Thread(target=CaptureRun(capture, folder, cluster, once=True).run)
    running.start()
    wait_until(lambda: folder.status().state is CaptureState.RETRYING)
    assert "locked" in folder.status().error
    blocker.execute("ROLLBACK")
    blocker.close()
    running.join(WAIT_S)
    assert ops(bootstrap, f"{capture.name}.notes") == [(1, "r"), (2, "r")]


def test_capture_that_cannot_go_on_fails_with_the_reason(
    notes: SourceCase, capture: Capture, folder: CaptureFolder, cluster: Cluster
) -> None:
    notes.run("CREATE TABLE loose (a)")
    with pytest.raises(BadCapture, match="no primary key"):
        CaptureRun(capture, folder, cluster, once=True).run()
    assert folder.status().state is CaptureState.FAILED
    assert "no primary key" in folder.status().error
