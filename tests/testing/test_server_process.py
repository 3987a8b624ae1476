"""A server of the test kit: it is ready when `start` returns, keeps its data, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.testing import server_process
from headrace.testing.server_process import ServerProcess, ServerUnavailable

SERVER = """
import pathlib, signal, sys, time
mode, folder = sys.argv[1], pathlib.Path(sys.argv[2])
if mode == "ends":
    sys.exit("no room on the disk")
if mode == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
with (folder / "starts").open("a") as starts:
    starts.write("x")
(folder / "ready").touch()
while mode != "silent" or (folder / "ready").unlink() is None:
    time.sleep(1000)
"""


class Server(ServerProcess):
    name = "the server"

    def __init__(self, mode: str = "serves", folder: Path | None = None) -> None:
        super().__init__(folder)
        self._mode = mode

    def _launch(self) -> subprocess.Popen[bytes]:
        (self.folder / "ready").unlink(missing_ok=True)
        with self.log_file.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-c", SERVER, self._mode, str(self.folder)], stdout=log, stderr=log
            )

    def _is_ready(self) -> bool:
        return self._mode != "silent" and (self.folder / "ready").exists()

    @property
    def starts(self) -> int:
        return len((self.folder / "starts").read_text())


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_server_restarts_with_its_data_and_leaves_nothing_behind() -> None:
    with Server() as server:
        first = server.pid
        server.restart()
        assert not is_running(first)
        server.kill()
        server.start()
        assert (server.starts, server.pid != first) == (3, True)
        folder, last = server.folder, server.pid
    assert not folder.exists()
    assert not is_running(last)


def test_folder_of_the_test_is_kept(tmp_path: Path) -> None:
    with Server(folder=tmp_path):
        pass
    assert (tmp_path / "starts").exists()


def test_error_of_a_server_that_ends_has_its_last_output() -> None:
    server = Server("ends")
    with pytest.raises(
        ServerUnavailable, match=r"the server ended with code 1.*\n.*no room on the disk"
    ) as failed:
        server.start()
    assert str(server.log_file) in failed.value.hint


def test_server_that_never_responds_is_an_error_and_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_process, "READY_TIMEOUT_S", 0.2)
    server = Server("silent")
    with pytest.raises(ServerUnavailable, match="did not respond within"):
        server.start()
    with pytest.raises(AssertionError, match="is not running"):
        _ = server.pid


def test_server_that_ignores_its_stop_signal_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_process, "STOP_TIMEOUT_S", 0.1)
    with Server("stubborn") as server:
        pid = server.pid
        os.kill(pid, signal.SIGTERM)
    assert not is_running(pid)
