"""A lease: taken over from a holder that ended, never from one that renews. Of a folder of this machine, because the
lease needs nothing but its operations; tests/contract/test_folders.py takes one in each store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from headrace.pipeline.folders import lease as leases
from headrace.pipeline.folders.lease import Holder, Lease
from headrace.pipeline.folders.local import LocalFolder

HOLD = """
import sys, pathlib
from headrace.pipeline.folders.lease import Lease
from headrace.pipeline.folders.local import LocalFolder
print(Lease(LocalFolder(pathlib.Path(sys.argv[1]))).take(), flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "RENEW_S", 0.05)
    monkeypatch.setattr(leases, "EXPIRY_S", 3.0)
    monkeypatch.setattr(leases, "LOOK_S", 0.02)


@pytest.fixture
def lease(tmp_path: Path) -> Iterator[Lease]:
    lease = new(tmp_path)
    assert lease.take()
    yield lease
    lease.release()


def new(folder: Path) -> Lease:
    return Lease(LocalFolder(folder))


def holder(folder: Path, epoch: int) -> Holder:
    return msgspec.json.decode((folder / f"{epoch:08}.json").read_bytes(), type=Holder)


def write(folder: Path, epoch: int, **changed: object) -> None:
    """A holder on another machine, which renews nothing."""
    found = holder(folder, max(int(path.stem) for path in folder.iterdir()))
    other = msgspec.structs.replace(found, host="elsewhere", machine="other", owner="other", **changed)
    (folder / f"{epoch:08}.json").write_bytes(msgspec.json.encode(other))


def test_lease_that_is_renewed_is_not_taken(lease: Lease, tmp_path: Path) -> None:
    other = new(tmp_path)
    assert not other.take()
    assert other.is_taken()
    assert other.holder() == f"process {os.getpid()} on {holder(tmp_path, 1).host}"
    assert lease.loss() == ""


def test_released_lease_is_taken_immediately(tmp_path: Path) -> None:
    first, second = new(tmp_path), new(tmp_path)
    assert first.take()
    first.release()
    assert not second.is_taken()
    assert second.holder() == ""
    assert second.take()
    assert [path.name for path in tmp_path.iterdir()] == ["00000002.json"]
    second.release()


def test_lease_of_a_killed_process_of_this_machine_is_taken_without_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "EXPIRY_S", 1e9)
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        other = new(tmp_path)
        assert not other.take()
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert not other.is_taken()
    assert other.take()
    other.release()


def test_lease_of_another_machine_is_taken_when_it_has_not_been_renewed(tmp_path: Path) -> None:
    first, second = new(tmp_path), new(tmp_path)
    assert first.take()
    first.release()
    write(tmp_path, 2, is_released=False)
    assert second.take()
    assert holder(tmp_path, 3).pid == os.getpid()
    second.release()


def test_holder_whose_lease_was_taken_has_lost_it(lease: Lease, tmp_path: Path) -> None:
    write(tmp_path, 2)
    for _ in range(400):
        if lease.loss():
            break
        time.sleep(0.02)
    assert lease.loss() == f"process {os.getpid()} on elsewhere has taken the lease"
    assert not lease.is_taken()


def test_holder_that_cannot_renew_has_lost_it_before_another_takes_it(
    lease: Lease, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "RENEW_S", 1e9)
    monkeypatch.setattr(leases, "GIVE_UP_S", -1.0)
    assert lease.loss().startswith("the lease could not be renewed")


def test_damaged_lease_is_no_holder(tmp_path: Path) -> None:
    (tmp_path / "00000007.json").write_text("")
    lease = new(tmp_path)
    assert lease.take()
    assert holder(tmp_path, 8).pid == os.getpid()
    lease.release()
